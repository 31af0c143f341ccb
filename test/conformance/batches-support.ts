/** What the cases about batches share. */
import assert from "node:assert/strict";
import type { BatchId, BatchRecord, JobId, JobState, NewBatch, NewJob, Store, Writer } from "../../engine/store.ts";
import { ALL_STATES, insertOne } from "./support.ts";

export const openBatch = (writer: Pick<Writer, "openBatch">, fields: Partial<NewBatch> = {}): Promise<BatchId> =>
  writer.openBatch({ description: null, meta: {}, parent: null, ...fields });

export async function batchOf(store: Store, id: BatchId): Promise<BatchRecord> {
  const batch = await store.batch(id);
  assert.ok(batch, `batch ${id} exists`);
  assert.equal(batch.id, id);
  return batch;
}

export const isFinished = async (store: Store, id: BatchId): Promise<boolean> =>
  (await batchOf(store, id)).finishedAt !== null;

/** A job that waits for a batch; in a queue of its own. */
export const insertWaiter = (store: Store, afterBatch: BatchId, fields: Partial<NewJob> = {}): Promise<JobId> =>
  insertOne(store, { queue: "waiters", afterBatch, ...fields });

/** A member that is ready, in queue `default`. */
export const insertMember = (store: Store, batch: BatchId, fields: Partial<NewJob> = {}): Promise<JobId> =>
  insertOne(store, { batch, ...fields });

/** All states, those that are not named with 0. */
export const countsOf = (counts: Partial<Record<JobState, number>>): Record<JobState, number> => ({
  ...(Object.fromEntries(ALL_STATES.map((state) => [state, 0])) as Record<JobState, number>),
  ...counts,
});

/** Refused with this code, naming the place; nothing was stored. */
export async function refusedAs(code: string, place: string, call: Promise<unknown>): Promise<void> {
  await assert.rejects(call, (error: { code?: unknown; message?: string }) => {
    assert.equal(error.code, code, error.message);
    assert.ok(error.message?.includes(place), `${place} is named: ${error.message}`);
    return true;
  });
}
