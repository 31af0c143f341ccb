/** Unique keys and the jobs that hold them. */
import { findHolders, type Holder, isHeld, keyExpiry, releasesKey, replacement } from "../../rules/unique.ts";
import type { InsertedJob, JobId, NewJob } from "../../store.ts";
import { change, type Data, type Row } from "./data.ts";

export interface KeyRow {
  readonly id: JobId;
  /** Null = until the job ends. */
  readonly expiresAt: number | null;
}

/** The holders of the keys of a call's jobs, as `rules/unique.ts` has them. */
export function holdersOf(data: Data, jobs: readonly NewJob[], now: number): (Holder | null)[] {
  return findHolders(jobs, (key) => {
    const held = data.keys.get(key);
    return held !== undefined && isHeld(held.expiresAt, now) ? held.id : undefined;
  });
}

/** Lets the holder take the payload of a duplicate that replaces it. Null when it does not. */
export function replaceHolder(data: Data, holder: Holder | null, job: NewJob, now: number): Row | null {
  if (holder === null || !("id" in holder) || !holder.first) return null;
  const row = data.jobs.get(holder.id);
  const to = row && replacement(row, job, now);
  if (!row || !to) return null;
  const { args, priority, title } = job;
  change(data, row, {
    ...{ ...to, args, priority, title },
    tags: Object.freeze([...job.tags]),
    meta: Object.freeze({ ...job.meta }),
  });
  return row;
}

/** What is said of a duplicate, after everything was stored. `ids` are those of the call's new jobs, by position. */
export function duplicateOf(data: Data, holder: Holder, ids: readonly JobId[], replaced: boolean): InsertedJob {
  const id = "id" in holder ? holder.id : (ids[holder.position] ?? 0);
  return { id, state: data.jobs.get(id)?.state ?? "deleted", duplicate: true, replaced };
}

/** For a new job. */
export function takeKey(data: Data, id: JobId, { unique }: NewJob, now: number): void {
  if (unique === null) return;
  const before = data.keys.get(unique.key);
  data.keys.set(unique.key, { id, expiresAt: keyExpiry(unique, now) });
  data.undo?.add(() => {
    if (before) data.keys.set(unique.key, before);
    else data.keys.delete(unique.key);
  });
}

/** Frees the key of a job that has ended, unless it has a window or somebody else holds it. */
export function releaseKey(data: Data, row: Row): void {
  if (row.uniqueKey === null || !releasesKey(row.state)) return;
  const held = data.keys.get(row.uniqueKey);
  if (held?.id === row.id && held.expiresAt === null) data.keys.delete(row.uniqueKey);
}

/** For a job that is requeued. False when another job holds the key. */
export function retakeKey(data: Data, { id, uniqueKey }: Row, now: number): boolean {
  if (uniqueKey === null) return true;
  const held = data.keys.get(uniqueKey);
  if (held && held.id !== id && isHeld(held.expiresAt, now)) return false;
  data.keys.set(uniqueKey, { id, expiresAt: null });
  return true;
}

export function pruneKeys(data: Data, now: number, limit: number): number {
  let removed = 0;
  for (const [key, { expiresAt }] of data.keys) {
    if (removed === limit) break;
    if (isHeld(expiresAt, now)) continue;
    data.keys.delete(key);
    removed += 1;
  }
  return removed;
}
