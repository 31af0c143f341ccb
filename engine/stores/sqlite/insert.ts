/**
 * Adding jobs. One transaction of 2 statements plus one for each job; a job that is ready now writes the table and one
 * index, a scheduled one the table and two.
 */
import { checkNewJobs } from "../../rules/check.ts";
import { dueAt, readyState } from "../../rules/state.ts";
import type { InsertedJob, NewJob } from "../../store.ts";
import type { Connection, Transaction } from "./connection.ts";
import { encodeTags, encodeTexts } from "./rows.ts";
import { Waiting } from "./wake.ts";

const TAKE_IDS = "UPDATE kiln_sequences SET value = value + ?1 WHERE name = 'jobs' RETURNING value";

const INSERT = `INSERT INTO kiln_jobs
  (id, state, kind, queue, priority, run_at, max_attempts, created_at, deadline, timeout, title, tags, meta, args,
   recurring_id)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

export async function insert(db: Connection, jobs: readonly NewJob[]): Promise<InsertedJob[]> {
  checkNewJobs(jobs);
  if (jobs.length === 0) return db.read(() => []);
  return db.write((tx) => insertAll(db, tx, jobs));
}

/** `jobs` must have been checked. */
export function insertAll(db: Connection, tx: Transaction, jobs: readonly NewJob[]): InsertedJob[] {
  const [last = 0] = db.get<[number]>(TAKE_IDS, jobs.length) ?? [];
  const waiting = new Waiting();
  const inserted = jobs.map((job, index) => {
    const id = last - jobs.length + 1 + index;
    const runAt = dueAt(job, tx.now);
    const state = readyState(runAt, tx.now);
    insertOne(db, job, id, state, runAt, tx.now);
    waiting.add(job.queue, runAt - tx.now);
    return { id, state };
  });
  // Other processes see it by the ids taken.
  waiting.emit(tx);
  return inserted;
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
    job.recurringId,
  );
}
