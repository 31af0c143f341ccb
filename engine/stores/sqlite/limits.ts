/**
 * Keys of limits. `kiln_limits` has a row for each lane, that is kind and queue, in which jobs of a key wait or have
 * waited lately; what belongs to the key (its rule and `tat`) is the same in all of its rows, so that a claim which takes
 * from a key of one lane writes one row. `open_at` says when the lane is worth a look: NULL while it has no jobs or its key
 * is full. How many jobs of a key are running is counted from the jobs, so it can never be wrong.
 */

import { checkLimitQuery } from "../../rules/check.ts";
import { admit, clamp } from "../../rules/gcra.ts";
import { isBeyond, type KeyState, opensAt, sameLimit } from "../../rules/limit.ts";
import { COUNT_CAP } from "../../rules/limits.ts";
import type { JobId, Limit, LimitQuery, LimitRecord } from "../../store.ts";
import type { Connection, Transaction } from "./connection.ts";
import { toDate } from "./rows.ts";
import type { Waiting } from "./wake.ts";

/** Numbers of a rule, as a job keeps them for the time when its key has been forgotten. */
export const encodeRule = ({ max, rate, per, burst }: Limit): string => JSON.stringify([max, rate, per, burst]);

type Rule = readonly [max: number, rate: number, per: number, burst: number];
type StateRow = readonly [...Rule, tat: number];

/** Columns of `StateRow`. */
export const KEY_STATE = "max, rate, per, burst, tat";

const IS_WAITING = `EXISTS (SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_throttled WHERE state = 'throttled'
  AND queue = kiln_limits.queue AND kind = kiln_limits.kind AND limit_key = kiln_limits.key)`;

const ACTIVE = `SELECT count(*) FROM (SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_limited
  WHERE state = 'processing' AND limit_key = ?1 LIMIT ?2)`;

/** Running jobs are counted only as far as the key's `max` makes it matter. */
export function keyState(db: Connection, key: string, [max, rate, per, burst, tat]: StateRow): KeyState {
  const active = max === 0 ? 0 : (db.get<[number]>(ACTIVE, key, max)?.[0] ?? 0);
  return { limit: { key, max, rate, per, burst }, active, tat };
}

// ------------------------------------------------------------------------------------------------------- jobs that wait

/** A job that has a limit. */
export interface LimitedJob {
  readonly id: JobId;
  readonly queue: string;
  readonly kind: string;
  readonly limitKey: string;
}

const LANE = "SELECT open_at FROM kiln_limits WHERE key = ?1 AND queue = ?2 AND kind = ?3";
const KEY = `SELECT ${KEY_STATE}, rule_of FROM kiln_limits WHERE key = ? LIMIT 1`;
const JOB_RULE = "SELECT limit_rule FROM kiln_jobs WHERE id = ?";
const ADD_LANE = `INSERT INTO kiln_limits (key, queue, kind, max, rate, per, burst, tat, rule_of, open_at, used_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)`;
const OPEN_LANE =
  "UPDATE kiln_limits SET open_at = ?4, used_at = ?5 WHERE key = ?1 AND queue = ?2 AND kind = ?3 AND open_at IS NOT ?4";

/**
 * Jobs that a transaction has made wait for their limits, or inserted with one for later: gives their lanes rows and lets
 * the newest job's rule count. 1 statement for each key and 1 for each lane when nothing is new.
 */
export class Throttling {
  readonly #db: Connection;
  readonly #tx: Transaction;
  readonly #newest = new Map<string, JobId>();
  readonly #rules = new Map<string, Limit>();
  /** Keys that the new jobs have different rules of. */
  readonly #mixed = new Set<string>();
  readonly #lanes = new Map<string, { readonly job: LimitedJob; readonly waits: boolean }>();

  constructor(db: Connection, tx: Transaction) {
    this.#db = db;
    this.#tx = tx;
  }

  /** `waits` = it is throttled now. `rule` is that of a new job. The job must have been written. */
  add(job: LimitedJob, waits = true, rule: Limit | null = null): void {
    const before = this.#rules.get(job.limitKey);
    if (rule !== null && before !== undefined && !sameLimit(rule, before)) this.#mixed.add(job.limitKey);
    if (rule !== null) this.#rules.set(job.limitKey, rule);
    this.#newest.set(job.limitKey, Math.max(job.id, this.#newest.get(job.limitKey) ?? 0));
    const lane = JSON.stringify([job.limitKey, job.queue, job.kind]);
    this.#lanes.set(lane, { job, waits: waits || this.#lanes.get(lane)?.waits === true });
  }

  /** Adds to `waiting` when each lane opens. */
  end(waiting: Waiting): void {
    for (const [key, id] of this.#newest) this.#useRule(key, id, waiting);
    for (const { job, waits } of this.#lanes.values()) this.#enter(job, waits, waiting);
  }

  #useRule(key: string, id: JobId, waiting: Waiting): void {
    const row = this.#db.get<[...StateRow, ruleOf: JobId]>(KEY, key);
    if (!row || row[5] >= id) return;
    const rule = this.#ruleOf(id);
    const [max, rate, per, burst] = rule;
    if (sameLimit({ key, max, rate, per, burst }, { key, max: row[0], rate: row[1], per: row[2], burst: row[3] })) {
      // Lest one of the others, coming to wait later, has its rule taken for a newer one.
      if (this.#mixed.has(key)) this.#db.run("UPDATE kiln_limits SET rule_of = ?2 WHERE key = ?1", key, id);
      return;
    }
    this.#db.run(
      "UPDATE kiln_limits SET max = ?2, rate = ?3, per = ?4, burst = ?5, rule_of = ?6 WHERE key = ?1",
      ...[key, ...rule, id],
    );
    placeLanes(this.#db, this.#tx, key, keyState(this.#db, key, [...rule, row[4]]), waiting);
  }

  #enter({ limitKey: key, queue, kind }: LimitedJob, waits: boolean, waiting: Waiting): void {
    const { now } = this.#tx;
    const lane = this.#db.get<[openAt: number | null]>(LANE, key, queue, kind);
    if (lane && (!waits || lane[0] !== null)) {
      if (waits && lane[0] !== null) waiting.add(queue, lane[0] - now);
      return;
    }
    const row = this.#db.get<[...StateRow, ruleOf: JobId]>(KEY, key);
    const newest = this.#newest.get(key) ?? 0;
    const [max, rate, per, burst, tat, ruleOf] = row ?? [...this.#ruleOf(newest), 0, newest];
    const state = keyState(this.#db, key, [max, rate, per, burst, tat]);
    const openAt = waits ? opensAt(state, now) : null;
    if (lane) this.#db.run(OPEN_LANE, key, queue, kind, openAt, now);
    else this.#db.run(ADD_LANE, key, queue, kind, max, rate, per, burst, tat, ruleOf, openAt, now);
    clampKey(this.#db, this.#tx, state);
    if (openAt !== null) waiting.add(queue, openAt - now);
  }

  #ruleOf(id: JobId): Rule {
    return JSON.parse(this.#db.get<[string]>(JOB_RULE, id)?.[0] ?? "[1,0,0,0]") as Rule;
  }
}

export type PromotedRow = readonly [id: JobId, queue: string, kind: string, limitKey: string | null];

/** Scheduled jobs have become due and were moved to where they wait. */
export function addPromoted(db: Connection, tx: Transaction, jobs: readonly PromotedRow[], waiting: Waiting): void {
  const throttling = new Throttling(db, tx);
  for (const [id, queue, kind, limitKey] of jobs) {
    if (limitKey === null) waiting.add(queue, 0);
    else throttling.add({ id, queue, kind, limitKey });
  }
  throttling.end(waiting);
}

/** Writes only after the clock has stepped back or the rule has changed. */
function clampKey(db: Connection, tx: Transaction, { limit, tat }: KeyState): void {
  const clamped = clamp(limit, tat, tx.now * 1_000);
  if (clamped < tat) db.run("UPDATE kiln_limits SET tat = ?2 WHERE key = ?1", limit.key, clamped);
}

const WAITING_LANES = `SELECT queue, kind FROM kiln_limits WHERE key = ? AND ${IS_WAITING}`;

/** Every lane of the key that has jobs is moved to when the key opens. */
function placeLanes(db: Connection, tx: Transaction, key: string, state: KeyState, waiting: Waiting): void {
  clampKey(db, tx, state);
  const openAt = opensAt(state, tx.now);
  for (const [queue, kind] of db.all<[string, string]>(WAITING_LANES, key)) {
    db.run(OPEN_LANE, key, queue, kind, openAt, tx.now);
    if (openAt !== null) waiting.add(queue, openAt - tx.now);
  }
}

const SHUT_LANES = `SELECT DISTINCT key FROM kiln_limits WHERE key IN (SELECT value FROM json_each(?))
  AND open_at IS NULL AND ${IS_WAITING}`;

/** Jobs of these keys have ended: full keys open again. 1 statement, and some for each key that was full. */
export function freePlaces(db: Connection, tx: Transaction, keys: ReadonlySet<string>, waiting: Waiting): void {
  if (keys.size === 0) return;
  for (const [key] of db.all<[string]>(SHUT_LANES, JSON.stringify([...keys]))) {
    const row = db.get<[...StateRow, ruleOf: JobId]>(KEY, key);
    if (row) placeLanes(db, tx, key, keyState(db, key, [row[0], row[1], row[2], row[3], row[4]]), waiting);
  }
}

const CLOSE_EMPTY = `UPDATE kiln_limits SET open_at = NULL, used_at = ?2 WHERE key IN (SELECT value FROM json_each(?1))
  AND open_at IS NOT NULL AND NOT ${IS_WAITING}`;

/** Waiting jobs of these keys are gone: claims need not look at lanes that have none left. 1 statement. */
export function closeEmptyLanes(db: Connection, tx: Transaction, keys: ReadonlySet<string>): void {
  if (keys.size > 0) db.run(CLOSE_EMPTY, JSON.stringify([...keys]), tx.now);
}

// ---------------------------------------------------------------------------------------------------------------- claims

const SETTLE = `UPDATE kiln_limits SET tat = ?2, used_at = ?3, open_at = CASE WHEN ${IS_WAITING} THEN ?4 END WHERE key = ?1`;

/** After a claim has taken `count` jobs of a key, 0 or more: what is left of its budget, in one row for each lane. */
export function settleKey(db: Connection, tx: Transaction, { limit, active, tat }: KeyState, count: number): void {
  const after = { limit, active: active + count, tat: admit(limit, tat, tx.now * 1_000, count) };
  db.run(SETTLE, limit.key, after.tat, tx.now, opensAt(after, tx.now));
}

// ----------------------------------------------------------------------------------------------------------- maintenance

/** A clock that moved less than the monotonic one by more than this has stepped back, milliseconds. */
const STEP = 100;

interface Reading {
  readonly wall: number;
  readonly monotonic: number;
}

const readings = new WeakMap<Connection, Reading>();

/** True if the clock may have stepped back since the last call, always at the first. */
function mayHaveSteppedBack(db: Connection): boolean {
  const before = readings.get(db);
  const reading = { wall: db.now(), monotonic: db.runtime.monotonic() };
  readings.set(db, reading);
  return !before || reading.wall - before.wall < reading.monotonic - before.monotonic - STEP;
}

const CLOSED = `SELECT key, queue, kind, max, rate, per, burst, open_at FROM kiln_limits
  WHERE open_at IS NOT NULL AND open_at > ?`;

/** Opens lanes that a clock which has stepped back would keep closed. Looks only after such a step. Returns how many. */
export async function reopenBeyond(db: Connection, waitingOf: (tx: Transaction) => Waiting): Promise<number> {
  const beyond = await db.read(() => (mayHaveSteppedBack(db) ? lanesBeyond(db) : []));
  if (beyond.length === 0) return 0;
  return db.write((tx) => {
    const waiting = waitingOf(tx);
    for (const [key, queue, kind] of beyond) {
      db.run(OPEN_LANE, key, queue, kind, tx.now, tx.now);
      waiting.add(queue, 0);
    }
    waiting.announce(db, tx);
    return beyond.length;
  });
}

type ClosedRow = readonly [key: string, queue: string, kind: string, ...Rule, openAt: number];

function lanesBeyond(db: Connection): ClosedRow[] {
  const now = db.now();
  return db.all<ClosedRow>(CLOSED, now).filter(([key, , , max, rate, per, burst, openAt]) => {
    return isBeyond(openAt, { key, max, rate, per, burst }, now);
  });
}

/** How long a key is remembered that nobody uses. */
export const KEY_RETENTION = 3_600_000;

/** Lanes that may be forgotten: ?1 is now, ?2 the age that is kept. */
export const UNUSED_LANES = {
  key: "key, queue, kind",
  from: `kiln_limits INDEXED BY kiln_limits_unused WHERE open_at IS NULL AND used_at <= ?1 - ?2 AND tat <= ?1 * 1000
    AND NOT ${IS_WAITING} AND NOT EXISTS (SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_limited
      WHERE state = 'processing' AND limit_key = kiln_limits.key)`,
  order: "used_at, key, queue, kind",
} as const;

// --------------------------------------------------------------------------------------------------------------- inspect

const PAGE = `SELECT key, ${KEY_STATE} FROM kiln_limits WHERE key > ?1 GROUP BY key ORDER BY key LIMIT ?2`;
const LANES = "SELECT queue, kind FROM kiln_limits WHERE key = ?";
const THROTTLED = `SELECT count(*) FROM (SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_throttled
  WHERE state = 'throttled' AND queue = ?1 AND kind = ?2 AND limit_key = ?3 LIMIT ${COUNT_CAP})`;

/** 1 statement, and for each key 2 and 1 for each of its lanes. */
export async function limits(db: Connection, query: LimitQuery): Promise<LimitRecord[]> {
  const rows = checkLimitQuery(query);
  return db.read(() => {
    const now = db.now();
    return db.all<[string, ...StateRow]>(PAGE, query.after ?? "", rows).map(([key, ...row]) => {
      const [max, rate, per, burst, tat] = row;
      const limit = { key, max, rate, per, burst };
      const active = db.get<[number]>(ACTIVE, key, COUNT_CAP)?.[0] ?? 0;
      const counts = db
        .all<[string, string]>(LANES, key)
        .map((lane) => db.get<[number]>(THROTTLED, ...lane, key)?.[0] ?? 0);
      const throttled = Math.min(
        counts.reduce((sum, count) => sum + count, 0),
        COUNT_CAP,
      );
      return { ...limit, active, throttled, opensAt: toDate(opensAt({ limit, active, tat }, now)) };
    });
  });
}
