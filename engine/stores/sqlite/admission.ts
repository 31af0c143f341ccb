/** What a claim takes from keys of limits, merged with the jobs that have none. Used only when a key is open. */
import { allowance, type KeyState } from "../../rules/limit.ts";
import type { JobId } from "../../store.ts";
import type { Connection, Transaction } from "./connection.ts";
import { type Lane, mergeLanes } from "./lanes.ts";
import { KEY_STATE, keyState, settleKey } from "./limits.ts";

const OPEN_KINDS = `SELECT k.value FROM json_each(?2) AS k
  WHERE EXISTS (SELECT 1 FROM kiln_limits INDEXED BY kiln_limits_open
    WHERE open_at IS NOT NULL AND queue = ?1 AND kind = k.value AND open_at <= ?3)`;

/** Open lanes have jobs, so as many as jobs are wanted are enough. */
const OPEN_LONGEST = `SELECT key, ${KEY_STATE} FROM kiln_limits INDEXED BY kiln_limits_open
  WHERE open_at IS NOT NULL AND queue = ?1 AND kind = ?2 AND open_at <= ?3 ORDER BY open_at LIMIT ?4`;

/** Those of the most urgent jobs, lest they wait for keys that have been open for longer. */
const MOST_URGENT = `SELECT l.key, ${KEY_STATE} FROM (
    SELECT limit_key FROM kiln_jobs INDEXED BY kiln_jobs_throttled_order
      WHERE state = 'throttled' AND queue = ?1 AND kind = ?2 ORDER BY priority DESC, id LIMIT ?4) AS urgent
  CROSS JOIN kiln_limits AS l ON l.key = urgent.limit_key AND l.queue = ?1 AND l.kind = ?2 AND l.open_at <= ?3`;

const CANDIDATES = `SELECT id, priority FROM kiln_jobs INDEXED BY kiln_jobs_throttled
  WHERE state = 'throttled' AND queue = ?1 AND kind = ?2 AND limit_key = ?3 ORDER BY priority DESC, id LIMIT ?4`;

/** A key as this claim found it. */
interface Key {
  readonly state: KeyState;
  /** What it may still give. */
  left: number;
  taken: number;
  /** A lane of it was open without reason: it has no jobs, or there is no budget. */
  stale: boolean;
}

interface Candidate {
  readonly id: JobId;
  readonly priority: number;
  /** Null = without a limit. */
  readonly key: Key | null;
}

export class Admission {
  readonly #db: Connection;
  readonly #tx: Transaction;
  readonly #keys = new Map<string, Key>();
  readonly #rated = new Set<JobId>();

  constructor(db: Connection, tx: Transaction) {
    this.#db = db;
    this.#tx = tx;
  }

  /** The most urgent jobs of a queue, in order; `ready` are its lanes of jobs without a limit. */
  pick(queue: string, kindsJson: string, ready: readonly Lane[], limit: number): JobId[] {
    const candidates: Candidate[] = mergeLanes(this.#db, "enqueued", ready, limit).map(({ id, priority }) => {
      return { id, priority, key: null };
    });
    const kinds = this.#db.all<[string]>(OPEN_KINDS, queue, kindsJson, this.#tx.now);
    for (const [kind] of kinds) candidates.push(...this.#limited(queue, kind, limit));
    candidates.sort((a, b) => b.priority - a.priority || a.id - b.id);
    const picked: JobId[] = [];
    for (const { id, key } of candidates) {
      if (picked.length === limit) break;
      if (key !== null) {
        if (key.left === 0) continue;
        key.left -= 1;
        key.taken += 1;
        if (key.state.limit.rate > 0) this.#rated.add(id);
      }
      picked.push(id);
    }
    return picked;
  }

  /** The job was admitted by a rate. */
  isRated(id: JobId): boolean {
    return this.#rated.has(id);
  }

  /** Writes what was taken, once the jobs have been. 1 statement for each key. */
  end(): void {
    for (const { state, taken, stale } of this.#keys.values()) {
      if (taken > 0 || stale) settleKey(this.#db, this.#tx, state, taken);
    }
  }

  #limited(queue: string, kind: string, limit: number): Candidate[] {
    const candidates: Candidate[] = [];
    const seen = new Set<string>();
    // Keys that this claim has used up in other queues still look open in this one.
    const lanes = limit + [...this.#keys.values()].filter(({ left }) => left === 0).length;
    for (const sql of [OPEN_LONGEST, MOST_URGENT]) {
      const rows = this.#db.all<[string, number, number, number, number, number]>(
        sql,
        queue,
        kind,
        this.#tx.now,
        lanes,
      );
      for (const [name, ...row] of rows) {
        if (seen.has(name)) continue;
        seen.add(name);
        const key = this.#key(name, row);
        const most = Math.min(key.left, limit);
        const found = most === 0 ? [] : this.#db.all<[JobId, number]>(CANDIDATES, queue, kind, name, most);
        if (found.length === 0 && key.taken === 0) key.stale = true;
        for (const [id, priority] of found) candidates.push({ id, priority, key });
      }
      // Those were all the open lanes that there are.
      if (rows.length < lanes) break;
    }
    return candidates;
  }

  #key(name: string, row: readonly [number, number, number, number, number]): Key {
    let key = this.#keys.get(name);
    if (!key) {
      const state = keyState(this.#db, name, row);
      key = { state, left: allowance(state, this.#tx.now), taken: 0, stale: false };
      this.#keys.set(name, key);
    }
    return key;
  }
}
