/** Repairs and removal, in transactions of up to 1,000 rows. Each begins with a read and writes only if there is reason to. */
import { ARCHIVED_STATES, type BatchId, type JobId, type PruneQuery } from "../../store.ts";
import { anyBatches, removeBatches, UNUSED_BATCHES } from "./batches.ts";
import type { Connection, Transaction } from "./connection.ts";
import { removeConsoles } from "./console.ts";
import { anyLeft, anyLinks, removeLinks, settleChildren } from "./dependencies.ts";
import { tally } from "./finish.ts";
import { addPromoted, KEY_RETENTION, type PromotedRow, reopenBeyond, UNUSED_LANES } from "./limits.ts";
import { BatchChanges } from "./members.ts";
import { decodeParents } from "./rows.ts";
import { Waiting } from "./wake.ts";

const CHUNK = 1_000;

const ANY_OVERDUE =
  "SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_scheduled WHERE state = 'scheduled' AND run_at <= ? LIMIT 1";
const PROMOTE_OVERDUE = `UPDATE kiln_jobs SET state = iif(limit_key IS NULL, 'enqueued', 'throttled') WHERE id IN (
  SELECT id FROM kiln_jobs INDEXED BY kiln_jobs_scheduled WHERE state = 'scheduled' AND run_at <= ?1
    ORDER BY run_at, id LIMIT ?2)
  RETURNING id, queue, kind, limit_key`;

/** 2 statements when all is well (3 the first time), else 2 for each 1,000 overdue jobs and some for each child of an ended job. */
export async function sweep(db: Connection, limit: number): Promise<number> {
  const reopened = await reopenBeyond(db, () => new Waiting());
  const promoted = await promoteOverdue(db, limit);
  return reopened + promoted + (await inChunks(db, limit - promoted, (rows) => settleLeft(db, rows)));
}

/** Deals with children that other calls have left. */
async function settleLeft(db: Connection, rows: number): Promise<number> {
  if (!(await db.read(() => anyLeft(db)))) return 0;
  return db.write((tx) => {
    const waiting = new Waiting();
    const { changed, doomed } = settleChildren(db, tx, [], waiting, { limit: rows });
    waiting.announce(db, tx);
    tally(db, tx, "", { succeeded: 0, failed: 0, deleted: doomed, retried: 0 });
    return changed;
  });
}

function promoteOverdue(db: Connection, limit: number): Promise<number> {
  return inChunks(db, limit, async (rows) => {
    const overdue = await db.read(() => db.get(ANY_OVERDUE, db.runtime.now()) !== undefined);
    if (!overdue) return 0;
    return db.write((tx) => {
      const jobs = db.all<PromotedRow>(PROMOTE_OVERDUE, tx.now, rows);
      const waiting = new Waiting();
      addPromoted(db, tx, jobs, waiting);
      waiting.announce(db, tx);
      return jobs.length;
    });
  });
}

/** What may be removed, as `rules/retention.ts` says; ?1 is now, ?2 the age that is kept. */
interface Outlived {
  readonly key: string;
  readonly from: string;
  readonly order: string;
}

const OUTLIVED = {
  succeeded: archived("succeeded"),
  deleted: archived("deleted"),
  failed: {
    key: "id",
    from: "kiln_jobs INDEXED BY kiln_jobs_failed WHERE state = 'failed' AND finalized_at <= ?1 - ?2",
    order: "finalized_at, id",
  },
  keys: {
    key: "key",
    from: "kiln_unique_keys INDEXED BY kiln_unique_keys_expiry WHERE expires_at IS NOT NULL AND expires_at <= ?1 - ?2",
    order: "expires_at",
  },
  servers: { key: "id", from: "kiln_servers WHERE heartbeat_at < ?1 - max(?2, dead_after)", order: "id" },
  // The all-time totals stand before minute 0.
  stats: { key: "minute, server", from: "kiln_stats WHERE minute >= 0 AND minute < ?1 - ?2", order: "minute, server" },
} as const satisfies Record<string, Outlived>;

function archived(state: (typeof ARCHIVED_STATES)[number]): Outlived {
  const from = `kiln_archive INDEXED BY kiln_archive_ended WHERE state = '${state}' AND finalized_at <= ?1 - ?2`;
  return { key: "id", from, order: "finalized_at, id" };
}

/**
 * 1 statement for each kind of row when nothing is to be removed, else 2 for each 1,000 rows; of jobs 4, and 2 more for
 * each 5,000 of their lines.
 */
export async function prune(db: Connection, query: PruneQuery): Promise<number> {
  let removed = 0;
  for (const state of [...ARCHIVED_STATES, "failed"] as const) {
    const age = query[state];
    if (age !== null) removed += await removeJobs(db, OUTLIVED[state], age, query.limit);
  }
  if (query.succeeded !== null) {
    const age = query.succeeded;
    const remove = (tx: Transaction, rows: number): number => removeBatches(db, tx, age, rows);
    removed += await removeOutlived(db, UNUSED_BATCHES, age, query.limit, remove);
  }
  removed += await removeOutlived(db, OUTLIVED.keys, 0, query.limit);
  removed += await removeOutlived(db, UNUSED_LANES, KEY_RETENTION, query.limit);
  removed += await removeOutlived(db, OUTLIVED.servers, query.servers, query.limit);
  return removed + (await removeOutlived(db, OUTLIVED.stats, query.stats, query.limit));
}

type RemovedRow = readonly [id: JobId, batch: BatchId | null, parents: string | null];

/**
 * Like `removeOutlived`, for jobs, which others may wait for and which may be members of batches: 5 more statements for each
 * 1,000 when there are such, and 1 for each batch.
 */
function removeJobs(db: Connection, { from, order }: Outlived, age: number, limit: number): Promise<number> {
  const table = from.startsWith("kiln_archive") ? "kiln_archive" : "kiln_jobs";
  const outlived: Outlived = { key: "id", from, order };
  const find = `SELECT id, batch_id, parents FROM ${from} ORDER BY ${order} LIMIT ?3`;
  const remove = `DELETE FROM ${table} WHERE id IN (SELECT value FROM json_each(?))`;
  return removeOutlived(db, outlived, age, limit, (tx, rows) => {
    if (!anyLinks(db) && !anyBatches(db)) return null;
    const jobs = db.all<RemovedRow>(find, tx.now, age, rows);
    const ids = jobs.map(([id]) => id);
    const changes = new BatchChanges(db, tx);
    for (const [, batch, parents] of jobs) {
      changes.remove({ batch, afterBatch: decodeParents(parents).afterBatch }, table === "kiln_jobs");
    }
    removeLinks(db, table, ids);
    db.run(remove, JSON.stringify(ids));
    const waiting = new Waiting();
    const pruned = ids.map((id) => ({ id, end: "pruned" as const }));
    const { doomed } = settleChildren(db, tx, pruned, waiting, { changes });
    waiting.announce(db, tx);
    tally(db, tx, "", { succeeded: 0, failed: 0, deleted: doomed, retried: 0 });
    return ids.length;
  });
}

/** `instead` may do the removal in its own way and say how many it removed; null = it has done nothing. */
function removeOutlived(
  db: Connection,
  { key, from, order }: Outlived,
  age: number,
  limit: number,
  instead: (tx: Transaction, rows: number) => number | null = () => null,
): Promise<number> {
  const [table] = from.split(" ", 1);
  const isJobs = table === "kiln_jobs" || table === "kiln_archive";
  const any = `SELECT 1 FROM ${from} LIMIT 1`;
  const outlived = `SELECT ${key} FROM ${from} ORDER BY ${order} LIMIT ?3`;
  const remove = `DELETE FROM ${table} WHERE (${key}) IN (${outlived})`;
  return inChunks(db, limit, async (rows) => {
    const found = await db.read(() => db.get(any, db.runtime.now(), age) !== undefined);
    if (!found) return 0;
    for (;;) {
      const removed = await db.write((tx) => {
        const bare = !isJobs || removeConsoles(db, outlived, tx.now, age, rows);
        return bare ? (instead(tx, rows) ?? db.run(remove, tx.now, age, rows)) : null;
      });
      if (removed !== null) return removed;
      await db.runtime.turn();
    }
  });
}

/** Sums up what `change` returns for at most so many rows, until it changes fewer than asked or `limit` is reached. */
async function inChunks(db: Connection, limit: number, change: (rows: number) => Promise<number>): Promise<number> {
  let changed = 0;
  while (changed < limit) {
    if (changed > 0) await db.runtime.turn();
    const rows = Math.min(CHUNK, limit - changed);
    const now = await change(rows);
    changed += now;
    if (now < rows) break;
  }
  return changed;
}
