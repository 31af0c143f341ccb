import { type BatchState, checkJoins } from "../../rules/batches.ts";
import { type Birth, births, splitParents } from "../../rules/dependencies.ts";
import { checkInsert } from "../../rules/held.ts";
import { historyEntry } from "../../rules/history.ts";
import { readyState } from "../../rules/state.ts";
import { keptKey, uniqueDueAt } from "../../rules/unique.ts";
import type { BatchId, InsertedJob, InsertOptions, JobId, NewJob } from "../../store.ts";
import { addRow, type Data, type Row, tally } from "./data.ts";
import { addLinks } from "./dependencies.ts";
import { requireHeld } from "./finish.ts";
import { keyOf, nextInLine } from "./limits.ts";
import { batchOf, join } from "./members.ts";
import { duplicateOf, holdersOf, replaceHolder, takeKey } from "./unique.ts";

export function insert(data: Data, given: readonly NewJob[], options?: InsertOptions): InsertedJob[] {
  const { jobs, whileHeld } = checkInsert(given, options);
  if (whileHeld !== null) requireHeld(data, whileHeld);
  const now = data.runtime.now();
  const holders = holdersOf(data, jobs, now);
  const ids = newIds(data, holders);
  const batches = (id: BatchId): BatchState | undefined => batchOf(data, id);
  const born = births({ jobs, holders, ids, stateOf: (id) => data.jobs.get(id)?.state, batchOf: batches });
  checkJoins(jobs, holders, batches);
  takeIds(data, holders.filter((holder) => holder === null).length);
  const added = jobs.flatMap((job, position) => {
    const birth = born[position] as Birth;
    return holders[position] === null ? [{ job, birth, row: newRow(job, ids[position] ?? 0, birth, now) }] : [];
  });
  const replaced = jobs.map((job, position) => replaceHolder(data, holders[position] ?? null, job, now));
  const rows = added.map(({ row }) => row);
  const changed = useRules(data, rows);
  for (const { job, birth, row } of added) add(data, job, row, birth, now);
  const next = changed.flatMap((key) => nextInLine(data, key));
  data.wake.emitReady([...rows, ...replaced.filter((row) => row !== null), ...next], now);
  return holders.map((holder, position) => {
    const id = ids[position] ?? 0;
    if (holder !== null) return duplicateOf(data, holder, ids, replaced[position] !== null);
    return { id, state: data.jobs.get(id)?.state ?? "deleted", duplicate: false, replaced: false };
  });
}

/** By position; 0 for duplicates. */
function newIds(data: Data, holders: readonly unknown[]): JobId[] {
  let last = data.lastId;
  return holders.map((holder) => {
    if (holder !== null) return 0;
    last += 1;
    return last;
  });
}

function takeIds(data: Data, count: number): void {
  const { lastId } = data;
  data.lastId += count;
  data.undo?.add(() => {
    data.lastId = lastId;
  });
}

/** The last rule of the call for each key counts from now on, also if its job has to wait. Returns keys that it changed. */
function useRules(data: Data, rows: readonly Row[]): string[] {
  const counting = rows.filter(({ state }) => state !== "deleted");
  const last = new Map(counting.flatMap((row) => (row.limit === null ? [] : [[row.limit.key, row] as const])));
  const changed: string[] = [];
  for (const [key, { id, limit }] of last) {
    const before = data.limits.get(key)?.limit;
    if (limit !== null && keyOf(data, limit, id).limit !== before) changed.push(key);
  }
  return changed;
}

function add(data: Data, job: NewJob, row: Row, birth: Birth, now: number): void {
  addRow(data, row);
  join(data, row.batch);
  addLinks(data, row, birth);
  if (birth.doomedBy === null) takeKey(data, row.id, job, now);
  else tally(data, "deleted", now);
}

/** What becomes of a job at its birth. */
function firstState(
  { doomedBy, pending }: Birth,
  runAt: number,
  now: number,
  limited: boolean,
): Pick<Row, "state" | "history"> {
  if (doomedBy !== null)
    return { state: "deleted", history: [historyEntry({ reason: doomedBy }, "deleted", 0, null, now)] };
  return { state: pending > 0 ? "awaiting" : readyState(runAt, now, limited), history: [] };
}

function newRow(job: NewJob, id: number, birth: Birth, now: number): Row {
  const runAt = uniqueDueAt(job, now);
  const { parents, afterBatch } = splitParents(birth.links.map(({ parent }) => parent));
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
    uniqueKey: keptKey(job.unique),
    parents: Object.freeze(parents),
    batch: job.batch,
    afterBatch,
    pendingParents: birth.pending,
    limit: job.limit === null ? null : Object.freeze({ ...job.limit }),
    lane: null,
    place: 0,
    ...firstState(birth, runAt, now, job.limit !== null),
    claim: 0,
    attempt: 0,
    maxAttempts: job.maxAttempts,
    runAt,
    attemptedAt: null,
    finalizedAt: birth.doomedBy === null ? null : now,
    server: null,
    sequence: 0,
    cancelRequested: false,
    params: NO_PARAMS,
    output: null,
    progress: null,
    console: null,
  };
}

const NO_PARAMS = Object.freeze({});
