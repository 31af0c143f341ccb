/**
 * S8: the first rescue sends a job straight back to its queue; one that is rescued twice in a row waits for its backoff, so
 * that a job which takes down its processes does not go from one to the next without a pause.
 */
import type { JobId } from "../../engine/store.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import { backoff } from "../run/program.ts";
import { finished } from "./calls.ts";

export class RescueBackoff implements Checker {
  readonly name = "S8 rescue backoff";
  /** Jobs whose latest entry in their history is a rescue. */
  readonly #rescued = new Set<JobId>();

  see(event: HistoryEvent): void {
    if (event.type !== "commit" || event.changes.length === 0) return;
    const reasons = new Map<JobId, string | null>();
    for (const { outcome, result } of finished(event)) {
      if (result.status === "applied") reasons.set(outcome.id, outcome.reason);
    }
    for (const { id, before, after } of event.changes) {
      const reason = reasons.get(id);
      if (reason === "orphaned" && after !== null && before !== null) this.#check(event, id, before.attempt, after);
      // A claim leaves no entry, nor does a success, after which only an operator can start the job again.
      if (reason === "orphaned" && after?.state !== "deleted") this.#rescued.add(id);
      else if (after?.state !== "processing" && !isWaiting(event, reason)) this.#rescued.delete(id);
    }
  }

  #check(
    { clock }: Commit,
    id: JobId,
    attempt: number,
    after: { readonly state: string; readonly runAt: number },
  ): void {
    const { state, runAt } = after;
    if (state === "failed" || state === "deleted") return;
    if (!this.#rescued.has(id)) {
      if (state === "scheduled") throw new Violation("S8", "the first rescue of a job in a row lets it wait", id);
      return;
    }
    const wait = backoff(attempt, null, () => 0);
    if (state !== "scheduled")
      throw new Violation("S8", "a job that was rescued twice in a row runs again at once", id);
    if (runAt - clock < wait)
      throw new Violation("S8", `a job rescued twice in a row waits ${runAt - clock} of ${wait} ms`, id);
  }
}

/** It becomes due, which is not for any reason. */
const isWaiting = ({ call }: Commit, reason: string | null | undefined): boolean =>
  reason === undefined && (call.op === "claim" || call.op === "sweep");
