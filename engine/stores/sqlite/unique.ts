/**
 * Unique keys and the jobs that hold them. Inserting such jobs costs 1 statement for all keys and 1 for each that is taken
 * or replaces its holder; a job's end 1 more when it releases its key. Calls about other jobs cost nothing.
 */
import { findHolders, type Holder, isHeld, keyExpiry, replacement } from "../../rules/unique.ts";
import type { JobId, JobState, NewJob, UniqueKey } from "../../store.ts";
import type { Connection, Transaction } from "./connection.ts";
import { closeEmptyLanes, type LimitedJob } from "./limits.ts";
import { encodeTags, encodeTexts } from "./rows.ts";

const HOLDERS = `SELECT u.key, u.job_id, u.expires_at, j.state, j.run_at, j.queue, j.kind, j.limit_key,
    (SELECT a.state FROM kiln_archive AS a WHERE a.id = u.job_id)
  FROM json_each(?1) AS k CROSS JOIN kiln_unique_keys AS u ON u.key = k.value LEFT JOIN kiln_jobs AS j ON j.id = u.job_id`;

type HolderRow = readonly [
  key: string,
  id: JobId,
  expiresAt: number | null,
  liveState: JobState | null,
  runAt: number | null,
  queue: string | null,
  kind: string | null,
  limitKey: string | null,
  archivedState: JobState | null,
];

interface HolderJob {
  state: JobState;
  readonly runAt: number;
  readonly queue: string;
  readonly kind: string;
  readonly limitKey: string | null;
}

/** A job that took the payload of a duplicate. */
export interface Replaced {
  readonly queue: string;
  readonly runAt: number;
  /** Null = it does not wait for its limit. */
  readonly throttled: LimitedJob | null;
}

/** The holders of the keys of one call's jobs. */
export class Holders {
  /** By position: whose duplicate a job is; null = it is to be added. */
  readonly holders: readonly (Holder | null)[];
  readonly #db: Connection;
  readonly #tx: Transaction;
  readonly #jobs = new Map<JobId, HolderJob>();

  constructor(db: Connection, tx: Transaction, jobs: readonly NewJob[]) {
    this.#db = db;
    this.#tx = tx;
    const held = this.#read(jobs);
    this.holders = findHolders(jobs, (key) => held.get(key));
  }

  /** `deleted` for a job that retention has removed. */
  stateOf(id: JobId): JobState {
    return this.#jobs.get(id)?.state ?? "deleted";
  }

  /** Lets the holder of a duplicate take its payload. Null when it does not. */
  replace(position: number, job: NewJob): Replaced | null {
    const holder = this.holders[position] ?? null;
    if (holder === null || !("id" in holder) || !holder.first) return null;
    const row = this.#jobs.get(holder.id);
    const to = row && replacement(row, job, this.#tx.now);
    if (!row || !to) return null;
    const { priority, title, args } = job;
    const [tags, meta] = [encodeTags(job.tags), encodeTexts(job.meta)];
    this.#db.run(REPLACE, holder.id, to.state, to.runAt, priority, title, tags, meta, args);
    const { queue, kind, limitKey } = row;
    const left = row.state === "throttled" && to.state !== "throttled";
    if (left && limitKey !== null) closeEmptyLanes(this.#db, this.#tx, new Set([limitKey]));
    row.state = to.state;
    const throttled = to.state === "throttled" && limitKey !== null ? { id: holder.id, queue, kind, limitKey } : null;
    return { queue, runAt: to.runAt, throttled };
  }

  #read(jobs: readonly NewJob[]): Map<string, JobId> {
    const keys = jobs.flatMap(({ unique }) => (unique === null ? [] : [unique.key]));
    const held = new Map<string, JobId>();
    if (keys.length === 0) return held;
    for (const row of this.#db.all<HolderRow>(HOLDERS, JSON.stringify(keys))) {
      const [key, id, expiresAt, live, runAt, queue, kind, limitKey, archived] = row;
      if (!isHeld(expiresAt, this.#tx.now)) continue;
      held.set(key, id);
      const state = live ?? archived ?? "deleted";
      this.#jobs.set(id, { state, runAt: runAt ?? 0, queue: queue ?? "", kind: kind ?? "", limitKey });
    }
    return held;
  }
}

const REPLACE = `UPDATE kiln_jobs SET state = ?2, run_at = ?3, priority = ?4, title = ?5, tags = ?6, meta = ?7, args = ?8
  WHERE id = ?1`;

const TAKE_KEY = `INSERT INTO kiln_unique_keys (key, job_id, expires_at) VALUES (?1, ?2, ?3)
  ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id, expires_at = excluded.expires_at`;

/** For a new job. */
export function takeKey(db: Connection, tx: Transaction, id: JobId, unique: UniqueKey): void {
  db.run(TAKE_KEY, unique.key, id, keyExpiry(unique, tx.now));
}

const RELEASE_KEY = "DELETE FROM kiln_unique_keys WHERE key = ? AND job_id = ? AND expires_at IS NULL";

/** For a job that ends: frees its key, unless somebody else holds it. */
export function releaseKey(db: Connection, id: JobId, key: string | null): void {
  if (key !== null) db.run(RELEASE_KEY, key, id);
}

const KEY_HOLDER = "SELECT job_id, expires_at FROM kiln_unique_keys WHERE key = ?";

/** For a job that is requeued. False when another job holds the key. */
export function retakeKey(db: Connection, tx: Transaction, id: JobId, key: string | null): boolean {
  if (key === null) return true;
  const [holder, expiresAt = null] = db.get<[JobId, number | null]>(KEY_HOLDER, key) ?? [];
  if (holder !== undefined && holder !== id && isHeld(expiresAt, tx.now)) return false;
  db.run(TAKE_KEY, key, id, null);
  return true;
}
