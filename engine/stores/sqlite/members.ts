/**
 * What jobs do to their batches. A batch's row counts its members that are live, its nested batches that have not finished,
 * and the rows that still need it, so that nothing is ever recounted: a call that adds, ends or removes members writes the
 * row once, whatever their number, and looks once whether it is done; finishing costs 2 for each batch that it is nested in.
 * Calls about jobs outside batches cost nothing.
 */
import { asksForParents, type BatchState, namedBatches } from "../../rules/batches.ts";
import { asParent } from "../../rules/dependencies.ts";
import type { BatchId, NewJob } from "../../store.ts";
import type { Connection, Transaction } from "./connection.ts";
import type { Ended } from "./dependencies.ts";
import type { Holders } from "./unique.ts";

const STATES = `SELECT id, finished_at IS NOT NULL, parent_id FROM kiln_batches
  WHERE id IN (SELECT value FROM json_each(?))`;
/** With those that they are nested in. */
const STATES_UPWARD = `WITH RECURSIVE upward (id) AS (
    SELECT value FROM json_each(?)
    UNION SELECT b.parent_id FROM upward AS u CROSS JOIN kiln_batches AS b ON b.id = u.id WHERE b.parent_id IS NOT NULL)
  SELECT b.id, b.finished_at IS NOT NULL, b.parent_id FROM upward AS u CROSS JOIN kiln_batches AS b ON b.id = u.id`;

export function readStates(db: Connection, ids: readonly BatchId[], upward = false): Map<BatchId, BatchState> {
  const rows = db.all<[BatchId, number, BatchId | null]>(upward ? STATES_UPWARD : STATES, JSON.stringify(ids));
  return new Map(rows.map(([id, finished, parent]) => [id, { finished: finished === 1, parent }]));
}

/** Tells of the batches that new jobs join or wait for. 1 statement when there are any. */
export function batchStates(
  db: Connection,
  jobs: readonly NewJob[],
  holders: Holders["holders"] | null,
): (id: BatchId) => BatchState | undefined {
  const ids = namedBatches(jobs, holders);
  if (ids.length === 0) return () => undefined;
  const states = readStates(db, ids, asksForParents(jobs));
  return (id) => states.get(id);
}

interface Change {
  total: number;
  live: number;
  /** Members, waiting jobs and nested batches. */
  needed: number;
}

const CHANGE = `UPDATE kiln_batches SET total = total + ?2, live = live + ?3, needed = needed + ?4 WHERE id = ?1`;
const FINISH = `UPDATE kiln_batches SET finished_at = ?2
  WHERE id = ?1 AND sealed = 1 AND live = 0 AND open_nested = 0 AND finished_at IS NULL RETURNING parent_id`;
const FINISH_NESTED = "UPDATE kiln_batches SET open_nested = open_nested - 1 WHERE id = ?";

/** What one transaction does to batches, by batch. */
export class BatchChanges {
  readonly #db: Connection;
  readonly #tx: Transaction;
  readonly #changes = new Map<BatchId, Change>();

  constructor(db: Connection, tx: Transaction) {
    this.#db = db;
    this.#tx = tx;
  }

  /** A new job is a member; one that is deleted at once is not live. */
  join({ batch, afterBatch }: Pick<NewJob, "batch" | "afterBatch">, live: boolean): void {
    if (batch !== null) this.#add(batch, 1, live ? 1 : 0, 1);
    if (afterBatch !== null) this.#add(afterBatch, 0, 0, 1);
  }

  /** A live member has become an ended one. Null = the job is in no batch. */
  end(batch: BatchId | null): void {
    if (batch !== null) this.#add(batch, 0, -1, 0);
  }

  /** An ended member is live again. */
  revive(batch: BatchId | null): void {
    if (batch !== null) this.#add(batch, 0, 1, 0);
  }

  /** A job's row is gone. */
  remove({ batch, afterBatch }: Pick<NewJob, "batch" | "afterBatch">, live: boolean): void {
    if (batch !== null) this.#add(batch, 0, live ? -1 : 0, -1);
    if (afterBatch !== null) this.#add(afterBatch, 0, 0, -1);
  }

  /** The batch may be done. */
  look(batch: BatchId): void {
    this.#add(batch, 0, 0, 0);
  }

  /** Writes the changes. Returns the batches that they finish, as parents that have ended. */
  write(): Ended[] {
    const finished: Ended[] = [];
    for (const [id, { total, live, needed }] of this.#changes) {
      if (total !== 0 || live !== 0 || needed !== 0) this.#db.run(CHANGE, id, total, live, needed);
      if (live <= 0 && total === 0) this.#finish(id, finished);
    }
    this.#changes.clear();
    return finished;
  }

  #finish(id: BatchId, finished: Ended[]): void {
    for (let at: BatchId | null = id; at !== null; ) {
      const row: [BatchId | null] | undefined = this.#db.get<[BatchId | null]>(FINISH, at, this.#tx.now);
      if (row === undefined) return;
      finished.push({ id: asParent(at), end: "succeeded" });
      [at] = row;
      if (at !== null) this.#db.run(FINISH_NESTED, at);
    }
  }

  #add(batch: BatchId, total: number, live: number, needed: number): void {
    const change = this.#changes.get(batch);
    if (change === undefined) {
      this.#changes.set(batch, { total, live, needed });
      return;
    }
    change.total += total;
    change.live += live;
    change.needed += needed;
  }
}
