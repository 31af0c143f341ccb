/** Walks over the jobs of one state in the order of its pages, a portion at a time. */
import type { BatchId, JobId, JobState } from "../../store.ts";
import type { Connection } from "./connection.ts";
import { lanesOf, mergeLanes, type UrgencyState } from "./lanes.ts";
import type { JobTable } from "./rows.ts";
import { RANK } from "./schema.ts";

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

/** All fields must match that are set. */
export interface ScanFilter {
  readonly state: JobState;
  readonly queue?: string | undefined;
  readonly kind?: string | undefined;
  readonly batch?: BatchId | undefined;
  readonly recurringId?: string | undefined;
}

export const tableOf = (state: JobState): JobTable =>
  state === "succeeded" || state === "deleted" ? "kiln_archive" : "kiln_jobs";

/** How many numbers a position has. */
export const positionLength = (state: JobState): number => (state === "awaiting" || state === "processing" ? 1 : 2);

/**
 * Looks at up to `rows` jobs after a position. Those of a batch or of a recurring job are read by that. Otherwise enqueued and
 * throttled jobs are read by lane, so that all that are looked at match; of the others each is looked at in the index.
 */
export function scan(db: Connection, filter: ScanFilter, after: Position | null, rows: number): Portion {
  const { state } = filter;
  if (filter.batch !== undefined) return scanGroup(db, "batch", filter, after, rows);
  if (filter.recurringId !== undefined) return scanGroup(db, "recurring", filter, after, rows);
  if (state === "enqueued" || state === "throttled") return scanLanes(db, state, filter, after, rows);
  return scanIndex(db, state, filter, after, rows);
}

function scanLanes(
  db: Connection,
  state: UrgencyState,
  { queue, kind }: ScanFilter,
  after: Position | null,
  rows: number,
): Portion {
  const lanes = lanesOf(db, state, queue).filter((lane) => kind === undefined || lane.kind === kind);
  const [priority = 0, id = 0] = after ?? [];
  const found = mergeLanes(db, state, lanes, rows, after === null ? null : [id, priority]).map((ready) => ({
    id: ready.id,
    position: [ready.priority, ready.id],
  }));
  return { found, next: found.length < rows ? null : (found.at(-1)?.position ?? null) };
}

type IndexRow = readonly [rank: number, id: JobId, queue: string, kind: string];
type IndexedState = Exclude<JobState, UrgencyState>;

interface Order {
  readonly index: string;
  /** What comes before the id. */
  readonly rank: string;
  readonly newestFirst: boolean;
}

const ORDERS: Readonly<Record<IndexedState, Order>> = {
  scheduled: { index: "kiln_jobs_scheduled", rank: "run_at", newestFirst: false },
  // By id alone.
  awaiting: { index: "kiln_jobs_awaiting", rank: "id", newestFirst: true },
  // By id alone. Only the running jobs: few enough to be sorted each time.
  processing: { index: "kiln_jobs_held", rank: "id", newestFirst: true },
  failed: { index: "kiln_jobs_failed", rank: "finalized_at", newestFirst: true },
  succeeded: { index: "kiln_archive_ended", rank: "finalized_at", newestFirst: true },
  deleted: { index: "kiln_archive_ended", rank: "finalized_at", newestFirst: true },
};

/**
 * ?1 and ?2 are the rank and id before the first row, ?3 how many rows. In two parts, because (rank, id) > (?1, ?2) would
 * begin with all jobs of that rank, and thousands may be scheduled for one instant.
 */
function indexScan(state: IndexedState): string {
  const { index, rank, newestFirst } = ORDERS[state];
  const [beyond, direction] = newestFirst ? ["<", "DESC"] : [">", "ASC"];
  const part = (position: string): string => `SELECT ${rank} AS rank, id, queue, kind
    FROM ${tableOf(state)} INDEXED BY ${index} WHERE state = '${state}' AND ${position}`;
  return `${part(`${rank} = ?1 AND id ${beyond} ?2`)} UNION ALL ${part(`${rank} ${beyond} ?1`)}
    ORDER BY rank ${direction}, id ${direction} LIMIT ?3`;
}

const INDEX_SCANS: Readonly<Record<IndexedState, string>> = {
  awaiting: indexScan("awaiting"),
  scheduled: indexScan("scheduled"),
  processing: indexScan("processing"),
  failed: indexScan("failed"),
  succeeded: indexScan("succeeded"),
  deleted: indexScan("deleted"),
};

function scanIndex(
  db: Connection,
  state: IndexedState,
  { queue, kind }: ScanFilter,
  after: Position | null,
  limit: number,
): Portion {
  const start = state === "scheduled" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  const rows = db.all<IndexRow>(INDEX_SCANS[state], after?.[0] ?? start, after?.at(-1) ?? start, limit);
  const positionOf = ([rank, id]: IndexRow): Position => (positionLength(state) === 1 ? [id] : [rank, id]);
  const found = rows
    .filter((row) => (queue === undefined || row[2] === queue) && (kind === undefined || row[3] === kind))
    .map((row) => ({ id: row[1], position: positionOf(row) }));
  const last = rows.at(-1);
  return { found, next: rows.length < limit || !last ? null : positionOf(last) };
}

// --------------------------------------------------------------------------------- jobs of a batch or of a recurring job

type Group = "batch" | "recurring";
type Direction = "ASC" | "DESC";

/** ?1 is the batch or recurring job, ?2 the state, ?3 and ?4 the rank and id before the first row, ?5 how many rows. */
interface GroupScan {
  /** Of the same rank. */
  readonly same: string;
  /** Of the ranks that follow. */
  readonly beyond: string;
}

function groupScan(group: Group, table: JobTable, direction: Direction): GroupScan {
  const rank = table === "kiln_archive" ? "finalized_at" : RANK;
  const beyond = direction === "ASC" ? ">" : "<";
  const part = (
    condition: string,
    order: string,
  ): string => `SELECT ${rank}, id, queue, kind, recurring_id FROM ${table} INDEXED BY ${table}_${group}
    WHERE ${group}_id = ?1 AND state = ?2 AND ${condition} ORDER BY ${order} LIMIT ?5`;
  return {
    same: part(`${rank} = ?3 AND id ${beyond} ?4`, `id ${direction}`),
    beyond: part(`${rank} ${beyond} ?3`, `${rank} ${direction}, id ${direction}`),
  };
}

const forEachDirection = (group: Group, table: JobTable): Readonly<Record<Direction, GroupScan>> => ({
  ASC: groupScan(group, table, "ASC"),
  DESC: groupScan(group, table, "DESC"),
});
const GROUP_SCANS = {
  batch: { kiln_jobs: forEachDirection("batch", "kiln_jobs"), kiln_archive: forEachDirection("batch", "kiln_archive") },
  recurring: {
    kiln_jobs: forEachDirection("recurring", "kiln_jobs"),
    kiln_archive: forEachDirection("recurring", "kiln_archive"),
  },
} as const;

type GroupRow = readonly [rank: number, id: JobId, queue: string, kind: string, recurringId: string | null];

function scanGroup(db: Connection, group: Group, filter: ScanFilter, after: Position | null, limit: number): Portion {
  const { state, queue, kind, batch, recurringId } = filter;
  const direction = state === "scheduled" || isUrgency(state) ? "ASC" : "DESC";
  const { same, beyond } = GROUP_SCANS[group][tableOf(state)][direction];
  const start = direction === "ASC" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  const [rank, id] = after === null ? [start, start] : [rankOf(state, after), after.at(-1) ?? start];
  const value = group === "batch" ? (batch ?? 0) : (recurringId ?? "");
  const rows = after === null ? [] : db.all<GroupRow>(same, value, state, rank, id, limit);
  if (rows.length < limit) rows.push(...db.all<GroupRow>(beyond, value, state, rank, id, limit - rows.length));
  const positionOf = ([rank, id]: GroupRow): Position =>
    positionLength(state) === 1 ? [id] : [isUrgency(state) ? -rank : rank, id];
  const found = rows
    .filter((row) => (queue === undefined || row[2] === queue) && (kind === undefined || row[3] === kind))
    .filter((row) => recurringId === undefined || row[4] === recurringId)
    .map((row) => ({ id: row[1], position: positionOf(row) }));
  const last = rows.at(-1);
  return { found, next: rows.length < limit || !last ? null : positionOf(last) };
}

const isUrgency = (state: JobState): boolean => state === "enqueued" || state === "throttled";

/** `RANK` of a position. */
function rankOf(state: JobState, position: Position): number {
  if (positionLength(state) === 1) return 0;
  const [first = 0] = position;
  return isUrgency(state) ? -first : first;
}
