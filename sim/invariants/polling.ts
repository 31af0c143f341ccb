/**
 * L5: a job that is ready is claimed within `pollInterval` and a round trip while a server has a free worker, also when
 * every event that could wake it is lost. Jobs with a limit wait for that, and are not looked at here; nor are queues that
 * are paused. A server counts that is registered, runs, and whose calls get through; after a disturbance it gets the time
 * in which it notices that a call was lost, and a worker that a fence has emptied is free `killGrace` later.
 */
import type { JobId } from "../../engine/store.ts";
import type { Snapshot } from "../cluster/audit.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario, SimConfig } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { CLOCK_ERROR, MS, slack } from "./timing.ts";
import type { ProcessState, View } from "./view.ts";

/** How long a busy pool collects free workers, and what the last lines of a handler's log get; milliseconds. */
const REFILL = 5;
const CONSOLE = 2_000;

export class Polling implements Checker {
  readonly name = "L5 polling";
  readonly #view: View;
  readonly #config: SimConfig;
  /** Since when jobs are ready, the longest first. */
  readonly #ready = new Map<JobId, Micros>();
  /** Since when queues can be claimed from. */
  readonly #resumed = new Map<string, Micros>();
  /** When all workers of a server were last busy, by its id, as the store has it. */
  readonly #fullUntil = new Map<string, Micros>();

  constructor(view: View, { config }: Scenario) {
    this.#view = view;
    this.#config = config;
  }

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    const { op } = event.call;
    if (op === "resumeQueue") this.#resumed.set(event.args[0] as string, event.at);
    // Often enough to see a job that is never claimed.
    if (op === "heartbeat") this.#checkOldest(event);
    for (const { id, before, after } of event.changes) {
      if (before !== null && this.#ready.has(id)) this.#check(event, id, before);
      else if (before?.state === "scheduled" && (op === "claim" || op === "sweep")) this.#check(event, id, before);
      if (before?.state === "processing" && before.server !== null) this.#freed(before.server, event.at);
      if (after?.state === "enqueued") this.#ready.set(id, this.#since(event, id, before));
      else this.#ready.delete(id);
    }
  }

  /** One that was due and not promoted is as ready as one that was. */
  #since({ at, clock }: Commit, id: JobId, before: Snapshot | null): Micros {
    if (before?.state === "enqueued") return this.#ready.get(id) ?? at;
    return before?.state === "scheduled" ? Math.min(at, at + (before.runAt - clock) * MS) : at;
  }

  #freed(server: string, at: Micros): void {
    if (this.#view.heldBy(server) >= this.#config.workers) this.#fullUntil.set(server, at);
  }

  #checkOldest(commit: Commit): void {
    for (const [id] of this.#ready) {
      const row = this.#view.rows.get(id);
      if (row) this.#check(commit, id, row);
      return;
    }
  }

  #check({ at, clock }: Commit, id: JobId, row: Snapshot): void {
    const { state, queue, limitKey, runAt } = row;
    if (limitKey !== null || this.#view.pausedQueues.has(queue)) return;
    const since = state === "scheduled" ? at + (runAt - clock) * MS : (this.#ready.get(id) ?? at);
    const ready = Math.max(since, this.#resumed.get(queue) ?? 0);
    const { pollInterval } = this.#config;
    const most = pollInterval * (1 + CLOCK_ERROR) + REFILL + slack(this.#config, 6);
    if (at - ready <= most * MS) return;
    for (const process of this.#view.processes.values()) {
      const free = this.#freeSince(process);
      const late = free === null ? 0 : (at - Math.max(ready, free)) / MS - most;
      if (late > 0) throw new Violation("L5", `a job is ready and a worker free for ${late} ms too long`, id);
    }
  }

  /** Since when this server could have claimed; null = it can't. */
  #freeSince(process: ProcessState): Micros | null {
    const { server, paused, stoppingAt } = process;
    if (server === null || paused || stoppingAt !== null || !this.#view.isLiving(server)) return null;
    if (this.#view.heldBy(server) >= this.#config.workers) return null;
    const { heartbeatInterval, killGrace } = this.#config;
    const notices = (2 * heartbeatInterval + killGrace + CONSOLE) * (1 + CLOCK_ERROR) * MS;
    return Math.max(this.#view.calmSince(process) + notices, this.#fullUntil.get(server) ?? 0);
  }
}
