import { checkNewJobs } from "../../rules/check.ts";
import { readyState } from "../../rules/state.ts";
import { keptKey, uniqueDueAt } from "../../rules/unique.ts";
import type { InsertedJob, JobId, NewJob } from "../../store.ts";
import { addRow, type Data, type Row } from "./data.ts";
import { duplicateOf, holdersOf, replaceHolder, takeKey } from "./unique.ts";

export function insert(data: Data, jobs: readonly NewJob[]): InsertedJob[] {
  checkNewJobs(jobs);
  const now = data.runtime.now();
  const holders = holdersOf(data, jobs, now);
  const ids = newIds(data, holders);
  const replaced = jobs.map((job, position) => replaceHolder(data, holders[position] ?? null, job, now));
  const added = jobs.flatMap((job, position) => {
    const id = ids[position] ?? 0;
    return holders[position] === null ? [add(data, job, id, now)] : [];
  });
  data.wake.emitReady([...added, ...replaced.filter((row) => row !== null)], now);
  return holders.map((holder, position) => {
    const id = ids[position] ?? 0;
    if (holder !== null) return duplicateOf(data, holder, ids, replaced[position] !== null);
    return { id, state: data.jobs.get(id)?.state ?? "deleted", duplicate: false, replaced: false };
  });
}

/** By position; 0 for duplicates. */
function newIds(data: Data, holders: readonly unknown[]): JobId[] {
  return holders.map((holder) => {
    if (holder !== null) return 0;
    data.lastId += 1;
    return data.lastId;
  });
}

function add(data: Data, job: NewJob, id: JobId, now: number): Row {
  const row = newRow(job, id, now);
  addRow(data, row);
  takeKey(data, id, job, now);
  return row;
}

function newRow(job: NewJob, id: number, now: number): Row {
  const runAt = uniqueDueAt(job, now);
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
    uniqueKey: keptKey(job.unique),
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
  };
}

const NO_PARAMS = Object.freeze({});
