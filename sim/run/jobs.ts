/** The jobs as the database has them, kept up to date from its commits. */
import type { JobId, JobState } from "../../engine/store.ts";
import type { Snapshot } from "../cluster/audit.ts";
import type { Checker, HistoryEvent } from "./history.ts";

const ENDED: ReadonlySet<JobState> = new Set(["succeeded", "deleted"]);

export class Jobs implements Checker {
  readonly name = "jobs";
  readonly rows = new Map<JobId, Snapshot>();
  #open = 0;

  /** Jobs that have not succeeded and are not deleted. */
  get open(): number {
    return this.#open;
  }

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    for (const { id, before, after } of event.changes) {
      if (before !== null && !ENDED.has(before.state)) this.#open -= 1;
      if (after !== null && !ENDED.has(after.state)) this.#open += 1;
      if (after === null) this.rows.delete(id);
      else this.rows.set(id, after);
    }
  }
}
