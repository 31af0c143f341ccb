/**
 * L1, L2: how soon a dead server's jobs run again. Nobody holds a job for longer than
 *
 *     its server's promise (deadAfter + heartbeatInterval) after its last beat, and as long after its leader's election,
 *     and then heartbeatInterval / 2 (how often a leader looks) and a few round trips
 *
 * so that after a kill it is between deadAfter and deadAfter + 1.5 × heartbeatInterval: 60 to 67.5 seconds at the defaults.
 * When the leader itself died its successor leads leaderTtl × 4/3 later at the latest (L3), 20 seconds, and waits in full.
 *
 * This holds while a leader lives whose calls get through. After a disturbance it may first have to find out that it still
 * leads, and then waits as a new one does.
 */
import type { JobId } from "../../engine/store.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario, SimConfig } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { finished, processOf } from "./calls.ts";
import { CLOCK_ERROR, isRescue, MS, slack } from "./timing.ts";
import type { View } from "./view.ts";

export class RescueTime implements Checker {
  readonly name = "L1 rescue time";
  readonly #view: View;
  readonly #config: SimConfig;
  /** When servers were forgotten that had said goodbye. */
  readonly #forgotten = new Map<string, Micros>();
  /** When servers were killed that had been able to beat until then; not those whose process goes by another id by then. */
  readonly #killed = new Map<string, Micros>();

  constructor(view: View, { config }: Scenario) {
    this.#view = view;
    this.#config = config;
  }

  see(event: HistoryEvent): void {
    if (event.type === "down" && event.how === "killed") this.#kill(event.incarnation, event.at);
    if (event.type !== "commit" || event.error !== undefined) return;
    const { op } = event.call;
    if (op === "unregister") this.#forgotten.set(event.args[0] as string, event.at);
    else if (op === "finish") this.#rescued(event);
    // Often enough to see those that are never rescued.
    else if (op === "lead") this.#look(event);
  }

  #kill(incarnation: string, at: Micros): void {
    const process = this.#view.processes.get(incarnation);
    if (process === undefined || process.paused || process.server === null) return;
    const { heartbeatInterval } = this.#config;
    if (at - this.#view.calmSince(process) > 3 * heartbeatInterval * MS) this.#killed.set(process.server, at);
  }

  #rescued(commit: Commit): void {
    for (const { outcome, result } of finished(commit)) {
      const server = this.#view.rows.get(outcome.id)?.server;
      if (result.status !== "applied" || !isRescue(outcome) || server == null) continue;
      this.#checkSoonEnough(server, commit, outcome.id);
      this.#checkNotTooSoon(server, commit, outcome.id);
    }
  }

  #look(commit: Commit): void {
    for (const [server, jobs] of this.#view.held) {
      const [first] = jobs;
      if (first !== undefined) this.#checkSoonEnough(server, commit, first);
    }
  }

  #checkSoonEnough(server: string, { at, clock }: Commit, job: JobId): void {
    const due = this.#dueAt(server, at, clock);
    const ready = this.#leaderReady(clock);
    if (due === null || ready === null) return;
    const { heartbeatInterval } = this.#config;
    const tick = (heartbeatInterval / 2) * (1 + CLOCK_ERROR) + slack(this.#config, 10);
    const late = (at - Math.max(due, ready)) / MS - tick;
    if (late > 0) throw new Violation("L1", `a job is rescued, or not even that, ${late} ms too late`, job);
  }

  /** A server that beat until it was killed can't be dead sooner than `deadAfter` later. */
  #checkNotTooSoon(server: string, { at }: Commit, job: JobId): void {
    const killed = this.#killed.get(server);
    if (killed === undefined || this.#forgotten.has(server) || this.#view.calm.clockStepped >= killed) return;
    const { deadAfter, heartbeatInterval } = this.#config;
    const least = deadAfter - (deadAfter + heartbeatInterval) * CLOCK_ERROR - slack(this.#config, 4);
    const after = (at - killed) / MS;
    if (after < least) throw new Violation("L1", `a job is rescued ${after} ms after the kill`, job);
  }

  /** From when on a leader that looks finds the server dead; null = not known. */
  #dueAt(server: string, at: Micros, clock: number): Micros | null {
    const known = this.#view.servers.get(server);
    if (known === undefined) return this.#forgotten.get(server) ?? null;
    const left = known.beatClock + known.deadAfter - clock;
    return at + left * MS;
  }

  /** From when on the leader of now looks for orphans; null = there is none, or it is kept from it. */
  #leaderReady(clock: number): Micros | null {
    const lease = this.#view.leaseAt(clock);
    if (lease === null) return null;
    const process = this.#view.processOfServer(lease.holder, lease.incarnation);
    if (process === null || process.paused || process.stoppingAt !== null) return null;
    const { deadAfter, heartbeatInterval, leaderTtl } = this.#config;
    const calm = Math.max(process.resumedAt, this.#view.calm.of(processOf(lease.incarnation)));
    // An answer that was on its way too long is not taken.
    const leads = calm <= lease.askedAt ? lease.since : calm + leaderTtl * MS;
    return leads + (deadAfter + heartbeatInterval) * (1 + CLOCK_ERROR) * MS;
  }
}
