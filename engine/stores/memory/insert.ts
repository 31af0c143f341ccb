import { checkNewJobs } from "../../rules/check.ts";
import { dueAt, readyState } from "../../rules/state.ts";
import type { InsertedJob, NewJob } from "../../store.ts";
import { addRow, type Data, type Row } from "./data.ts";

export function insert(data: Data, jobs: readonly NewJob[]): InsertedJob[] {
  checkNewJobs(jobs);
  const now = data.runtime.now();
  const rows = jobs.map((job, index) => newRow(job, data.lastId + 1 + index, now));
  for (const row of rows) addRow(data, row);
  data.lastId += rows.length;
  data.wake.emitReady(rows, now);
  return rows.map(({ id, state }) => ({ id, state }));
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
    recurringId: job.recurringId,
    place: 0,
    state: readyState(runAt, now),
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
    progress: null,
    console: null,
  };
}

const NO_PARAMS = Object.freeze({});
