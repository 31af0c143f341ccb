/** S7: which attempt of a job it is, and how many it may have. */
import type { JobId } from "../../engine/store.ts";
import type { Change, Snapshot } from "../cluster/audit.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import { finished } from "./calls.ts";

/** Reasons for which no attempt is used, and those for which it counts: the table in docs/concepts.md. */
const FREE: ReadonlySet<string> = new Set(["snoozed", "shutdown", "lost", "late start"]);
const COUNTED: ReadonlySet<string> = new Set([
  "retry",
  "exhausted",
  "permanent",
  "orphaned",
  "deadline",
  "output rejected",
]);
/** The last allowed attempt ends these. */
const REPEATED: ReadonlySet<string> = new Set(["retry", "orphaned"]);

export class AttemptCount implements Checker {
  readonly name = "S7 attempts";

  see(event: HistoryEvent): void {
    if (event.type !== "commit" || event.changes.length === 0) return;
    const { call, changes } = event;
    if (call.op === "finish") this.#finish(event);
    else for (const change of changes) this.#check(call.op, change);
  }

  #check(op: string, { id, before, after }: Change): void {
    if (after === null) return;
    if (before === null) {
      if (after.attempt !== 0) throw broken(id, `a new job has attempt ${after.attempt}`);
      return;
    }
    const { attempt, maxAttempts } = expected(op, before, after);
    if (after.attempt !== attempt)
      throw broken(id, `${op} takes the attempt from ${before.attempt} to ${after.attempt}`);
    if (after.maxAttempts !== maxAttempts) throw broken(id, `${op} changes maxAttempts to ${after.maxAttempts}`);
    if (after.state === "processing" && after.attempt > after.maxAttempts) {
      throw broken(id, `attempt ${after.attempt} of ${after.maxAttempts} is run`);
    }
  }

  #finish(commit: Commit): void {
    const outcomes = new Map(
      finished(commit).flatMap(({ outcome, result }) => (result.status === "applied" ? [[outcome.id, outcome]] : [])),
    );
    for (const change of commit.changes) {
      const { id, before, after } = change;
      const outcome = outcomes.get(id);
      if (outcome === undefined || before === null || after === null) {
        this.#check("finish", change);
        continue;
      }
      const { reason, refund } = outcome;
      const wrong = reason !== null && (refund ? COUNTED : FREE).has(reason);
      if (wrong) throw broken(id, `an attempt that ended as ${reason} ${refund ? "does not count" : "counts"}`);
      const attempt = before.attempt - (refund && before.attempt > 0 ? 1 : 0);
      if (after.attempt !== attempt)
        throw broken(id, `a result takes the attempt from ${before.attempt} to ${after.attempt}`);
      if (after.maxAttempts !== before.maxAttempts) throw broken(id, "a result changes maxAttempts");
      const last = before.attempt >= before.maxAttempts;
      const goes = after.state === "scheduled" || after.state === "enqueued" || after.state === "throttled";
      if (last && goes && REPEATED.has(reason ?? "")) throw broken(id, `the last attempt was not the last: ${reason}`);
      if (!last && reason === "exhausted") throw broken(id, "a job fails before its last attempt");
      if (!last && reason === "orphaned" && after.state === "failed")
        throw broken(id, "a rescued job fails before its last attempt");
    }
  }
}

/** A claim is one attempt more; requeueing starts over, but a job that only waits gets one more if it has none left. */
function expected(op: string, before: Snapshot, after: Snapshot): { attempt: number; maxAttempts: number } {
  const { attempt, maxAttempts } = before;
  if (op === "claim" && after.state === "processing") return { attempt: attempt + 1, maxAttempts };
  if (op !== "requeue" || before.state === after.state) return { attempt, maxAttempts };
  if (before.state === "scheduled") return { attempt, maxAttempts: Math.max(maxAttempts, attempt + 1) };
  return { attempt: 0, maxAttempts };
}

const broken = (id: JobId, message: string): Violation => new Violation("S7", message, id);
