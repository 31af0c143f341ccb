/** Walks over the jobs of one state in the order of its pages, a portion at a time. */
import type { JobId, JobState } from "../../store.ts";
import type { Connection } from "./connection.ts";
import { lanesOf, mergeLanes } from "./lanes.ts";
import type { JobTable } from "./rows.ts";

/** Where a job stands in the order of its state. */
export type Position = readonly number[];

export interface Found {
  readonly id: JobId;
  readonly position: Position;
}

export interface Portion {
  /** In order. */
  readonly found: readonly Found[];
  /** Where the next portion begins; null at the end. */
  readonly next: Position | null;
}

/** Both fields must match when they are set. */
export interface ScanFilter {
  readonly state: JobState;
  readonly queue?: string | undefined;
  readonly kind?: string | undefined;
}

export const tableOf = (state: JobState): JobTable =>
  state === "succeeded" || state === "deleted" ? "kiln_archive" : "kiln_jobs";

/** How many numbers a position has. */
export const positionLength = (state: JobState): number => (state === "processing" ? 1 : 2);

/**
 * Looks at up to `rows` jobs after a position. Enqueued jobs are read by lane, so that all that are looked at match; of the
 * others each is looked at in the index.
 */
export function scan(db: Connection, filter: ScanFilter, after: Position | null, rows: number): Portion {
  const { state } = filter;
  return state === "enqueued" ? scanLanes(db, filter, after, rows) : scanIndex(db, state, filter, after, rows);
}

function scanLanes(db: Connection, { queue, kind }: ScanFilter, after: Position | null, rows: number): Portion {
  const lanes = lanesOf(db, "enqueued", queue).filter((lane) => kind === undefined || lane.kind === kind);
  const [priority = 0, id = 0] = after ?? [];
  const found = mergeLanes(db, lanes, rows, after === null ? null : [id, priority]).map((ready) => ({
    id: ready.id,
    position: [ready.priority, ready.id],
  }));
  return { found, next: found.length < rows ? null : (found.at(-1)?.position ?? null) };
}

type IndexRow = readonly [rank: number, id: JobId, queue: string, kind: string];

type IndexedState = Exclude<JobState, "enqueued">;

/** ?1 and ?2 are the rank and id before the first row, ?3 how many rows. */
const INDEX_SCANS: Readonly<Record<IndexedState, string>> = {
  scheduled: `SELECT run_at, id, queue, kind FROM kiln_jobs INDEXED BY kiln_jobs_scheduled
    WHERE state = 'scheduled' AND (run_at, id) > (?1, ?2) ORDER BY run_at, id LIMIT ?3`,
  // Only the running jobs: few enough to be sorted each time.
  processing: `SELECT id, id, queue, kind FROM kiln_jobs INDEXED BY kiln_jobs_held
    WHERE state = 'processing' AND (id, id) < (?1, ?2) ORDER BY id DESC LIMIT ?3`,
  failed: `SELECT finalized_at, id, queue, kind FROM kiln_jobs INDEXED BY kiln_jobs_failed
    WHERE state = 'failed' AND (finalized_at, id) < (?1, ?2) ORDER BY finalized_at DESC, id DESC LIMIT ?3`,
  succeeded: archiveScan("succeeded"),
  deleted: archiveScan("deleted"),
};

function archiveScan(state: "succeeded" | "deleted"): string {
  return `SELECT finalized_at, id, queue, kind FROM kiln_archive INDEXED BY kiln_archive_ended
    WHERE state = '${state}' AND (finalized_at, id) < (?1, ?2) ORDER BY finalized_at DESC, id DESC LIMIT ?3`;
}

function scanIndex(
  db: Connection,
  state: IndexedState,
  { queue, kind }: ScanFilter,
  after: Position | null,
  limit: number,
): Portion {
  const start = state === "scheduled" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  const rows = db.all<IndexRow>(INDEX_SCANS[state], after?.[0] ?? start, after?.at(-1) ?? start, limit);
  const positionOf = ([rank, id]: IndexRow): Position => (state === "processing" ? [id] : [rank, id]);
  const found = rows
    .filter((row) => (queue === undefined || row[2] === queue) && (kind === undefined || row[3] === kind))
    .map((row) => ({ id: row[1], position: positionOf(row) }));
  const last = rows.at(-1);
  return { found, next: rows.length < limit || !last ? null : positionOf(last) };
}
