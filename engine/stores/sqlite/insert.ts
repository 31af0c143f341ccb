/**
 * Adding jobs. One transaction of 2 statements plus one for each job; a job that is ready now writes the table and one
 * index, a scheduled one the table and two. A unique job or one with parents costs 2 more, and 1 for each parent; each key
 * and lane of limits what `limits.ts` says; batches 1, and 1 for each; a claim that must hold its job 1, found by its id.
 */
import { checkJoins } from "../../rules/batches.ts";
import { type Birth, births, type Family, namedParents } from "../../rules/dependencies.ts";
import { checkInsert } from "../../rules/held.ts";
import { encodeHistory, historyEntry } from "../../rules/history.ts";
import { dueAt, readyState } from "../../rules/state.ts";
import { keptKey, uniqueDueAt } from "../../rules/unique.ts";
import type { InsertedJob, InsertOptions, JobId, JobState, NewJob } from "../../store.ts";
import { archive } from "./archive.ts";
import type { Connection, Transaction } from "./connection.ts";
import { addLinks } from "./dependencies.ts";
import { requireHeld, tally } from "./finish.ts";
import { encodeRule, Throttling } from "./limits.ts";
import { BatchChanges, batchStates } from "./members.ts";
import { encodeIds, encodeTags, encodeTexts } from "./rows.ts";
import { Holders, takeKey } from "./unique.ts";
import { Waiting } from "./wake.ts";

const TAKE_IDS = "UPDATE kiln_sequences SET value = value + ?1 WHERE name = 'jobs' RETURNING value";

const INSERT = `INSERT INTO kiln_jobs
  (id, state, kind, queue, priority, run_at, max_attempts, created_at, deadline, timeout, title, tags, meta, args,
   recurring_id, limit_key, limit_rule)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const INSERT_MEMBER = INSERT.replace("limit_rule)", "limit_rule, batch_id)").replace("?)", "?, ?)");
const TIE = "UPDATE kiln_jobs SET unique_key = ?2, parents = ?3, pending_parents = ?4 WHERE id = ?1";

const STATES = `SELECT id, state FROM kiln_jobs WHERE id IN (SELECT value FROM json_each(?1))
  UNION ALL SELECT id, state FROM kiln_archive WHERE id IN (SELECT value FROM json_each(?1))`;

export async function insert(
  db: Connection,
  given: readonly NewJob[],
  options?: InsertOptions,
): Promise<InsertedJob[]> {
  const { jobs, whileHeld } = checkInsert(given, options);
  const refuse = (): void => {
    if (whileHeld !== null) requireHeld(db, whileHeld);
  };
  if (jobs.length === 0) {
    return db.read(() => {
      refuse();
      return [];
    });
  }
  return db.write((tx) => {
    refuse();
    return insertAll(db, tx, jobs);
  });
}

/** `jobs` must be the copies that `checkNewJobs` returned. */
export function insertAll(db: Connection, tx: Transaction, jobs: readonly NewJob[]): InsertedJob[] {
  const plain = jobs.every(
    ({ unique, parents, afterBatch }) => unique === null && parents.length === 0 && afterBatch === null,
  );
  return plain ? insertPlain(db, tx, jobs) : new Inserting(db, tx, jobs).insertAll();
}

/** Jobs that neither wait for others nor are unique. Apart, because these are most jobs and what others need costs a fifth more. */
function insertPlain(db: Connection, tx: Transaction, jobs: readonly NewJob[]): InsertedJob[] {
  checkJoins(jobs, null, batchStates(db, jobs, null));
  const [last = 0] = db.get<[number]>(TAKE_IDS, jobs.length) ?? [];
  const waiting = new Waiting();
  const changes = new BatchChanges(db, tx);
  const throttling = new Throttling(db, tx);
  const inserted = jobs.map((job, index) => {
    const id = last - jobs.length + 1 + index;
    const runAt = dueAt(job, tx.now);
    const state = readyState(runAt, tx.now, job.limit !== null);
    insertOne(db, job, id, state, runAt, tx.now);
    changes.join(job, true);
    addWaiting(job, { id, state, runAt }, tx.now, waiting, throttling);
    return { id, state, duplicate: false, replaced: false };
  });
  changes.write();
  throttling.end(waiting);
  // Other processes see it by the ids taken.
  waiting.emit(tx);
  return inserted;
}

/** One call's jobs, some of which are unique or have parents, on their way into the table. */
class Inserting {
  readonly #db: Connection;
  readonly #tx: Transaction;
  readonly #jobs: readonly NewJob[];
  readonly #holders: Holders;
  readonly #waiting = new Waiting();
  readonly #throttling: Throttling;
  readonly #changes: BatchChanges;
  #replaced = false;
  #doomed = 0;

  constructor(db: Connection, tx: Transaction, jobs: readonly NewJob[]) {
    this.#db = db;
    this.#tx = tx;
    this.#jobs = jobs;
    this.#throttling = new Throttling(db, tx);
    this.#changes = new BatchChanges(db, tx);
    this.#holders = new Holders(db, tx, jobs);
  }

  insertAll(): InsertedJob[] {
    const batchOf = batchStates(this.#db, this.#jobs, this.#holders.holders);
    checkJoins(this.#jobs, this.#holders.holders, batchOf);
    const ids = this.#takeIds();
    const born = this.#births(ids, batchOf);
    const results: InsertedJob[] = [];
    this.#jobs.forEach((job, position) => {
      const id = ids[position];
      results.push(
        id === undefined ? this.#duplicate(job, position, results) : this.#add(job, id, born[position] as Birth),
      );
    });
    this.#changes.write();
    tally(this.#db, this.#tx, "", { succeeded: 0, failed: 0, deleted: this.#doomed, retried: 0 });
    this.#throttling.end(this.#waiting);
    // Other processes see new jobs by the ids taken.
    if (this.#replaced) this.#waiting.announce(this.#db, this.#tx);
    else this.#waiting.emit(this.#tx);
    return results;
  }

  #births(ids: readonly (JobId | undefined)[], batchOf: Family["batchOf"]): Birth[] {
    const { holders } = this.#holders;
    const named = namedParents(this.#jobs, holders);
    const states = new Map(named.length === 0 ? [] : this.#db.all<[JobId, JobState]>(STATES, JSON.stringify(named)));
    const stateOf = (id: JobId): JobState | undefined => states.get(id);
    return births({ jobs: this.#jobs, holders, ids: ids.map((id) => id ?? 0), stateOf, batchOf });
  }

  /** By position; undefined for duplicates. */
  #takeIds(): (JobId | undefined)[] {
    const { holders } = this.#holders;
    const count = holders.filter((holder) => holder === null).length;
    const [last = 0] = count === 0 ? [] : (this.#db.get<[number]>(TAKE_IDS, count) ?? []);
    let next = last - count;
    return holders.map((holder) => {
      if (holder !== null) return undefined;
      next += 1;
      return next;
    });
  }

  #add(job: NewJob, id: JobId, birth: Birth): InsertedJob {
    const { now } = this.#tx;
    const runAt = uniqueDueAt(job, now);
    const awaits = birth.pending > 0 || birth.doomedBy !== null;
    const state = awaits ? "awaiting" : readyState(runAt, now, job.limit !== null);
    insertOne(this.#db, job, id, state, runAt, now);
    this.#changes.join(job, birth.doomedBy === null);
    if (job.unique !== null || birth.links.length > 0) this.#tie(job, id, birth);
    if (birth.doomedBy !== null) return this.#doom(id, birth.doomedBy);
    if (job.unique !== null) takeKey(this.#db, this.#tx, id, job.unique);
    addWaiting(job, { id, state, runAt }, now, this.#waiting, this.#throttling);
    return { id, state, duplicate: false, replaced: false };
  }

  /** To its key and its parents. */
  #tie({ unique }: NewJob, id: JobId, birth: Birth): void {
    const parents = encodeIds(birth.links.map(({ parent }) => parent));
    this.#db.run(TIE, id, keptKey(unique), parents, birth.pending);
    addLinks(this.#db, id, birth);
  }

  #doom(id: JobId, reason: string): InsertedJob {
    const { now } = this.#tx;
    const history = encodeHistory([historyEntry({ reason }, "deleted", 0, null, now)]);
    archive(this.#db, id, { state: "deleted", finalizedAt: now, attempt: 0, history, output: null });
    this.#doomed += 1;
    return { id, state: "deleted", duplicate: false, replaced: false };
  }

  #duplicate(job: NewJob, position: number, before: readonly InsertedJob[]): InsertedJob {
    const replaced = this.#holders.replace(position, job);
    if (replaced !== null) {
      this.#replaced = true;
      if (replaced.throttled !== null) this.#throttling.add(replaced.throttled);
      else this.#waiting.add(replaced.queue, replaced.runAt - this.#tx.now);
    }
    return { ...this.#holderOf(position, before), duplicate: true, replaced: replaced !== null };
  }

  #holderOf(position: number, before: readonly InsertedJob[]): { id: JobId; state: JobState } {
    const holder = this.#holders.holders[position];
    if (holder && "id" in holder) return { id: holder.id, state: this.#holders.stateOf(holder.id) };
    const { id, state } = before[holder?.position ?? 0] as InsertedJob;
    return { id, state };
  }
}

/** Of a new job that is not doomed. */
function addWaiting(
  { queue, kind, limit }: NewJob,
  { id, state, runAt }: { id: JobId; state: JobState; runAt: number },
  now: number,
  waiting: Waiting,
  throttling: Throttling,
): void {
  if (state !== "throttled" && state !== "awaiting") waiting.add(queue, runAt - now);
  if (limit !== null) throttling.add({ id, queue, kind, limitKey: limit.key }, state === "throttled", limit);
}

function insertOne(db: Connection, job: NewJob, id: number, state: string, runAt: number, now: number): void {
  const values = [
    id,
    state,
    job.kind,
    job.queue,
    job.priority,
    runAt,
    job.maxAttempts,
    now,
    job.deadline === null ? null : job.deadline.getTime(),
    job.timeout,
    job.title,
    encodeTags(job.tags),
    encodeTexts(job.meta),
    job.args,
    job.recurringId,
    job.limit === null ? null : job.limit.key,
    job.limit === null ? null : encodeRule(job.limit),
  ];
  if (job.batch === null) db.run(INSERT, ...values);
  else db.run(INSERT_MEMBER, ...values, job.batch);
}
