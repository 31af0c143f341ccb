/**
 * S20: a claim takes what is asked for, due and not paused, and of that what comes first: queues in the order asked for, in
 * each queue higher priority before lower, then the older job. Which of the jobs with a limit may start is looked at elsewhere.
 */
import type { ClaimQuery, JobId } from "../../engine/store.ts";
import type { Snapshot } from "../cluster/audit.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import { claimQuery } from "./calls.ts";
import { enters, PausedQueues, type Taken, taken } from "./commits.ts";

export class Choice implements Checker {
  readonly name = "S20 choice";
  readonly #paused = new PausedQueues();
  /** Enqueued. */
  readonly #ready = new Map<JobId, Snapshot>();

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    this.#paused.see(event);
    for (const change of event.changes) {
      const { id, after } = change;
      if (after?.state === "enqueued") this.#ready.set(id, after);
      else this.#ready.delete(id);
      for (const state of ["enqueued", "throttled", "processing"] as const) {
        if (enters(change, state)) checkDue(event, id, change.before, change.after as Snapshot);
      }
    }
    for (const one of taken(event)) this.#check(one, claimQuery(event));
  }

  #check({ id, row }: Taken, { queues, kinds }: ClaimQuery): void {
    const asked = queues.includes(row.queue) && (kinds.length === 0 || kinds.includes(row.kind));
    if (!asked) throw broken(id, "a claim takes a job that it has not asked for");
    if (this.#paused.has(row.queue)) throw broken(id, "a claim takes a job of a paused queue");
    if (row.limitKey !== null) return;
    for (const [other, left] of this.#ready) {
      const claimable = queues.includes(left.queue) && (kinds.length === 0 || kinds.includes(left.kind));
      if (!claimable || this.#paused.has(left.queue)) continue;
      const place = queues.indexOf(left.queue) - queues.indexOf(row.queue);
      if (place < 0) throw broken(id, `a claim takes a job, and leaves job ${other} of a queue that comes before`);
      if (place === 0 && isMoreUrgent(left.priority, other, row.priority, id)) {
        throw broken(id, `a claim takes a job, and leaves job ${other} that comes before it`);
      }
    }
  }
}

/** Also one that had been scheduled when it was taken. Who waits already may be given another time, but goes on waiting. */
function checkDue({ clock }: Commit, id: JobId, before: Snapshot | null, after: Snapshot): void {
  const waited = before?.state === "enqueued" || before?.state === "throttled";
  if (after.runAt > clock && !waited) throw broken(id, `a job is ready ${after.runAt - clock} ms before it is due`);
}

const isMoreUrgent = (priority: number, id: JobId, otherPriority: number, otherId: JobId): boolean =>
  priority !== otherPriority ? priority > otherPriority : id < otherId;

const broken = (job: JobId, what: string): Violation => new Violation("S20", what, job);
