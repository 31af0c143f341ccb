/**
 * The world as it was before the event that is being looked at: the jobs, the servers that the store knows, the processes
 * and what disturbs them. Told from the history alone, by the words of the documents; all checkers share it.
 */
import type { JobId, LeadQuery, LeadReply, ServerInfo } from "../../engine/store.ts";
import type { Change, Snapshot } from "../cluster/audit.ts";
import type { Checker, Commit, HistoryEvent } from "../run/history.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { beatOf, processOf, type Reply, type Send } from "./calls.ts";
import { Calm } from "./calm.ts";
import { CLOCK_ERROR, MS } from "./timing.ts";

/** A server as the store has it. */
export interface ServerState {
  readonly id: string;
  readonly incarnation: string;
  /** Its own promise: silence after which it counts as dead, milliseconds. */
  readonly deadAfter: number;
  /** When it was heard last. */
  beatAt: Micros;
  /** The same by the store's clock. */
  beatClock: number;
  /** It was declared dead. */
  dead: boolean;
}

/** One start of a process. */
export interface ProcessState {
  readonly incarnation: string;
  readonly upAt: Micros;
  paused: boolean;
  /** When it last went on after a pause; when it came up, if it never stood still. */
  resumedAt: Micros;
  /** When it was told to stop. */
  stoppingAt: Micros | null;
  /** The id that it was registered with last, as far as it knows. */
  server: string | null;
}

/** The leader's lease. */
export interface LeaseState {
  readonly holder: string;
  /** The start of a process that asked for it. */
  readonly incarnation: string;
  /** Since when it has held it without a break. */
  readonly since: Micros;
  /** When the call was sent that it got it with. */
  readonly askedAt: Micros;
  readonly sinceClock: number;
  /** By the store's clock. */
  readonly expires: number;
}

export class View implements Checker {
  readonly name = "view";
  readonly rows = new Map<JobId, Snapshot>();
  /** Jobs that are processing, by the id of their server. */
  readonly held = new Map<string, Set<JobId>>();
  /** Registered and not forgotten. */
  readonly servers = new Map<string, ServerState>();
  /** Those that are up, by incarnation. */
  readonly processes = new Map<string, ProcessState>();
  readonly pausedQueues = new Set<string>();
  readonly calm: Calm;
  /** The latest, which may have run out; null = none, or given up. */
  lease: LeaseState | null = null;
  /** Milliseconds that the store's clock is ahead of the world's, as far as calls have shown. */
  clockAhead = 0;
  now: Micros = 0;
  readonly #heartbeatInterval: number;

  constructor(scenario: Scenario) {
    this.calm = new Calm(scenario);
    this.#heartbeatInterval = scenario.config.heartbeatInterval;
  }

  /** Registered, heard of, and not declared dead: it may claim and beat. */
  isLiving(server: string): boolean {
    return this.servers.get(server)?.dead === false;
  }

  /** Since when nothing has kept this process from its work: it is up, not paused, and its calls get through. */
  calmSince(process: ProcessState): Micros {
    return Math.max(process.resumedAt, this.calm.of(processOf(process.incarnation)));
  }

  /** The lease, unless it has run out by now. */
  leaseAt(clock: number): LeaseState | null {
    return this.lease !== null && this.lease.expires > clock ? this.lease : null;
  }

  /** The process whose server has this id now, as far as it knows itself. */
  processOfServer(id: string, incarnation: string): ProcessState | null {
    const process = this.processes.get(incarnation);
    return process?.server === id ? process : null;
  }

  heldBy(server: string): number {
    return this.held.get(server)?.size ?? 0;
  }

  see(event: HistoryEvent): void {
    this.now = event.at;
    this.calm.see(event);
    switch (event.type) {
      case "commit":
        this.#commit(event);
        return;
      case "up":
        this.processes.set(event.incarnation, {
          ...{ incarnation: event.incarnation, upAt: event.at, resumedAt: event.at },
          ...{ paused: false, stoppingAt: null, server: null },
        });
        return;
      case "down": {
        const process = this.processes.get(event.incarnation);
        if (event.how !== "stopping") this.processes.delete(event.incarnation);
        else if (process) process.stoppingAt = event.at;
        return;
      }
      case "paused":
      case "resumed": {
        const process = this.processes.get(event.incarnation);
        if (process === undefined) return;
        process.paused = event.type === "paused";
        if (!process.paused) process.resumedAt = event.at;
        return;
      }
      case "reply":
        if (event.ok && event.call.op === "register") this.#registered(event);
        return;
      case "send":
        if (event.call.op === "heartbeat" || event.call.op === "claim") this.#speaks(event);
    }
  }

  /** Later than this the server has given the call up, and tries again under another id. */
  #registered({ at, incarnation, call }: Reply): void {
    const process = this.processes.get(incarnation);
    const inTime = at - call.sentAt <= this.#heartbeatInterval * MS * (1 + CLOCK_ERROR);
    if (process && inTime) process.server = (call.args[0] as ServerInfo).id;
  }

  #speaks({ incarnation, call }: Send): void {
    const process = this.processes.get(incarnation);
    if (process) process.server = (call.args[0] as { readonly server: string }).server;
  }

  #commit(commit: Commit): void {
    const { at, clock, call, args, changes } = commit;
    this.clockAhead = clock - at / 1e3;
    for (const change of changes) this.#change(change);
    if (commit.error !== undefined) return;
    if (call.op === "register") {
      const { id, deadAfter } = args[0] as ServerInfo;
      this.servers.set(id, {
        ...{ id, deadAfter, incarnation: call.from.name },
        ...{ beatAt: at, beatClock: clock, dead: false },
      });
    } else if (call.op === "heartbeat") {
      const server = this.servers.get(beatOf(commit).server);
      if (server && !server.dead) Object.assign(server, { beatAt: at, beatClock: clock });
    } else if (call.op === "unregister") this.servers.delete(args[0] as string);
    else if (call.op === "lead") this.#lead(commit);
    else if (call.op === "resign") {
      if (this.lease?.holder === (args[0] as LeadQuery).holder) this.lease = null;
    } else if (call.op === "orphans") this.#declareDead(clock);
    else if (call.op === "pauseQueue") this.pausedQueues.add(args[0] as string);
    else if (call.op === "resumeQueue") this.pausedQueues.delete(args[0] as string);
    else if (call.op === "prune") this.#forget(clock, (args[0] as { servers: number }).servers);
  }

  #lead({ at, clock, call, args, result }: Commit): void {
    if (!(result as LeadReply).held) return;
    const { holder, ttl } = args[0] as LeadQuery;
    const held = this.leaseAt(clock);
    const taken = { since: at, askedAt: call.sentAt, sinceClock: clock };
    const { since, askedAt, sinceClock } = held?.holder === holder ? held : taken;
    this.lease = { holder, incarnation: call.from.name, since, askedAt, sinceClock, expires: clock + ttl };
  }

  /** `orphans` declares dead each server that has been silent for longer than its `deadAfter`. */
  #declareDead(clock: number): void {
    for (const server of this.servers.values()) {
      if (clock - server.beatClock > server.deadAfter) server.dead = true;
    }
  }

  /** `prune` removes rows of servers silent for longer than asked and than their own `deadAfter`. */
  #forget(clock: number, age: number): void {
    for (const { id, beatClock, deadAfter } of [...this.servers.values()]) {
      if (clock - beatClock > Math.max(age, deadAfter)) this.servers.delete(id);
    }
  }

  #change({ id, before, after }: Change): void {
    if (before?.state === "processing" && before.server !== null) this.held.get(before.server)?.delete(id);
    if (after?.state === "processing" && after.server !== null) {
      const held = this.held.get(after.server);
      if (held) held.add(id);
      else this.held.set(after.server, new Set([id]));
    }
    if (after === null) this.rows.delete(id);
    else this.rows.set(id, after);
  }
}
