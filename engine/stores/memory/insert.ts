import { checkNewJobs } from "../../rules/check.ts";
import { dueAt, readyState } from "../../rules/state.ts";
import type { InsertedJob, NewJob } from "../../store.ts";
import { addRow, type Data, type Row } from "./data.ts";
import { keyOf, nextInLine } from "./limits.ts";

export function insert(data: Data, jobs: readonly NewJob[]): InsertedJob[] {
  checkNewJobs(jobs);
  const now = data.runtime.now();
  const rows = jobs.map((job, index) => newRow(job, data.lastId + 1 + index, now));
  const changed = useRules(data, rows);
  for (const row of rows) addRow(data, row);
  data.lastId += rows.length;
  data.wake.emitReady([...rows, ...changed.flatMap((key) => nextInLine(data, key))], now);
  return rows.map(({ id, state }) => ({ id, state }));
}

/** The last rule of the call for each key counts from now on, also if its job is scheduled. Returns keys that it changed. */
function useRules(data: Data, rows: readonly Row[]): string[] {
  const last = new Map(rows.flatMap((row) => (row.limit === null ? [] : [[row.limit.key, row] as const])));
  const changed: string[] = [];
  for (const [key, { id, limit }] of last) {
    const before = data.limits.get(key)?.limit;
    if (limit !== null && keyOf(data, limit, id).limit !== before) changed.push(key);
  }
  return changed;
}

function newRow(job: NewJob, id: number, now: number): Row {
  const runAt = dueAt(job, now);
  return {
    id,
    kind: job.kind,
    queue: job.queue,
    args: job.args,
    priority: job.priority,
    timeout: job.timeout,
    deadline: job.deadline === null ? null : job.deadline.getTime(),
    createdAt: now,
    title: job.title,
    tags: Object.freeze([...job.tags]),
    meta: Object.freeze({ ...job.meta }),
    limit: job.limit === null ? null : Object.freeze({ ...job.limit }),
    lane: null,
    place: 0,
    state: readyState(runAt, now, job.limit !== null),
    claim: 0,
    attempt: 0,
    maxAttempts: job.maxAttempts,
    runAt,
    attemptedAt: null,
    finalizedAt: null,
    server: null,
    sequence: 0,
    cancelRequested: false,
    params: NO_PARAMS,
    history: [],
    output: null,
  };
}

const NO_PARAMS = Object.freeze({});
