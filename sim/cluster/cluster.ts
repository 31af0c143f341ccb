/** The server processes of a scenario: real servers of the engine, each in a simulated process of its own. */

import { Server } from "../../engine/server/server.ts";
import type { ClaimReply, JobId } from "../../engine/store.ts";
import type { History } from "../run/history.ts";
import type { Program } from "../run/program.ts";
import type { Scenario, SimConfig, Target } from "../scenario/scenario.ts";
import { type Incarnation, type Observer, SimProcess } from "../world/process.ts";
import type { Micros, World } from "../world/world.ts";
import type { Call, Database } from "./database.ts";
import { type Machines, nameOf } from "./faults.ts";

const MS = 1_000;

/** One start of a server. */
export interface Running {
  readonly incarnation: Incarnation;
  readonly stop: AbortController;
  /** Claim numbers by job, as the server was told them. */
  readonly claims: Map<JobId, number>;
  stoppingSince: Micros | null;
}

export interface ClusterDeps {
  readonly world: World;
  readonly database: Database;
  readonly history: History;
  readonly observerOf: (server: number) => Observer;
  readonly program: Program;
  readonly clientObserver: Observer;
}

export class Cluster implements Machines {
  readonly client: SimProcess;
  readonly servers: readonly SimProcess[];
  readonly #deps: ClusterDeps;
  readonly #config: SimConfig;
  readonly #running = new Map<Incarnation, Running>();
  /** Nothing that was planned is started any more. */
  #frozen = false;

  constructor(deps: ClusterDeps, scenario: Scenario) {
    this.#deps = deps;
    this.#config = scenario.config;
    this.client = new SimProcess(deps.world, "client", deps.clientObserver);
    this.servers = scenario.servers.map(
      (plan, index) => new SimProcess(deps.world, nameOf(index), deps.observerOf(index), plan),
    );
    this.#later(0, "client/begin", () => this.start("client"));
    for (const [index, plan] of scenario.servers.entries()) {
      this.#later(plan.startAt, `${nameOf(index)}/begin`, () => this.start(index));
    }
  }

  /** Servers that have been started and not ended. */
  get running(): readonly Running[] {
    return [...this.#running.values()].filter(({ incarnation }) => incarnation.alive);
  }

  runningOf(incarnation: Incarnation): Running | undefined {
    return this.#running.get(incarnation);
  }

  /** A server has got the answer to a call: it knows its jobs from now on. */
  replied({ op, from }: Call, result: unknown): void {
    if (op !== "claim") return;
    const claims = this.#running.get(from)?.claims;
    for (const { id, claim } of (result as ClaimReply).jobs) claims?.set(id, claim);
  }

  /** Nothing if it is up. */
  start(target: Target): void {
    const process = this.#process(target);
    if (process === undefined || process.current !== null) return;
    const incarnation = process.start();
    this.#note(incarnation, { type: "up" });
    if (target === "client") this.#deps.program.start(incarnation);
    else this.#serve(incarnation);
  }

  kill(target: Target, restartAfter: number | null): void {
    const process = this.#process(target);
    const current = process?.current;
    if (process === undefined || !current) return;
    process.kill();
    this.#running.delete(current);
    this.#note(current, { type: "down", how: "killed" });
    this.#restart(target, restartAfter);
  }

  shutDown(target: number, restartAfter: number | null): void {
    const current = this.#process(target)?.current;
    const running = current ? this.#running.get(current) : undefined;
    if (current === undefined || running === undefined) return;
    this.stop(running);
    this.#restart(target, restartAfter);
  }

  /** As by SIGTERM. */
  stop(running: Running): void {
    if (running.stoppingSince !== null) return;
    running.stoppingSince = this.#deps.world.now;
    this.#note(running.incarnation, { type: "down", how: "stopping" });
    // The signal is taken like everything else: not by a process that is paused.
    this.#deps.world.add(
      this.#deps.world.now,
      this.#deps.world.label(`${running.incarnation.name}/stop`),
      running.incarnation,
      () => running.stop.abort(),
    );
  }

  pause(target: Target, ms: number): void {
    const process = this.#process(target);
    const current = process?.current;
    if (process === undefined || !current || process.paused) return;
    process.pause();
    this.#later(ms, `${current.name}/resume`, () => {
      if (process.current === current && !this.#frozen) process.resume();
    });
  }

  stepWallClock(target: Target, by: number): void {
    this.#process(target)?.stepWallClock(by);
  }

  /**
   * From now on only the servers of `core` live, and all of them do; the others are gone or stand still for ever.
   */
  settle(core: ReadonlySet<number>, stands: (server: number) => boolean): void {
    this.#frozen = true;
    for (const [index, process] of this.servers.entries()) {
      if (core.has(index)) {
        process.resume();
        const running = process.current ? this.#running.get(process.current) : undefined;
        // One that is about to stop is started anew when it has.
        if (running === undefined || running.stoppingSince !== null) {
          this.kill(index, null);
          this.start(index);
        }
      } else if (stands(index)) process.pause();
      else this.kill(index, null);
    }
    this.client.resume();
    this.start("client");
  }

  #restart(target: Target, after: number | null): void {
    if (after === null) return;
    this.#later(after, `${nameOf(target)}/restart`, () => {
      if (this.#frozen) return;
      // A process that is still stopping is killed, as a supervisor does it.
      this.kill(target, null);
      this.start(target);
    });
  }

  #serve(incarnation: Incarnation): void {
    const { database, world, program } = this.#deps;
    const { queues, backoff } = program;
    const { workers, retention, latency: _, ...intervals } = this.#config;
    const claims = new Map<JobId, number>();
    const stop = new AbortController();
    const running: Running = { incarnation, stop, claims, stoppingSince: null };
    const kept = retention ?? false;
    const server = new Server(database.connect(incarnation), {
      handlers: program.handlers(running),
      pools: [{ queues, workers }],
      ...intervals,
      ...(backoff !== null && { backoff }),
      retention: { succeeded: kept, deleted: kept, failed: false },
      runtime: incarnation,
    });
    this.#running.set(incarnation, running);
    const ended = (): void => {
      this.#running.delete(incarnation);
      this.#note(incarnation, { type: "down", how: "stopped", armed: incarnation.armed });
      if (incarnation.process.current === incarnation) this.#leave(incarnation);
    };
    server.run({ signal: stop.signal }).then(ended, (error: unknown) => world.fail(error));
  }

  /** The process ends once it has nothing left to do, as Node does. */
  #leave(incarnation: Incarnation): void {
    incarnation.process.kill();
  }

  #process(target: Target): SimProcess | undefined {
    return target === "client" ? this.client : this.servers[target];
  }

  #later(ms: number, name: string, fn: () => void): void {
    const { world } = this.#deps;
    world.add(world.now + ms * MS, world.label(name), null, fn);
  }

  #note(
    { name }: Incarnation,
    event:
      | { readonly type: "up" }
      | { readonly type: "down"; readonly how: "killed" | "stopped" | "stopping"; readonly armed?: number },
  ): void {
    this.#deps.history.add({ at: this.#deps.world.now, incarnation: name, ...event });
  }
}
