/** Batches themselves: opening, sealing, showing and removing them. What jobs do to their batches is in `members.ts`. */

import { checkNesting, noBatch } from "../../rules/batches.ts";
import { checkBatchQuery, checkNewBatch } from "../../rules/check.ts";
import { decodeCursor, encodeCursor } from "../../rules/cursor.ts";
import { asParent } from "../../rules/dependencies.ts";
import { jobOutlived } from "../../rules/retention.ts";
import {
  type BatchId,
  type BatchPage,
  type BatchQuery,
  type BatchRecord,
  JOB_STATES,
  type JobState,
  type NewBatch,
} from "../../store.ts";
import { type Data, toDate } from "./data.ts";
import { settleChildren } from "./dependencies.ts";
import { type BatchRow, batchOf, finishBatches } from "./members.ts";
import { set } from "./undo.ts";

export function openBatch(data: Data, given: NewBatch): BatchId {
  const batch = checkNewBatch(given);
  const { description, meta } = batch;
  if (batch.parent !== null) checkNesting(batch.parent, (id) => batchOf(data, id));
  const parent = batch.parent === null ? null : (data.batches.get(batch.parent) ?? null);
  if (parent !== null) {
    const { nested, openNested, nestedRows } = parent;
    set(data, parent, { nested: nested + 1, openNested: openNested + 1, nestedRows: nestedRows + 1 });
  }
  const id = data.lastBatch + 1;
  set(data, data, { lastBatch: id });
  data.batches.set(id, {
    ...{ id, description, meta: Object.freeze(meta), parent, createdAt: data.runtime.now(), finishedAt: null },
    ...{ sealed: false, total: 0, nested: 0, openNested: 0, nestedRows: 0 },
    counts: Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>,
  });
  data.undo?.add(() => data.batches.delete(id));
  return id;
}

export function sealBatch(data: Data, id: BatchId): void {
  const row = data.batches.get(id);
  if (!row) throw noBatch(id, "can't seal");
  set(data, row, { sealed: true });
  const now = data.runtime.now();
  data.wake.emitReady(settleChildren(data, finishBatches(data, [row], now), now), now);
}

/** `age` is how long finished ones are kept, milliseconds; null = forever. */
export function pruneBatches(data: Data, age: number | null, now: number, limit: number): number {
  const unused = [...data.batches.values()].filter(
    (row) => row.finishedAt !== null && jobOutlived(row.finishedAt, age, now) && !isNeeded(data, row),
  );
  const removed = unused.slice(0, limit);
  for (const { id, parent } of removed) {
    data.batches.delete(id);
    if (parent !== null) parent.nestedRows -= 1;
  }
  return removed.length;
}

function isNeeded({ links }: Data, { id, nestedRows, counts }: BatchRow): boolean {
  return nestedRows > 0 || links.has(asParent(id)) || JOB_STATES.some((state) => counts[state] > 0);
}

export function batch(data: Data, id: BatchId): BatchRecord | null {
  const row = data.batches.get(id);
  return row ? toRecord(row) : null;
}

export function batches(data: Data, query: BatchQuery): BatchPage {
  const limit = checkBatchQuery(query);
  const [before = Number.POSITIVE_INFINITY] = query.cursor === undefined ? [] : decodeCursor(query.cursor, 1);
  const found = [...data.batches.values()]
    .filter(({ id, parent }) => id < before && (query.parent === undefined || parent?.id === query.parent))
    .sort((a, b) => b.id - a.id);
  const page = found.slice(0, limit);
  const last = page.at(-1);
  return { batches: page.map(toRecord), next: last && found.length > page.length ? encodeCursor([last.id]) : null };
}

function toRecord({ id, description, meta, parent, total, sealed, counts, nested, ...row }: BatchRow): BatchRecord {
  return {
    ...{ id, description, meta, total, sealed, nested },
    parent: parent?.id ?? null,
    counts: { ...counts },
    createdAt: new Date(row.createdAt),
    finishedAt: toDate(row.finishedAt),
    nestedFinished: nested - row.openNested,
  };
}
