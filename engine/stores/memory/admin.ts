/** What operators do. */
import { checkFilter } from "../../rules/check.ts";
import { appendHistory, historyEntry } from "../../rules/history.ts";
import { DELETABLE, filterAllows, REQUEUEABLE, requeuedAttempts, waitingState } from "../../rules/state.ts";
import type { HistoryEntry, JobFilter, JobState } from "../../store.ts";
import { change, type Data, fieldsMatch, type Row, tally } from "./data.ts";
import { closeLinks, endedOf, settle } from "./dependencies.ts";
import { releaseKey, retakeKey } from "./unique.ts";

/** Named `deleteJobs` because `delete` is a word of the language. */
export function deleteJobs(data: Data, filter: JobFilter): number {
  const now = data.runtime.now();
  const ended = matching(data, filter, DELETABLE);
  const running = matching(data, filter, ["processing"]).filter((row) => !row.cancelRequested);
  for (const row of ended) {
    closeLinks(data, row);
    const history = historyWith(row, "deleted", row.attempt, "deleted", now);
    change(data, row, { state: "deleted", finalizedAt: now, history });
    releaseKey(data, row);
    tally(data, "deleted", now);
  }
  data.wake.emitReady(settle(data, ended, endedOf(ended), now), now);
  for (const row of running) {
    data.observe?.(row, "change");
    row.cancelRequested = true;
    data.wake.emit({ type: "cancel", id: row.id });
  }
  return ended.length + running.length;
}

export function requeue(data: Data, filter: JobFilter): number {
  const now = data.runtime.now();
  const rows = matching(data, filter, REQUEUEABLE).filter((row) => retakeKey(data, row, now));
  for (const row of rows) {
    change(data, row, {
      ...requeuedAttempts(row.state, row.attempt, row.maxAttempts),
      state: waitingState(row.limit !== null),
      runAt: now,
      finalizedAt: null,
      output: null,
      history: historyWith(row, waitingState(row.limit !== null), row.attempt, "requeued", now),
    });
  }
  data.wake.emitReady(rows, now);
  return rows.length;
}

/** Jobs in one of `states` that the filter names. A list, because the callers change what it was read from. */
function matching(data: Data, filter: JobFilter, states: readonly JobState[]): Row[] {
  checkFilter(filter);
  const matches = (row: Row): boolean => fieldsMatch(row, filter);
  const allowed = states.filter((state) => filterAllows(filter, state));
  if (filter.ids === undefined) return allowed.flatMap((state) => [...data.byState[state]].filter(matches));
  return [...new Set(filter.ids)].flatMap((id) => {
    const row = data.jobs.get(id);
    return row && allowed.includes(row.state) && matches(row) ? [row] : [];
  });
}

function historyWith(row: Row, state: JobState, attempt: number, reason: string, now: number): HistoryEntry[] {
  return appendHistory(row.history, historyEntry({ reason }, state, attempt, null, now));
}

export function pauseQueue(data: Data, queue: string): void {
  data.paused.add(queue);
  data.wake.emit({ type: "queue", queue });
}

export function resumeQueue(data: Data, queue: string): void {
  data.paused.delete(queue);
  data.wake.emit({ type: "queue", queue });
}
