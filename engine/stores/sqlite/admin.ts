/**
 * What operators do. Deleting and requeueing work through the jobs in transactions of up to 500, letting others have
 * the lock and the event loop in between; of each job 3 to 4 statements. What matches by state is found through that
 * state's index.
 */
import { checkFilter } from "../../rules/check.ts";
import { historyEntry } from "../../rules/history.ts";
import { DELETABLE, filterAllows, REQUEUEABLE, requeuedAttempts, waitingState } from "../../rules/state.ts";
import type { BatchId, JobFilter, JobId, JobState } from "../../store.ts";
import { archive, historyWith, makeReady } from "./archive.ts";
import type { Connection, Transaction } from "./connection.ts";
import { closeLinks, settleChildren } from "./dependencies.ts";
import { tally } from "./finish.ts";
import { closeEmptyLanes, Throttling } from "./limits.ts";
import { BatchChanges } from "./members.ts";
import { type Portion, type Position, type ScanFilter, scan, tableOf } from "./scan.ts";
import { releaseKey, retakeKey } from "./unique.ts";
import { Waiting } from "./wake.ts";

const CHUNK = 500;

/** Named `deleteJobs` because `delete` is a word of the language. */
export async function deleteJobs(db: Connection, filter: JobFilter): Promise<number> {
  checkFilter(filter);
  return inChunks(db, filter, [...DELETABLE, "processing"], (tx, jobs) => {
    const running = jobs.filter(({ state }) => state === "processing");
    const ended = jobs.filter(({ state }) => state !== "processing");
    for (const job of ended) end(db, tx, job);
    const throttled = ended.filter(({ state }) => state === "throttled");
    closeEmptyLanes(db, tx, new Set(throttled.flatMap(({ limitKey }) => limitKey ?? [])));
    const waiting = new Waiting();
    const parents = ended.map(({ id }) => ({ id, end: "deleted" as const }));
    const changes = new BatchChanges(db, tx);
    for (const { batch } of ended) changes.end(batch);
    const { doomed } = settleChildren(db, tx, parents, waiting, { changes });
    waiting.announce(db, tx);
    tally(db, tx, "", { succeeded: 0, failed: 0, deleted: ended.length + doomed, retried: 0 });
    return ended.length + running.filter(({ id }) => requestCancel(db, tx, id)).length;
  });
}

function end(db: Connection, tx: Transaction, { id, state, attempt, uniqueKey, parents }: JobRow): void {
  if (state === "awaiting") closeLinks(db, id, parents);
  releaseKey(db, id, uniqueKey);
  const entry = historyEntry({ reason: "deleted" }, "deleted", attempt, null, tx.now);
  const history = historyWith(db, "kiln_jobs", id, entry);
  archive(db, id, { state: "deleted", finalizedAt: tx.now, attempt, history, output: null });
}

const REQUEST_CANCEL = "UPDATE kiln_jobs SET cancel_requested = 1 WHERE id = ? AND cancel_requested = 0";

/** False when it was requested before. */
function requestCancel(db: Connection, tx: Transaction, id: JobId): boolean {
  if (db.run(REQUEST_CANCEL, id) === 0) return false;
  tx.emit({ type: "cancel", id });
  return true;
}

export async function requeue(db: Connection, filter: JobFilter): Promise<number> {
  checkFilter(filter);
  return inChunks(db, filter, REQUEUEABLE, (tx, jobs) => {
    const waiting = new Waiting();
    const throttling = new Throttling(db, tx);
    const changes = new BatchChanges(db, tx);
    const free = jobs.filter(({ id, uniqueKey }) => retakeKey(db, tx, id, uniqueKey));
    for (const { id, state, queue, kind, attempt, maxAttempts, limitKey, batch } of free) {
      const table = tableOf(state);
      if (table === "kiln_archive") changes.revive(batch);
      const entry = historyEntry({ reason: "requeued" }, waitingState(limitKey !== null), attempt, null, tx.now);
      const history = historyWith(db, table, id, entry);
      makeReady(db, table, id, { runAt: tx.now, history, ...requeuedAttempts(state, attempt, maxAttempts) });
      if (limitKey === null) waiting.add(queue, 0);
      else throttling.add({ id, queue, kind, limitKey });
    }
    changes.write();
    throttling.end(waiting);
    waiting.announce(db, tx);
    return free.length;
  });
}

interface JobRow {
  readonly id: JobId;
  readonly state: JobState;
  readonly queue: string;
  readonly kind: string;
  readonly limitKey: string | null;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly uniqueKey: string | null;
  readonly parents: string | null;
  readonly batch: BatchId | null;
}

/** Sums up what `change` returns for the jobs that match the filter and are in one of the states, chunk by chunk. */
async function inChunks(
  db: Connection,
  filter: JobFilter,
  states: readonly JobState[],
  change: (tx: Transaction, jobs: readonly JobRow[]) => number,
): Promise<number> {
  const allowed = states.filter((state) => filterAllows(filter, state));
  let changed = 0;
  for await (const ids of candidates(db, filter, allowed)) {
    // Others may have changed the jobs since they were found, so all is decided again under the lock.
    changed += await db.write((tx) => change(tx, matching(db, filter, allowed, ids)));
  }
  return changed;
}

/** Ids of jobs that may match, at most a chunk at a time, with a pause before each but the first. */
async function* candidates(
  db: Connection,
  filter: JobFilter,
  states: readonly JobState[],
): AsyncGenerator<readonly JobId[]> {
  const { ids, state } = filter;
  if (ids !== undefined) {
    const all = [...new Set(ids)];
    for (let start = 0; start < all.length; start += CHUNK) {
      if (start > 0) await db.runtime.turn();
      yield all.slice(start, start + CHUNK);
    }
  } else if (state !== undefined && states.includes(state)) {
    let after: Position | null = null;
    do {
      if (after !== null) await db.runtime.turn();
      const { found, next } = await nextPortion(db, { ...filter, state }, after);
      if (found.length > 0) yield found.map(({ id }) => id);
      after = next;
    } while (after !== null);
  }
}

const nextPortion = (db: Connection, filter: ScanFilter, after: Position | null): Promise<Portion> =>
  db.read(() => scan(db, filter, after, CHUNK));

const MATCHING = ["kiln_jobs", "kiln_archive"]
  .map(
    (table) => `SELECT id, state, queue, kind, attempt, max_attempts, limit_key, unique_key, parents, batch_id
      FROM ${table}
      WHERE id IN (SELECT value FROM json_each(?1)) AND state IN (SELECT value FROM json_each(?2))
        AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR kind = ?4)
        AND (?5 IS NULL OR batch_id = ?5) AND (?6 IS NULL OR recurring_id = ?6)`,
  )
  .join(" UNION ALL ");

type MatchingRow = readonly [
  id: JobId,
  state: JobState,
  queue: string,
  kind: string,
  attempt: number,
  maxAttempts: number,
  limitKey: string | null,
  uniqueKey: string | null,
  parents: string | null,
  batch: BatchId | null,
];

function matching(db: Connection, filter: JobFilter, states: readonly JobState[], ids: readonly JobId[]): JobRow[] {
  const { queue: inQueue = null, kind: ofKind = null, batch: ofBatch = null, recurringId = null } = filter;
  return db
    .all<MatchingRow>(MATCHING, JSON.stringify(ids), JSON.stringify(states), inQueue, ofKind, ofBatch, recurringId)
    .map(([id, state, queue, kind, attempt, maxAttempts, limitKey, uniqueKey, parents, batch]) => ({
      ...{ id, state, queue, kind, attempt, maxAttempts },
      ...{ limitKey, uniqueKey, parents, batch },
    }));
}

const PAUSE = "INSERT INTO kiln_paused_queues (queue, paused_at) VALUES (?, ?) ON CONFLICT (queue) DO NOTHING";

export async function pauseQueue(db: Connection, queue: string): Promise<void> {
  return db.write((tx) => {
    db.run(PAUSE, queue, tx.now);
    tx.emit({ type: "queue", queue });
  });
}

export async function resumeQueue(db: Connection, queue: string): Promise<void> {
  return db.write((tx) => {
    db.run("DELETE FROM kiln_paused_queues WHERE queue = ?", queue);
    tx.emit({ type: "queue", queue });
  });
}
