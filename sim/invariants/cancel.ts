/**
 * L10: a handler is told that its job was deleted within a heartbeat and its answer, also when the event that says so is
 * lost, while its process runs and its calls get through.
 */
import type { JobId } from "../../engine/store.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario, SimConfig } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { CLOCK_ERROR, MS, slack } from "./timing.ts";
import type { View } from "./view.ts";

interface Run {
  readonly incarnation: string;
  readonly job: JobId;
  /** Since when its job is asked to stop; null = it is not. */
  askedAt: Micros | null;
}

export class Cancel implements Checker {
  readonly name = "L10 cancel";
  readonly #view: View;
  readonly #config: SimConfig;
  /** Handlers that have not been told to stop, by job and claim. */
  readonly #running = new Map<string, Run>();

  constructor(view: View, { config }: Scenario) {
    this.#view = view;
    this.#config = config;
  }

  see(event: HistoryEvent): void {
    if (event.type === "start") {
      const { incarnation, job, claim } = event;
      const row = this.#view.rows.get(job);
      const asked = row?.claim === claim && row.state === "processing" && row.cancelRequested;
      this.#running.set(`${job}:${claim}`, { incarnation, job, askedAt: asked ? event.at : null });
    } else if (event.type === "abort" || event.type === "end") this.#running.delete(`${event.job}:${event.claim}`);
    else if (event.type === "down" && event.how !== "stopping") this.#forget(event.incarnation);
    else if (event.type === "commit") this.#commit(event);
  }

  #forget(incarnation: string): void {
    for (const [id, run] of this.#running) if (run.incarnation === incarnation) this.#running.delete(id);
  }

  #commit({ at, call, changes }: Commit): void {
    for (const { id, before, after } of changes) {
      if (before?.state !== "processing") continue;
      const run = this.#running.get(`${id}:${before.claim}`);
      if (run === undefined) continue;
      if (after?.state !== "processing") run.askedAt = null;
      else if (after.cancelRequested) run.askedAt ??= at;
    }
    if (call.op !== "heartbeat") return;
    const { heartbeatInterval } = this.#config;
    const most = (2 * heartbeatInterval * (1 + CLOCK_ERROR) + slack(this.#config, 4)) * MS;
    for (const { incarnation, job, askedAt } of this.#running.values()) {
      const process = this.#view.processes.get(incarnation);
      if (askedAt === null || process === undefined || process.paused) continue;
      const late = at - Math.max(askedAt, this.#view.calmSince(process)) - most;
      if (late > 0) throw new Violation("L10", `a handler is not told that its job was deleted, ${late / MS} ms`, job);
    }
  }
}
