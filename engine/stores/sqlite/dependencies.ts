/**
 * What jobs wait for, and what the end of a job does to those that wait for it. While no job waits, a call that ends jobs
 * pays 1 statement for it, otherwise 3. Each child costs 2, or 5 when it is deleted. For members of batches what `members.ts`
 * says; a batch that has finished is dealt with like a job that has ended.
 */
import { type Birth, FAILED_BIT, type ParentEnd, parentReason, released, verdict } from "../../rules/dependencies.ts";
import { historyEntry } from "../../rules/history.ts";
import type { BatchId, JobId } from "../../store.ts";
import { archive, historyWith } from "./archive.ts";
import type { Connection, Transaction } from "./connection.ts";
import { Throttling } from "./limits.ts";
import { BatchChanges } from "./members.ts";
import { releaseKey } from "./unique.ts";
import type { Waiting } from "./wake.ts";

/** At most so many children are dealt with by a call that ends jobs; the rest is for those that follow and for `sweep`. */
const SETTLE_LIMIT = 1_000;

const ADD_LINK = "INSERT INTO kiln_dependencies (resolved, parent_id, job_id, mask) VALUES (?, ?, ?, ?)";

/** For a new job. 1 statement for each parent. */
export function addLinks(db: Connection, child: JobId, { links }: Birth): void {
  for (const { parent, mask, open } of links) db.run(ADD_LINK, open ? 0 : 1, parent, child, mask);
}

const CLOSE_LINKS = `UPDATE kiln_dependencies SET resolved = 1
  WHERE resolved = 0 AND job_id = ?2 AND parent_id IN (SELECT value FROM json_each(?1))`;

/** For a job that waits no longer, whatever its parents do. `parents` as in its row. */
export function closeLinks(db: Connection, child: JobId, parents: string | null): void {
  if (parents !== null) db.run(CLOSE_LINKS, parents, child);
}

const ANY_LINK = "SELECT 1 FROM kiln_dependencies LIMIT 1";

/** False while no job that is kept has, or had, parents. */
export function anyLinks(db: Connection): boolean {
  return db.get(ANY_LINK) !== undefined;
}

const removeLinksOf = (table: string): string => `DELETE FROM kiln_dependencies
  WHERE (resolved, parent_id, job_id) IN (SELECT 1, p.value, j.id
    FROM json_each(?1) AS k CROSS JOIN ${table} AS j ON j.id = k.value CROSS JOIN json_each(j.parents) AS p)`;
const REMOVE_LINKS = { kiln_jobs: removeLinksOf("kiln_jobs"), kiln_archive: removeLinksOf("kiln_archive") } as const;

/** For jobs that are about to be removed and wait no longer. */
export function removeLinks(db: Connection, table: keyof typeof REMOVE_LINKS, ids: readonly JobId[]): void {
  db.run(REMOVE_LINKS[table], JSON.stringify(ids));
}

/** A job or batch whose children are to be dealt with. */
export interface Ended {
  /** Of a job, or of a batch by `asParent`. */
  readonly id: number;
  readonly end: ParentEnd;
}

interface Entry extends Ended {
  /** Of its row in `kiln_ended_parents`; null while it has none. */
  readonly number: number | null;
}

const ANY_OPEN = "SELECT 1 FROM kiln_dependencies WHERE resolved = 0 LIMIT 1";
const ANY_LEFT = "SELECT 1 FROM kiln_ended_parents LIMIT 1";
const LEFT = "SELECT number, parent_id, ended FROM kiln_ended_parents ORDER BY number LIMIT ?";
const PUT_OFF = "INSERT INTO kiln_ended_parents (parent_id, ended) VALUES (?, ?)";
const DONE = "DELETE FROM kiln_ended_parents WHERE number = ?";
const WITH_CHILDREN = `SELECT e.value FROM json_each(?) AS e
  WHERE EXISTS (SELECT 1 FROM kiln_dependencies WHERE resolved = 0 AND parent_id = e.value)`;

/** True when another call has left children for `sweep`. */
export const anyLeft = (db: Connection): boolean => db.get(ANY_LEFT) !== undefined;

export interface Settled {
  /** Children that were deleted; to be counted in the statistics. */
  readonly doomed: number;
  /** Rows that were changed. */
  readonly changed: number;
}

export interface Settlement {
  /** What the call does to batches; to be written. */
  readonly changes?: BatchChanges;
  /** At most so many children are dealt with. */
  readonly limit?: number;
}

/**
 * Writes what the call does to batches, which may finish some, and deals with the children of jobs and batches that have
 * ended, and with theirs, to any depth: first with those that earlier calls have left, so that all ends take effect in their
 * order. Those that go on are added to `waiting`. What is beyond the limit is left for the calls that follow.
 */
export function settleChildren(
  db: Connection,
  tx: Transaction,
  ended: readonly Ended[],
  waiting: Waiting,
  { changes = new BatchChanges(db, tx), limit = SETTLE_LIMIT }: Settlement = {},
): Settled {
  const parents = [...ended, ...changes.write()];
  if (parents.length > 0 && db.get(ANY_OPEN) === undefined) return NOTHING;
  const left = anyLeft(db) ? db.all<[number, number, ParentEnd]>(LEFT, limit) : [];
  const settling = new Settling(db, tx, waiting, changes, limit);
  for (const [number, id, end] of left) settling.add({ number, id, end });
  // Others that were left come before the new ones.
  if (left.length === limit) for (const parent of withChildren(db, parents)) db.run(PUT_OFF, parent.id, parent.end);
  else for (const parent of withChildren(db, parents)) settling.add({ number: null, ...parent });
  return settling.run();
}

const NOTHING: Settled = { doomed: 0, changed: 0 };

function withChildren(db: Connection, ended: readonly Ended[]): Ended[] {
  if (ended.length === 0) return [];
  const ids = new Set(db.all<[number]>(WITH_CHILDREN, JSON.stringify(ended.map(({ id }) => id))).map(([id]) => id));
  return ended.filter(({ id }) => ids.has(id));
}

const OPEN_CHILDREN = `SELECT d.job_id, d.mask, j.pending_parents, j.run_at, j.queue, j.attempt, j.unique_key, j.parents,
    j.kind, j.limit_key, j.batch_id
  FROM kiln_dependencies AS d CROSS JOIN kiln_jobs AS j ON j.id = d.job_id
  WHERE d.resolved = 0 AND d.parent_id = ?1 AND (?2 = 0 OR d.mask & ?2 != 0) LIMIT ?3`;
const RESOLVE = "UPDATE kiln_dependencies SET resolved = 1 WHERE resolved = 0 AND parent_id = ? AND job_id = ?";
const COUNT_DOWN = "UPDATE kiln_jobs SET pending_parents = pending_parents - 1 WHERE id = ?";
const RELEASE = "UPDATE kiln_jobs SET state = ?, run_at = ?, pending_parents = 0 WHERE id = ?";

type ChildRow = readonly [
  id: JobId,
  mask: number,
  pending: number,
  runAt: number,
  queue: string,
  attempt: number,
  uniqueKey: string | null,
  parents: string | null,
  kind: string,
  limitKey: string | null,
  batch: BatchId | null,
];

class Settling {
  readonly #db: Connection;
  readonly #tx: Transaction;
  readonly #waiting: Waiting;
  readonly #changes: BatchChanges;
  readonly #limit: number;
  readonly #throttling: Throttling;
  readonly #queue: Entry[] = [];
  #changed = 0;
  #doomed = 0;

  constructor(db: Connection, tx: Transaction, waiting: Waiting, changes: BatchChanges, limit: number) {
    this.#db = db;
    this.#tx = tx;
    this.#waiting = waiting;
    this.#changes = changes;
    this.#limit = limit;
    this.#throttling = new Throttling(db, tx);
  }

  add(entry: Entry): void {
    this.#queue.push(entry);
  }

  run(): Settled {
    let place = 0;
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[place] ?? this.#finishedBatch()) {
      if (!this.#settle(next)) break;
      if (next.number !== null) this.#changed += this.#db.run(DONE, next.number);
      place += 1;
    }
    // Children that were deleted may have been the last of their batches, also when the limit was reached.
    this.#finishedBatch();
    for (const { number, id, end } of this.#queue.slice(place)) if (number === null) this.#db.run(PUT_OFF, id, end);
    this.#throttling.end(this.#waiting);
    return { doomed: this.#doomed, changed: this.#changed };
  }

  /** Adds batches that the deletion of children has finished. Returns the first. */
  #finishedBatch(): Entry | undefined {
    const finished = this.#changes.write().map((batch): Entry => ({ number: null, ...batch }));
    this.#queue.push(...finished);
    return finished[0];
  }

  /** False when the limit was reached before all its children were dealt with. */
  #settle(entry: Entry): boolean {
    const room = this.#limit - this.#changed;
    if (room <= 0) return false;
    const only = entry.end === "failed" ? FAILED_BIT : 0;
    const children = this.#db.all<ChildRow>(OPEN_CHILDREN, entry.id, only, room);
    for (const child of children) this.#decide(entry, child);
    return children.length < room;
  }

  #decide({ id, end }: Entry, child: ChildRow): void {
    this.#changed += 1;
    if (verdict(child[1], end) === "doomed") this.#doom(child, parentReason(id, end));
    else this.#meet(id, child);
  }

  #meet(parent: number, [id, , pending, runAt, queue, , , , kind, limitKey]: ChildRow): void {
    this.#db.run(RESOLVE, parent, id);
    if (pending > 1) {
      this.#db.run(COUNT_DOWN, id);
      return;
    }
    const to = released(runAt, this.#tx.now, limitKey !== null);
    this.#db.run(RELEASE, to.state, to.runAt, id);
    if (to.state === "throttled" && limitKey !== null) this.#throttling.add({ id, queue, kind, limitKey });
    else this.#waiting.add(queue, to.runAt - this.#tx.now);
  }

  #doom([id, , , , , attempt, uniqueKey, parents, , , batch]: ChildRow, reason: string): void {
    const { now } = this.#tx;
    const entry = historyEntry({ reason }, "deleted", attempt, null, now);
    const history = historyWith(this.#db, "kiln_jobs", id, entry);
    closeLinks(this.#db, id, parents);
    archive(this.#db, id, { state: "deleted", finalizedAt: now, attempt, history, output: null });
    releaseKey(this.#db, id, uniqueKey);
    this.#changes.end(batch);
    this.#doomed += 1;
    this.#queue.push({ number: null, id, end: "deleted" });
  }
}
