import { assertVersion, checkFireRecurring, checkPutRecurring, noRecurring } from "../../rules/recurring.ts";
import { UNFINISHED } from "../../rules/state.ts";
import type { DueRecurring, FireRecurring, InsertedJob, PutRecurring, RecurringRecord } from "../../store.ts";
import type { Data } from "./data.ts";
import { insert } from "./insert.ts";

export function putRecurring(data: Data, given: PutRecurring): number {
  const put = checkPutRecurring(given);
  const row = data.recurring.get(put.id);
  assertVersion(put.id, put.version, row?.version ?? 0);
  const { id, group, cron, timeZone, misfire, overlap, template, paused, nextRunAt } = put;
  const now = new Date(data.runtime.now());
  data.lastVersion += 1;
  data.recurring.set(
    id,
    copy({
      ...{ id, group, cron, timeZone, misfire, overlap, template, paused, nextRunAt, version: data.lastVersion },
      ...{ lastRunAt: row?.lastRunAt ?? null, lastJobId: row?.lastJobId ?? null },
      ...{ createdAt: row?.createdAt ?? now, updatedAt: now },
    }),
  );
  data.wake.emit({ type: "recurring" });
  return data.lastVersion;
}

export function removeRecurring(data: Data, id: string): void {
  if (!data.recurring.delete(id)) throw noRecurring(id);
}

export function recurring(data: Data): RecurringRecord[] {
  return [...data.recurring.values()].sort((a, b) => (a.id < b.id ? -1 : 1)).map(copy);
}

export function recurringJob(data: Data, id: string): RecurringRecord | null {
  const row = data.recurring.get(id);
  return row ? copy(row) : null;
}

export function dueRecurring(data: Data, limit: number): DueRecurring {
  const now = data.runtime.now();
  const waiting = [...data.recurring.values()]
    .filter((row) => !row.paused && row.nextRunAt !== null)
    .sort((a, b) => dueAt(a) - dueAt(b) || (a.id < b.id ? -1 : 1));
  const rows = waiting.filter((row) => dueAt(row) <= now).slice(0, limit);
  const [first] = waiting;
  return { now: new Date(now), rows: rows.map(copy), nextIn: first ? Math.max(dueAt(first) - now, 0) : null };
}

const dueAt = (row: RecurringRecord): number => row.nextRunAt?.getTime() ?? 0;

export function fireRecurring(data: Data, given: FireRecurring): InsertedJob[] {
  const firing = checkFireRecurring(given);
  const row = data.recurring.get(firing.id);
  if (!row) throw noRecurring(firing.id);
  assertVersion(firing.id, firing.version, row.version);
  const jobs = row.overlap ? firing.jobs : lastJobIsUnfinished(data, row) ? [] : firing.jobs.slice(0, 1);
  const inserted = insert(data, jobs);
  data.lastVersion += 1;
  const { nextRunAt, lastRunAt } = firing;
  const lastJobId = inserted.at(-1)?.id ?? row.lastJobId;
  const updatedAt = new Date(data.runtime.now());
  data.recurring.set(row.id, copy({ ...row, nextRunAt, lastRunAt, lastJobId, updatedAt, version: data.lastVersion }));
  return inserted;
}

function lastJobIsUnfinished(data: Data, { lastJobId }: RecurringRecord): boolean {
  const job = lastJobId === null ? undefined : data.jobs.get(lastJobId);
  return job !== undefined && UNFINISHED.includes(job.state);
}

/** So that nobody can change a row by what was given or is handed out. */
const copy = (row: RecurringRecord): RecurringRecord => structuredClone(row);
