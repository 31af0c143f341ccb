/**
 * Batches themselves: opening, sealing, showing and removing them. Showing one reads an entry of an index for each of its
 * members. What jobs do to their batches is in `members.ts`.
 */
import { checkNesting, noBatch } from "../../rules/batches.ts";
import { checkBatchQuery, checkNewBatch } from "../../rules/check.ts";
import { decodeCursor, encodeCursor } from "../../rules/cursor.ts";
import {
  type BatchId,
  type BatchPage,
  type BatchQuery,
  type BatchRecord,
  JOB_STATES,
  type JobState,
  type NewBatch,
} from "../../store.ts";
import type { Connection, Transaction } from "./connection.ts";
import { settleChildren } from "./dependencies.ts";
import { BatchChanges, readStates } from "./members.ts";
import { decodeTexts, encodeTexts, toDate } from "./rows.ts";
import { Waiting } from "./wake.ts";

// ------------------------------------------------------------------------------------------------------------- open, seal

const TAKE_ID = "UPDATE kiln_sequences SET value = value + 1 WHERE name = 'batches' RETURNING value";
const OPEN = "INSERT INTO kiln_batches (id, parent_id, created_at, description, meta) VALUES (?, ?, ?, ?, ?)";
const NEST =
  "UPDATE kiln_batches SET nested = nested + 1, open_nested = open_nested + 1, needed = needed + 1 WHERE id = ?";

/** One transaction of 2 statements, 4 for a nested batch. */
export async function openBatch(db: Connection, given: NewBatch): Promise<BatchId> {
  const batch = checkNewBatch(given);
  return db.write((tx) => openBatchIn(db, tx, batch));
}

/** `batch` must be the copy that `checkNewBatch` returned. */
export function openBatchIn(db: Connection, tx: Transaction, { description, meta, parent }: NewBatch): BatchId {
  if (parent !== null) {
    const states = readStates(db, [parent]);
    checkNesting(parent, (id) => states.get(id));
    db.run(NEST, parent);
  }
  const [id = 0] = db.get<[BatchId]>(TAKE_ID) ?? [];
  db.run(OPEN, id, parent, tx.now, description, encodeTexts(meta));
  return id;
}

const SEAL = "UPDATE kiln_batches SET sealed = 1 WHERE id = ?";

/** One transaction of 2 statements, and what its finishing costs. */
export async function sealBatch(db: Connection, id: BatchId): Promise<void> {
  return db.write((tx) => sealBatchIn(db, tx, id));
}

export function sealBatchIn(db: Connection, tx: Transaction, id: BatchId): void {
  if (db.run(SEAL, id) === 0) throw noBatch(id, "can't seal");
  const changes = new BatchChanges(db, tx);
  changes.look(id);
  const waiting = new Waiting();
  settleChildren(db, tx, [], waiting, { changes });
  waiting.announce(db, tx);
}

// ----------------------------------------------------------------------------------------------------------------- remove

const ANY = "SELECT 1 FROM kiln_batches LIMIT 1";

/** False while no batch is kept. */
export const anyBatches = (db: Connection): boolean => db.get(ANY) !== undefined;

/** Finished batches that nothing needs any more; ?1 is now, ?2 the age that is kept. */
export const UNUSED_BATCHES = {
  key: "id",
  from: `kiln_batches INDEXED BY kiln_batches_unused
    WHERE finished_at IS NOT NULL AND needed = 0 AND finished_at <= ?1 - ?2`,
  order: "finished_at, id",
} as const;

const FIND_UNUSED = `SELECT id, parent_id FROM ${UNUSED_BATCHES.from} ORDER BY ${UNUSED_BATCHES.order} LIMIT ?3`;
const REMOVE = "DELETE FROM kiln_batches WHERE id IN (SELECT value FROM json_each(?))";
const UNNEST = "UPDATE kiln_batches SET needed = needed - 1 WHERE id = ?";

/** 2 statements, and 1 for each nested batch. */
export function removeBatches(db: Connection, tx: Transaction, age: number, rows: number): number {
  const found = db.all<[BatchId, BatchId | null]>(FIND_UNUSED, tx.now, age, rows);
  for (const [, parent] of found) if (parent !== null) db.run(UNNEST, parent);
  return db.run(REMOVE, JSON.stringify(found.map(([id]) => id)));
}

// ------------------------------------------------------------------------------------------------------------------- show

type BatchRow = readonly [
  id: BatchId,
  parent: BatchId | null,
  sealed: number,
  total: number,
  nested: number,
  openNested: number,
  createdAt: number,
  finishedAt: number | null,
  description: string | null,
  meta: string | null,
];
const COLUMNS = `id, parent_id, sealed, total, nested, open_nested, created_at, finished_at, description, meta`;
const ONE = `SELECT ${COLUMNS} FROM kiln_batches WHERE id = ?`;
const COUNTS = `SELECT state, count(*) FROM kiln_jobs INDEXED BY kiln_jobs_batch WHERE batch_id = ?1 GROUP BY state
  UNION ALL
  SELECT state, count(*) FROM kiln_archive INDEXED BY kiln_archive_batch WHERE batch_id = ?1 GROUP BY state`;

/** 2 statements. */
export async function batch(db: Connection, id: BatchId): Promise<BatchRecord | null> {
  return db.read(() => {
    const row = db.get<BatchRow>(ONE, id);
    return row ? toRecord(db, row) : null;
  });
}

const PAGE = `SELECT ${COLUMNS} FROM kiln_batches WHERE id < ?1 ORDER BY id DESC LIMIT ?2`;
const NESTED_PAGE = `SELECT ${COLUMNS} FROM kiln_batches INDEXED BY kiln_batches_parent
  WHERE parent_id = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2`;
/** Members that are counted at most before the event loop is given free. */
const PORTION = 10_000;

/** A read for the page, and one of 2 statements for each of its batches. */
export async function batches(db: Connection, query: BatchQuery): Promise<BatchPage> {
  const limit = checkBatchQuery(query);
  const [before = Number.POSITIVE_INFINITY] = query.cursor === undefined ? [] : decodeCursor(query.cursor, 1);
  const { parent } = query;
  const found = await db.read(() =>
    parent === undefined
      ? db.all<BatchRow>(PAGE, before, limit + 1)
      : db.all<BatchRow>(NESTED_PAGE, before, limit + 1, parent),
  );
  const page = found.slice(0, limit);
  const records: BatchRecord[] = [];
  let counted = 0;
  for (const [id] of page) {
    const record = await batch(db, id);
    // Retention may have removed it meanwhile.
    if (record === null) continue;
    records.push(record);
    counted += record.total;
    if (counted < PORTION) continue;
    await db.runtime.turn();
    counted = 0;
  }
  const last = page.at(-1);
  return { batches: records, next: last && found.length > page.length ? encodeCursor([last[0]]) : null };
}

function toRecord(db: Connection, row: BatchRow): BatchRecord {
  const [id, parent, sealed, total, nested, openNested, createdAt, finishedAt, description, meta] = row;
  const none = Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>;
  return {
    ...{ id, parent, total, description, nested },
    meta: decodeTexts(meta),
    sealed: sealed === 1,
    counts: { ...none, ...Object.fromEntries(db.all<[JobState, number]>(COUNTS, id)) },
    createdAt: new Date(createdAt),
    finishedAt: toDate(finishedAt),
    nestedFinished: nested - openNested,
  };
}
