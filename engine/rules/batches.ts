/** What batches ask of the jobs and batches that join them. */
import { ClosedError, NotFoundError } from "../errors.ts";
import { invalid } from "../problems.ts";
import type { BatchId, NewJob } from "../store.ts";
import type { Holder } from "./unique.ts";

export const BATCH_RULE = "must be the id of a batch";

export const isBatch = (id: unknown): id is BatchId => Number.isSafeInteger(id) && Number(id) >= 1;

/** What the batches of one job must be; `check` adds a problem with a field unless `ok`. */
export function checkBatches(
  { batch, afterBatch }: NewJob,
  check: (ok: boolean, field: string, value: unknown, rule: string) => void,
): void {
  check(batch === null || isBatch(batch), "batch", batch, BATCH_RULE);
  check(afterBatch === null || isBatch(afterBatch), "afterBatch", afterBatch, BATCH_RULE);
  const another = batch === null || batch !== afterBatch;
  check(another, "afterBatch", afterBatch, "must not be the batch that the job joins");
}

export interface BatchState {
  readonly finished: boolean;
  /** The batch that it is nested in. */
  readonly parent: BatchId | null;
}

type BatchOf = (id: BatchId) => BatchState | undefined;

/** True when `checkJoins` asks for the batches that those named are nested in, too. */
export const asksForParents = (jobs: readonly NewJob[]): boolean =>
  jobs.some(({ batch, afterBatch }) => batch !== null && afterBatch !== null);

/** Batches that new jobs name; duplicates join none and wait for none. */
export function namedBatches(jobs: readonly NewJob[], holders: readonly (Holder | null)[] | null): BatchId[] {
  const ids = new Set<BatchId>();
  jobs.forEach(({ batch, afterBatch }, position) => {
    if (holders !== null && holders[position] !== null) return;
    if (batch !== null) ids.add(batch);
    if (afterBatch !== null) ids.add(afterBatch);
  });
  return [...ids];
}

/**
 * @throws NotFoundError, ClosedError naming the position of the first job that can't join its batch; InvalidError when it waits
 * for a batch that its own is nested in, so that neither would ever end
 */
export function checkJoins(
  jobs: readonly NewJob[],
  holders: readonly (Holder | null)[] | null,
  batchOf: BatchOf,
): void {
  jobs.forEach(({ batch, afterBatch }, position) => {
    if (batch === null || (holders !== null && holders[position] !== null)) return;
    assertOpen(batchOf, batch, `can't insert: jobs[${position}].batch`);
    if (afterBatch === null || !isWithin(batchOf, batch, afterBatch)) return;
    const rule = `must not be a batch that batch ${batch} is nested in`;
    throw invalid("can't insert", `jobs[${position}].afterBatch`, afterBatch, rule);
  });
}

function isWithin(batchOf: BatchOf, batch: BatchId, outer: BatchId): boolean {
  let at: BatchId | null = batch;
  while (at !== null && at !== outer) at = batchOf(at)?.parent ?? null;
  return at === outer;
}

/** @throws NotFoundError, ClosedError naming `parent` */
export function checkNesting(parent: BatchId, batchOf: BatchOf): void {
  assertOpen(batchOf, parent, "can't open the batch: parent");
}

function assertOpen(batchOf: BatchOf, id: BatchId, place: string): void {
  const state = batchOf(id);
  if (state === undefined) throw noBatch(id, place);
  if (state.finished) throw new ClosedError(`${place}: batch ${id} has finished`);
}

/** @throws NotFoundError naming `field` */
export function findBatch(batchOf: BatchOf, id: BatchId, field: string): BatchState {
  const state = batchOf(id);
  if (state === undefined) throw noBatch(id, `can't insert: ${field}`);
  return state;
}

export const noBatch = (id: BatchId, place: string): NotFoundError =>
  new NotFoundError(`${place}: there is no batch ${id}`);
