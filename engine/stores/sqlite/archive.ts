/** Moves between the tables of live and of ended jobs. */
import { appendHistory, decodeHistory, encodeHistory } from "../../rules/history.ts";
import type { ArchivedState, HistoryEntry, JobId } from "../../store.ts";
import type { Connection } from "./connection.ts";
import type { JobTable } from "./rows.ts";

/** What a job takes along unchanged, whichever way it goes. */
const KEPT = `id, kind, queue, priority, claim, server, created_at, attempted_at, deadline, timeout, title, tags, meta,
  params, args, recurring_id, unique_key, parents, limit_key, limit_rule, batch_id`;

const ARCHIVE_ALL = `INSERT INTO kiln_archive (state, finalized_at, run_at, attempt, max_attempts, history, ${KEPT})
  SELECT ?2, ?3, run_at, attempt, max_attempts, history, ${KEPT} FROM kiln_jobs
    WHERE id IN (SELECT value FROM json_each(?1))`;
const REMOVE_ALL = "DELETE FROM kiln_jobs WHERE id IN (SELECT value FROM json_each(?1))";

/** Ends jobs of which nothing but the state changes: 2 statements for all of them, in half the time of one by one. */
export function archiveAll(db: Connection, ids: readonly JobId[], state: ArchivedState, now: number): void {
  if (ids.length === 0) return;
  const list = JSON.stringify(ids);
  db.run(ARCHIVE_ALL, list, state, now);
  db.run(REMOVE_ALL, list);
}

const ARCHIVE = `INSERT INTO kiln_archive (state, finalized_at, run_at, attempt, max_attempts, history, output, ${KEPT})
  SELECT ?2, ?3, run_at, ?4, max_attempts, coalesce(?5, history), ?6, ${KEPT} FROM kiln_jobs WHERE id = ?1`;
const REMOVE = "DELETE FROM kiln_jobs WHERE id = ?1";

export interface Ended {
  readonly state: ArchivedState;
  readonly finalizedAt: number;
  readonly attempt: number;
  /** Null = as it was. */
  readonly history: string | null;
  readonly output: string | null;
}

/** 2 statements. */
export function archive(db: Connection, id: JobId, ended: Ended): void {
  db.run(ARCHIVE, id, ended.state, ended.finalizedAt, ended.attempt, ended.history, ended.output);
  db.run(REMOVE, id);
}

const RESTORE = `INSERT INTO kiln_jobs (state, run_at, attempt, max_attempts, history, ${KEPT})
  SELECT iif(limit_key IS NULL, 'enqueued', 'throttled'), ?2, ?3, ?4, ?5, ${KEPT} FROM kiln_archive WHERE id = ?1`;
const UNARCHIVE = "DELETE FROM kiln_archive WHERE id = ?1";
const READY_AGAIN = `UPDATE kiln_jobs SET state = iif(limit_key IS NULL, 'enqueued', 'throttled'),
  run_at = ?2, attempt = ?3, max_attempts = ?4, history = ?5,
  finalized_at = NULL, cancel_requested = 0 WHERE id = ?1`;

export interface Requeued {
  readonly runAt: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly history: string;
}

/** Makes a job of either table ready now. 1 or 2 statements. */
export function makeReady(db: Connection, table: JobTable, id: JobId, job: Requeued): void {
  const restore = table === "kiln_archive";
  db.run(restore ? RESTORE : READY_AGAIN, id, job.runAt, job.attempt, job.maxAttempts, job.history);
  if (restore) db.run(UNARCHIVE, id);
}

const HISTORY = {
  kiln_jobs: "SELECT history FROM kiln_jobs WHERE id = ?",
  kiln_archive: "SELECT history FROM kiln_archive WHERE id = ?",
} as const;

/** A job's history with one more entry, as text. */
export function historyWith(db: Connection, table: JobTable, id: JobId, entry: HistoryEntry): string {
  const [text = null] = db.get<[string | null]>(HISTORY[table], id) ?? [];
  return encodeHistory(appendHistory(text === null ? [] : decodeHistory(text), entry));
}
