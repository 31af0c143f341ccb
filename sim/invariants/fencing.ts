/**
 * S5: when no heartbeat has got through for `deadAfter - heartbeatInterval - killGrace`, counted on the server's own clock
 * from when the last one that did was sent, it claims nothing more and aborts its handlers. So it does at once when it
 * learns that it was declared dead, and then starts over under a new id.
 */
import type { BeatReply, JobId, ServerInfo } from "../../engine/store.ts";
import { type Checker, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario, SimConfig } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { beatOf, claimQuery, type Of, processOf, type Reply, type Send } from "./calls.ts";
import { MS } from "./timing.ts";

interface Server {
  /** Ids that it was registered under and not declared dead, as far as it knows, each with when its last proof was sent. */
  readonly proven: Map<string, Micros>;
  /** When the last beat that got through was sent, under whichever id. */
  provenAt: Micros;
  resumedAt: Micros;
  paused: boolean;
  /** Parts by which its clock is too fast. */
  readonly rate: number;
  /** Runs that have not been told to stop: job by job and claim. */
  readonly running: Map<string, JobId>;
}

/** Microseconds: a timer is due at a whole one. */
const ROUNDING = 10;

export class Fencing implements Checker {
  readonly name = "S5 fencing";
  readonly #scenario: Scenario;
  readonly #servers = new Map<string, Server>();

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
  }

  get #fenceAfter(): number {
    const { deadAfter, heartbeatInterval, killGrace }: SimConfig = this.#scenario.config;
    return deadAfter - heartbeatInterval - killGrace;
  }

  see(event: HistoryEvent): void {
    if (!("incarnation" in event)) return;
    if (event.type === "up") this.#up(event);
    const server = this.#servers.get(event.incarnation);
    if (server === undefined) return;
    this.#checkStopped(server, event.at);
    const { type } = event;
    if (type === "down" && event.how !== "stopping") this.#servers.delete(event.incarnation);
    else if (type === "paused") server.paused = true;
    else if (type === "resumed") Object.assign(server, { paused: false, resumedAt: event.at });
    else if (type === "start") this.#start(server, event);
    else if (type === "abort" || type === "end") server.running.delete(`${event.job}/${event.claim}`);
    else if (type === "send" && event.call.op === "claim") this.#claim(server, event);
    else if (type === "reply" && event.ok) this.#answered(server, event);
  }

  /** Servers only, and only those that have their fence. */
  #up({ at, incarnation }: Of<"up">): void {
    const process = processOf(incarnation);
    const plan = this.#scenario.servers[Number(process.slice(1))];
    if (process === "client" || plan === undefined || plan.without.includes("heartbeat.no-fence")) return;
    this.#servers.set(incarnation, {
      ...{ proven: new Map<string, Micros>(), provenAt: Number.NEGATIVE_INFINITY, resumedAt: at, paused: false },
      ...{ rate: 1 + plan.drift / 1e6, running: new Map<string, JobId>() },
    });
  }

  /** When it must have stopped, if no later beat gets through. */
  #fenceAt({ provenAt, rate }: Pick<Server, "provenAt" | "rate">): Micros {
    return provenAt + (this.#fenceAfter * MS) / rate + ROUNDING;
  }

  /** No handler goes on, except while it stands still and until it has caught up with that. */
  #checkStopped(server: Server, at: Micros): void {
    if (server.running.size === 0 || server.paused) return;
    const over = at - Math.max(this.#fenceAt(server), server.resumedAt);
    const [job] = server.running.values();
    if (over > 0) throw broken(`a handler goes on ${over / MS} ms after its server had to fence itself`, job);
  }

  #start(server: Server, { at, job, claim }: Of<"start">): void {
    if (at > this.#fenceAt(server)) throw broken("a handler starts on a server that had to fence itself", job);
    server.running.set(`${job}/${claim}`, job);
  }

  #claim(server: Server, { at, call }: Send): void {
    const { server: id } = claimQuery(call);
    const provenAt = server.proven.get(id);
    if (provenAt === undefined) throw broken("a server claims that is not registered");
    if (at > this.#fenceAt({ ...server, provenAt })) throw broken("a server claims that had to fence itself");
  }

  #answered(server: Server, { at, call, result }: Reply): void {
    const { op, sentAt } = call;
    // Later than this the server has given the call up.
    const inTime = at - sentAt <= (this.#scenario.config.heartbeatInterval * MS) / server.rate;
    if (op === "register" && inTime) {
      server.proven.set((call.args[0] as ServerInfo).id, sentAt);
      server.provenAt = Math.max(server.provenAt, sentAt);
    } else if (op === "heartbeat") {
      const { server: id } = beatOf(call);
      const provenAt = server.proven.get(id);
      if (provenAt === undefined) return;
      if ((result as BeatReply).known) {
        server.proven.set(id, Math.max(provenAt, sentAt));
        server.provenAt = Math.max(server.provenAt, sentAt);
      } else if (inTime) this.#declaredDead(server, id, at);
    }
  }

  #declaredDead(server: Server, id: string, at: Micros): void {
    server.proven.delete(id);
    server.provenAt = Math.min(server.provenAt, at - (this.#fenceAfter * MS) / server.rate);
  }
}

const broken = (message: string, job: JobId | null = null): Violation => new Violation("S5", message, job);
