/**
 * Recurring jobs. Reads are 1 statement, `dueRecurring` 1 more when rows are due; `putRecurring` is one transaction of 3
 * statements, `fireRecurring` of 3 besides those of the insert, 1 more without `overlap`.
 */
import type { Misfire } from "../../rules/misfire.ts";
import { assertVersion, checkFireRecurring, checkPutRecurring, noRecurring } from "../../rules/recurring.ts";
import { UNFINISHED } from "../../rules/state.ts";
import type {
  DueRecurring,
  FireRecurring,
  InsertedJob,
  JobId,
  JobState,
  PutRecurring,
  RecurringRecord,
  RecurringTemplate,
} from "../../store.ts";
import type { Connection } from "./connection.ts";
import { insertAll } from "./insert.ts";
import { toDate } from "./rows.ts";

const COLUMNS = `id, version, group_name, cron, time_zone, misfire, overlap, paused, next_run_at, last_run_at, last_job_id,
  created_at, updated_at, template`;

type RecurringRow = readonly [
  id: string,
  version: number,
  group: string | null,
  cron: string,
  timeZone: string,
  misfire: Misfire,
  overlap: number,
  paused: number,
  nextRunAt: number | null,
  lastRunAt: number | null,
  lastJobId: JobId | null,
  createdAt: number,
  updatedAt: number,
  template: string,
];

const VERSION = "SELECT version FROM kiln_recurring WHERE id = ?";
/** From a sequence, so that a row that is removed and set anew has no version that it had before. */
const NEXT_VERSION = "UPDATE kiln_sequences SET value = value + 1 WHERE name = 'recurring' RETURNING value";
const PUT = `INSERT INTO kiln_recurring
  (id, version, group_name, cron, time_zone, misfire, overlap, paused, next_run_at, template, created_at, updated_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)
  ON CONFLICT (id) DO UPDATE SET version = ?2, group_name = ?3, cron = ?4, time_zone = ?5, misfire = ?6, overlap = ?7,
    paused = ?8, next_run_at = ?9, template = ?10, updated_at = ?11`;

export async function putRecurring(db: Connection, given: PutRecurring): Promise<number> {
  const put = checkPutRecurring(given);
  const template = JSON.stringify(put.template);
  return db.write((tx) => {
    assertVersion(put.id, put.version, db.get<[number]>(VERSION, put.id)?.[0] ?? 0);
    const version = nextVersion(db);
    db.run(
      PUT,
      put.id,
      version,
      put.group,
      put.cron,
      put.timeZone,
      put.misfire,
      put.overlap ? 1 : 0,
      put.paused ? 1 : 0,
      put.nextRunAt?.getTime() ?? null,
      template,
      tx.now,
    );
    tx.emit({ type: "recurring" });
    return version;
  });
}

function nextVersion(db: Connection): number {
  return db.get<[number]>(NEXT_VERSION)?.[0] ?? 0;
}

export async function removeRecurring(db: Connection, id: string): Promise<void> {
  return db.write(() => {
    if (db.run("DELETE FROM kiln_recurring WHERE id = ?", id) === 0) throw noRecurring(id);
  });
}

export async function recurring(db: Connection): Promise<RecurringRecord[]> {
  return db.read(() => db.all<RecurringRow>(`SELECT ${COLUMNS} FROM kiln_recurring ORDER BY id`).map(toRecord));
}

export async function recurringJob(db: Connection, id: string): Promise<RecurringRecord | null> {
  return db.read(() => {
    const row = db.get<RecurringRow>(`SELECT ${COLUMNS} FROM kiln_recurring WHERE id = ?`, id);
    return row ? toRecord(row) : null;
  });
}

const FIRST_DUE = `SELECT next_run_at FROM kiln_recurring INDEXED BY kiln_recurring_due
  WHERE paused = 0 AND next_run_at IS NOT NULL ORDER BY next_run_at LIMIT 1`;
const DUE = `SELECT ${COLUMNS} FROM kiln_recurring INDEXED BY kiln_recurring_due
  WHERE paused = 0 AND next_run_at IS NOT NULL AND next_run_at <= ? ORDER BY next_run_at, id LIMIT ?`;

export async function dueRecurring(db: Connection, limit: number): Promise<DueRecurring> {
  return db.read(() => {
    const now = db.runtime.now();
    const first = db.get<[number]>(FIRST_DUE)?.[0] ?? null;
    const rows = first !== null && first <= now ? db.all<RecurringRow>(DUE, now, limit).map(toRecord) : [];
    return { now: new Date(now), rows, nextIn: first === null ? null : Math.max(first - now, 0) };
  });
}

const STATE = "SELECT version, overlap, last_job_id FROM kiln_recurring WHERE id = ?";
const FIRED = `UPDATE kiln_recurring SET version = ?2, next_run_at = ?3, last_run_at = ?4,
  last_job_id = coalesce(?5, last_job_id), updated_at = ?6 WHERE id = ?1`;

export async function fireRecurring(db: Connection, given: FireRecurring): Promise<InsertedJob[]> {
  const firing = checkFireRecurring(given);
  const { id, version, nextRunAt, lastRunAt } = firing;
  return db.write((tx) => {
    const row = db.get<[version: number, overlap: number, lastJobId: JobId | null]>(STATE, id);
    if (!row) throw noRecurring(id);
    const [actual, overlap, lastJobId] = row;
    assertVersion(id, version, actual);
    const jobs = overlap === 1 ? firing.jobs : isUnfinished(db, lastJobId) ? [] : firing.jobs.slice(0, 1);
    const inserted = jobs.length === 0 ? [] : insertAll(db, tx, jobs);
    const [next, last] = [nextRunAt?.getTime() ?? null, lastRunAt?.getTime() ?? null];
    db.run(FIRED, id, nextVersion(db), next, last, inserted.at(-1)?.id ?? null, tx.now);
    return inserted;
  });
}

function isUnfinished(db: Connection, id: JobId | null): boolean {
  const state = id === null ? undefined : db.get<[JobState]>("SELECT state FROM kiln_jobs WHERE id = ?", id)?.[0];
  return state !== undefined && UNFINISHED.includes(state);
}

function toRecord(row: RecurringRow): RecurringRecord {
  const [id, version, group, cron, timeZone, misfire, overlap, paused, nextRunAt, lastRunAt, lastJobId] = row;
  return {
    ...{ id, version, group, cron, timeZone, misfire, lastJobId, overlap: overlap === 1, paused: paused === 1 },
    ...{ nextRunAt: toDate(nextRunAt), lastRunAt: toDate(lastRunAt) },
    ...{ createdAt: new Date(row[11]), updatedAt: new Date(row[12]) },
    template: JSON.parse(row[13]) as RecurringTemplate,
  };
}
