/**
 * Writes for running jobs, each fenced by its claim. `finish` is one transaction of 5 statements when all jobs succeeded
 * without output, plus 2 for each that ended otherwise or has output, 1 for each that runs again, 1 for each that gets a
 * history entry, 1 for each unique key that is released, and for children what `dependencies.ts` says, for limited jobs what `limits.ts` says, for
 * members of batches what `members.ts` says. Args are never read.
 */
import { checkParams } from "../../rules/check.ts";
import { isParentState } from "../../rules/dependencies.ts";
import { claimLost } from "../../rules/held.ts";
import { COUNTERS, type Counter, minuteOf, refusal, type Settled, settle } from "../../rules/outcome.ts";
import { releasesKey } from "../../rules/unique.ts";
import type { ArchivedState, BatchId, FinishResult, JobId, JobRef, JsonText, Outcome } from "../../store.ts";
import { archive, archiveAll, historyWith } from "./archive.ts";
import type { Connection, Transaction } from "./connection.ts";
import { type Ended, settleChildren } from "./dependencies.ts";
import { freePlaces, Throttling } from "./limits.ts";
import { BatchChanges } from "./members.ts";
import { decodeTexts, encodeTexts } from "./rows.ts";
import { releaseKey } from "./unique.ts";
import { Waiting } from "./wake.ts";

const HELD = `SELECT id, claim, attempt, run_at, cancel_requested, queue, kind, limit_key, unique_key, batch_id FROM kiln_jobs
  WHERE id IN (SELECT value FROM json_each(?1)) AND state = 'processing'`;

const RUN_AGAIN = `UPDATE kiln_jobs SET state = ?2, attempt = ?3, run_at = ?4, finalized_at = ?5,
  history = coalesce(?6, history), cancel_requested = 0 WHERE id = ?1`;

interface HeldJob {
  readonly id: JobId;
  readonly claim: number;
  readonly attempt: number;
  readonly runAt: number;
  readonly cancelRequested: boolean;
  readonly queue: string;
  readonly kind: string;
  readonly limitKey: string | null;
  readonly uniqueKey: string | null;
  readonly batch: BatchId | null;
}

type HeldRow = readonly [
  id: JobId,
  claim: number,
  attempt: number,
  runAt: number,
  cancelRequested: number,
  queue: string,
  kind: string,
  limitKey: string | null,
  uniqueKey: string | null,
  batch: BatchId | null,
];

export async function finish(db: Connection, server: string, outcomes: readonly Outcome[]): Promise<FinishResult[]> {
  // Outputs are parsed here, before the lock is taken.
  const rules = outcomes.map(refusal);
  if (rules.every((rule) => rule !== null)) return db.read(() => rules.map((rule) => ({ status: "rejected", rule })));
  return db.write((tx) => {
    const held = heldJobs(db, outcomes);
    const finishing = new Finishing(db, tx, server);
    const results = outcomes.map((outcome, index): FinishResult => {
      const rule = rules[index] ?? null;
      if (rule !== null) return { status: "rejected", rule };
      const job = held.get(outcome.id);
      if (!job || !holds(db, job.claim, outcome)) return { status: "stale" };
      held.delete(outcome.id);
      return { status: "applied", state: finishing.apply(job, outcome) };
    });
    finishing.end();
    return results;
  });
}

function heldJobs(db: Connection, refs: readonly JobRef[]): Map<JobId, HeldJob> {
  const rows = db.all<HeldRow>(HELD, JSON.stringify(refs.map(({ id }) => id)));
  return new Map(
    rows.map(([id, claim, attempt, runAt, cancel, queue, kind, limitKey, uniqueKey, batch]) => [
      id,
      { id, claim, attempt, runAt, cancelRequested: cancel === 1, queue, kind, limitKey, uniqueKey, batch },
    ]),
  );
}

export function holds(db: Connection, claim: number, ref: JobRef): boolean {
  return claim === ref.claim || db.runtime.buggify("store.no-claim-check");
}

const CLAIM = "SELECT claim FROM kiln_jobs WHERE id = ? AND state = 'processing'";

/** 1 statement. @throws ClaimLostError unless the job is processing under this claim */
export function requireHeld(db: Connection, ref: JobRef): void {
  const row = db.get<[claim: number]>(CLAIM, ref.id);
  if (!row || !holds(db, row[0], ref)) throw claimLost(ref);
}

/** Applies the outcomes of one call; what many of them have in common is written once, at the end. */
class Finishing {
  readonly #db: Connection;
  readonly #tx: Transaction;
  readonly #server: string;
  readonly #plain: JobId[] = [];
  readonly #ended: Ended[] = [];
  readonly #counts: Tally = { succeeded: 0, failed: 0, deleted: 0, retried: 0 };
  readonly #waiting = new Waiting();
  /** Keys of limits whose jobs have ended, and the jobs that wait for them again. */
  readonly #freed = new Set<string>();
  readonly #throttling: Throttling;
  readonly #changes: BatchChanges;

  constructor(db: Connection, tx: Transaction, server: string) {
    this.#db = db;
    this.#tx = tx;
    this.#server = server;
    this.#throttling = new Throttling(db, tx);
    this.#changes = new BatchChanges(db, tx);
  }

  /** Returns the job's new state. */
  apply(job: HeldJob, outcome: Outcome): Settled["state"] {
    const settled = settle(job, outcome, this.#server, this.#tx.now);
    if (job.limitKey !== null) this.#freed.add(job.limitKey);
    if (releasesKey(settled.state)) releaseKey(this.#db, job.id, job.uniqueKey);
    if (isParentState(settled.state)) this.#ended.push({ id: job.id, end: settled.state });
    if (settled.counter !== null) this.#counts[settled.counter] += 1;
    if (settled.state === "succeeded" || settled.state === "deleted") this.#changes.end(job.batch);
    if (settled.state === "succeeded" || settled.state === "deleted") this.#archive(job, settled, settled.state);
    else this.#runAgain(job, settled);
    return settled.state;
  }

  end(): void {
    archiveAll(this.#db, this.#plain, "succeeded", this.#tx.now);
    const settlement = { changes: this.#changes };
    this.#counts.deleted += settleChildren(this.#db, this.#tx, this.#ended, this.#waiting, settlement).doomed;
    tally(this.#db, this.#tx, this.#server, this.#counts);
    this.#throttling.end(this.#waiting);
    freePlaces(this.#db, this.#tx, this.#freed, this.#waiting);
    this.#waiting.announce(this.#db, this.#tx);
  }

  #archive(job: HeldJob, settled: Settled, state: ArchivedState): void {
    const { attempt, output, entry } = settled;
    if (state === "succeeded" && output === null && entry === null && attempt === job.attempt) {
      this.#plain.push(job.id);
    } else {
      archive(this.#db, job.id, {
        state,
        finalizedAt: this.#tx.now,
        attempt,
        history: this.#history(job, settled),
        output,
      });
    }
  }

  #runAgain(job: HeldJob, settled: Settled): void {
    const { state, attempt, runAt, finalizedAt } = settled;
    this.#db.run(RUN_AGAIN, job.id, state, attempt, runAt, finalizedAt, this.#history(job, settled));
    if (state === "throttled" && job.limitKey !== null) {
      this.#throttling.add({ ...job, limitKey: job.limitKey });
    } else if (state !== "failed") this.#waiting.add(job.queue, runAt - this.#tx.now);
  }

  #history(job: HeldJob, { entry }: Settled): string | null {
    return entry === null ? null : historyWith(this.#db, "kiln_jobs", job.id, entry);
  }
}

export type Tally = Record<Counter, number>;

/** Where the all-time totals are kept among the minutes, so that old minutes can simply be removed. */
export const ALL_TIME = -1;

const TALLY = `INSERT INTO kiln_stats (minute, server, succeeded, failed, deleted, retried)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6), (${ALL_TIME}, '', ?3, ?4, ?5, ?6)
  ON CONFLICT (minute, server) DO UPDATE SET succeeded = succeeded + excluded.succeeded, failed = failed + excluded.failed,
    deleted = deleted + excluded.deleted, retried = retried + excluded.retried`;

/** Adds to the statistics; an operator's doings have no server, ''. 1 statement of 2 rows, or none. */
export function tally(db: Connection, tx: Transaction, server: string, counts: Tally): void {
  if (COUNTERS.every((counter) => counts[counter] === 0)) return;
  const minute = minuteOf(tx.now);
  db.run(TALLY, minute, server, counts.succeeded, counts.failed, counts.deleted, counts.retried);
}

const PARAMS = "SELECT claim, params FROM kiln_jobs WHERE id = ? AND state = 'processing'";
const SET_PARAMS = "UPDATE kiln_jobs SET params = ? WHERE id = ?";

/** One transaction of 2 statements. */
export async function setParams(
  db: Connection,
  ref: JobRef,
  params: Readonly<Record<string, JsonText>>,
): Promise<void> {
  checkParams(params);
  return db.write(() => {
    const row = db.get<[claim: number, params: string | null]>(PARAMS, ref.id);
    if (!row || !holds(db, row[0], ref)) throw claimLost(ref);
    db.run(SET_PARAMS, encodeTexts({ ...decodeTexts(row[1]), ...params }), ref.id);
  });
}
