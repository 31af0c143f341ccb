/**
 * Adding jobs. One transaction of 2 statements plus one for each job; a job that is ready now writes the table and one
 * index, a scheduled one the table and two.
 */
import { checkNewJobs } from "../../rules/check.ts";
import { readyState } from "../../rules/state.ts";
import { keptKey, uniqueDueAt } from "../../rules/unique.ts";
import type { InsertedJob, JobId, JobState, NewJob } from "../../store.ts";
import type { Connection, Transaction } from "./connection.ts";
import { encodeTags, encodeTexts } from "./rows.ts";
import { Holders, takeKey } from "./unique.ts";
import { Waiting } from "./wake.ts";

const TAKE_IDS = "UPDATE kiln_sequences SET value = value + ?1 WHERE name = 'jobs' RETURNING value";

const INSERT = `INSERT INTO kiln_jobs
  (id, state, kind, queue, priority, run_at, max_attempts, created_at, deadline, timeout, title, tags, meta, args, unique_key)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

export async function insert(db: Connection, jobs: readonly NewJob[]): Promise<InsertedJob[]> {
  checkNewJobs(jobs);
  if (jobs.length === 0) return db.read(() => []);
  return db.write((tx) => new Inserting(db, tx, jobs).insertAll());
}

/** One call's jobs on their way into the table. */
class Inserting {
  readonly #db: Connection;
  readonly #tx: Transaction;
  readonly #jobs: readonly NewJob[];
  readonly #holders: Holders;
  readonly #waiting = new Waiting();
  #replaced = false;

  constructor(db: Connection, tx: Transaction, jobs: readonly NewJob[]) {
    this.#db = db;
    this.#tx = tx;
    this.#jobs = jobs;
    this.#holders = new Holders(db, tx, jobs);
  }

  insertAll(): InsertedJob[] {
    const ids = this.#takeIds();
    const results: InsertedJob[] = [];
    this.#jobs.forEach((job, position) => {
      const id = ids[position];
      results.push(id === undefined ? this.#duplicate(job, position, results) : this.#add(job, id));
    });
    // Other processes see new jobs by the ids taken.
    if (this.#replaced) this.#waiting.announce(this.#db, this.#tx);
    else this.#waiting.emit(this.#tx);
    return results;
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

  #add(job: NewJob, id: JobId): InsertedJob {
    const { now } = this.#tx;
    const runAt = uniqueDueAt(job, now);
    const state = readyState(runAt, now);
    insertOne(this.#db, job, id, state, runAt, now);
    if (job.unique !== null) takeKey(this.#db, this.#tx, id, job.unique);
    this.#waiting.add(job.queue, runAt - now);
    return { id, state, duplicate: false, replaced: false };
  }

  #duplicate(job: NewJob, position: number, before: readonly InsertedJob[]): InsertedJob {
    const replaced = this.#holders.replace(position, job);
    if (replaced !== null) {
      this.#replaced = true;
      this.#waiting.add(replaced.queue, replaced.runAt - this.#tx.now);
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

function insertOne(db: Connection, job: NewJob, id: number, state: string, runAt: number, now: number): void {
  db.run(
    INSERT,
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
    keptKey(job.unique),
  );
}
