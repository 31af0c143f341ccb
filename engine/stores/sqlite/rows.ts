/** Rows as the jobs that cross the contract, and back. */
import { splitParents } from "../../rules/dependencies.ts";
import { decodeHistory } from "../../rules/history.ts";
import { CHILDREN_SHOWN } from "../../rules/limits.ts";
import type { BatchId, ClaimedJob, JobFields, JobId, JobRecord, JobState, JsonText } from "../../store.ts";
import type { Connection } from "./connection.ts";

/** Columns of `JobFields` and `attemptedAt`, in the order of `FieldsRow`. */
export const FIELDS = `id, claim, kind, queue, args, priority, attempt, max_attempts, timeout, run_at, deadline, created_at,
  title, tags, meta, params, attempted_at, recurring_id, parents, limit_key, batch_id`;

export type FieldsRow = readonly [
  id: JobId,
  claim: number,
  kind: string,
  queue: string,
  args: JsonText,
  priority: number,
  attempt: number,
  maxAttempts: number,
  timeout: number | null,
  runAt: number,
  deadline: number | null,
  createdAt: number,
  title: string | null,
  tags: string | null,
  meta: string | null,
  params: string | null,
  attemptedAt: number | null,
  recurringId: string | null,
  parents: string | null,
  limitKey: string | null,
  batch: BatchId | null,
];

type RecordRow = readonly [
  ...FieldsRow,
  state: JobState,
  finalizedAt: number | null,
  server: string | null,
  cancelRequested: number,
  history: string | null,
  output: JsonText | null,
  progress: number | null,
  pendingParents: number,
  children: string,
];

const FIELD_COUNT = 21;
const PROGRESS = "(SELECT percent FROM kiln_progress WHERE job = id)";
/** As JSON. */
function childrenOf(table: string): string {
  const children = (resolved: number): string =>
    `SELECT job_id FROM kiln_dependencies WHERE resolved = ${resolved} AND parent_id = ${table}.id`;
  return `(SELECT json_group_array(job_id) FROM (
    ${children(0)} UNION ALL ${children(1)} ORDER BY job_id LIMIT ${CHILDREN_SHOWN}))`;
}

const RECORD_OF = {
  kiln_jobs: `${FIELDS}, state, finalized_at, server, cancel_requested, history, NULL, ${PROGRESS}, pending_parents,
    ${childrenOf("kiln_jobs")}`,
  kiln_archive: `${FIELDS}, state, finalized_at, server, 0, history, output, ${PROGRESS}, 0,
    ${childrenOf("kiln_archive")}`,
} as const;

export type JobTable = keyof typeof RECORD_OF;

const ONE_RECORD = `SELECT ${RECORD_OF.kiln_jobs} FROM kiln_jobs WHERE id = ?1
  UNION ALL SELECT ${RECORD_OF.kiln_archive} FROM kiln_archive WHERE id = ?1`;

const RECORDS = {
  kiln_jobs: `SELECT ${RECORD_OF.kiln_jobs} FROM kiln_jobs WHERE id IN (SELECT value FROM json_each(?1))`,
  kiln_archive: `SELECT ${RECORD_OF.kiln_archive} FROM kiln_archive WHERE id IN (SELECT value FROM json_each(?1))`,
} as const;

/** The job wherever it is. */
export function readRecord(db: Connection, id: JobId): JobRecord | null {
  const row = db.get<RecordRow>(ONE_RECORD, id);
  return row ? toRecord(row) : null;
}

/** Jobs of one table in the order of `ids`, each of which must be there. */
export function readRecords(db: Connection, table: JobTable, ids: readonly JobId[]): JobRecord[] {
  return inOrder(db.all<RecordRow>(RECORDS[table], JSON.stringify(ids)), ids).map(toRecord);
}

/** `rows`, whose first column is their id, in the order of `ids`. */
export function inOrder<Row extends readonly [JobId, ...unknown[]]>(
  rows: readonly Row[],
  ids: readonly JobId[],
): Row[] {
  const byId = new Map(rows.map((row) => [row[0], row]));
  return ids.flatMap((id) => {
    const row = byId.get(id);
    return row ? [row] : [];
  });
}

/** The job of a row that was read just before the claim. */
export function toClaimed(row: FieldsRow, now: number, limited: boolean): ClaimedJob {
  const before = toFields(row);
  return { ...before, claim: before.claim + 1, attempt: before.attempt + 1, limited, attemptedAt: new Date(now) };
}

function toRecord(row: RecordRow): JobRecord {
  const [state, finalizedAt, server, cancelRequested, history, output, progress, pendingParents, children] = row.slice(
    FIELD_COUNT,
  ) as [
    JobState,
    number | null,
    string | null,
    number,
    string | null,
    JsonText | null,
    number | null,
    pendingParents: number,
    children: string,
  ];
  return {
    ...toFields(row as unknown as FieldsRow),
    state,
    attemptedAt: toDate(row[16]),
    finalizedAt: toDate(finalizedAt),
    server,
    cancelRequested: cancelRequested === 1,
    history: history === null ? [] : decodeHistory(history),
    output,
    progress,
    afterBatch: decodeParents(row[18]).afterBatch,
    pendingParents,
    children: JSON.parse(children) as JobId[],
  };
}

function toFields(row: FieldsRow): JobFields {
  const [id, claim, kind, queue, args, priority, attempt, maxAttempts, timeout, runAt, deadline, createdAt] = row;
  return {
    id,
    claim,
    kind,
    queue,
    args,
    priority,
    attempt,
    maxAttempts,
    timeout,
    runAt: new Date(runAt),
    deadline: toDate(deadline),
    createdAt: new Date(createdAt),
    title: row[12],
    tags: decodeTags(row[13]),
    meta: decodeTexts(row[14]),
    recurringId: row[17],
    limitKey: row[19],
    params: decodeTexts(row[15]),
    parents: decodeParents(row[18]).parents,
    batch: row[20],
  };
}

export const toDate = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

export const encodeTags = (tags: readonly string[]): string | null => (tags.length === 0 ? null : JSON.stringify(tags));

export const decodeTags = (text: string | null): string[] => (text === null ? [] : (JSON.parse(text) as string[]));

export const encodeIds = (ids: readonly number[]): string | null => (ids.length === 0 ? null : JSON.stringify(ids));

/** All that a job waits, or has waited, for. */
export const decodeParents = (text: string | null): ReturnType<typeof splitParents> =>
  splitParents(text === null ? [] : (JSON.parse(text) as number[]));

/** For meta and for params, whose values are JSON text and come back as they were encoded. */
export function encodeTexts(texts: Readonly<Record<string, string>>): string | null {
  const text = JSON.stringify(texts);
  return text === "{}" ? null : text;
}

export function decodeTexts(text: string | null): Record<string, string> {
  return text === null ? {} : (JSON.parse(text) as Record<string, string>);
}
