/** The tables of the memory store, and the few functions that keep their indexes right. */

import { COUNTERS, type Counter, minuteOf } from "../../rules/outcome.ts";
import { waitingState } from "../../rules/state.ts";
import type { Runtime } from "../../runtime.ts";
import {
  ARCHIVED_STATES,
  type ArchivedState,
  type BatchId,
  type ConsoleLine,
  type HistoryEntry,
  JOB_STATES,
  type JobFields,
  type JobFilter,
  type JobId,
  type JobState,
  type JsonText,
  type Limit,
  type RecurringRecord,
  type ServerInfo,
} from "../../store.ts";
import type { LinkRow } from "./dependencies.ts";
import { Heap, type Placed } from "./heap.ts";
import {
  countActive,
  emptyGroup,
  isMoreUrgent,
  type LimitGroup,
  type LimitKey,
  type LimitLane,
  throttle,
  unthrottle,
} from "./limits.ts";
import type { BatchRow } from "./members.ts";
import { type Undo, valuesOf } from "./undo.ts";
import type { KeyRow } from "./unique.ts";
import type { Wake } from "./wake.ts";

/**
 * A job. Instants are milliseconds since 1970. What an index depends on is written by `change` only; tags, meta and params
 * are frozen, so that they may be handed out as they are.
 */
export interface Row extends Placed {
  readonly id: JobId;
  readonly kind: string;
  readonly queue: string;
  readonly timeout: number | null;
  readonly deadline: number | null;
  readonly createdAt: number;
  readonly recurringId: string | null;
  /** That it releases when it ends. */
  readonly uniqueKey: string | null;
  /** Frozen. */
  readonly parents: readonly JobId[];
  readonly batch: BatchId | null;
  readonly afterBatch: BatchId | null;
  pendingParents: number;
  args: JsonText;
  priority: number;
  title: string | null;
  tags: readonly string[];
  meta: Readonly<Record<string, string>>;
  readonly limit: Limit | null;
  /** Where it waits while it is throttled. */
  lane: LimitLane | null;
  state: JobState;
  claim: number;
  attempt: number;
  maxAttempts: number;
  runAt: number;
  attemptedAt: number | null;
  finalizedAt: number | null;
  server: string | null;
  /** Of the claim call. */
  sequence: number;
  cancelRequested: boolean;
  params: Readonly<Record<string, JsonText>>;
  history: readonly HistoryEntry[];
  output: JsonText | null;
  progress: number | null;
  /** Null until something is logged. */
  console: ConsoleLine[] | null;
}

/** The waiting jobs of one kind in one queue. */
export interface Lane {
  /** Enqueued, in the order in which they are claimed. */
  readonly ready: Heap<Row>;
  /** Scheduled, in the order in which they become due. */
  readonly due: Heap<Row>;
  /** Throttled, by the keys of their limits. */
  readonly limited: LimitGroup;
}

export interface ServerRow {
  readonly info: ServerInfo;
  readonly startedAt: number;
  heartbeatAt: number;
  deadAt: number | null;
  running: number;
}

export interface LeaseRow {
  readonly holder: string;
  readonly acquiredAt: number;
  readonly expiresAt: number;
}

export type Tally = Record<Counter, number>;

export interface Data {
  readonly runtime: Runtime;
  readonly wake: Wake;
  /** What the open transaction has to take back if it is rolled back; null while none is open. */
  undo: Undo | null;
  readonly jobs: Map<JobId, Row>;
  /** In the order in which they came to the state. */
  readonly byState: Readonly<Record<JobState, Set<Row>>>;
  /** By queue, then kind. */
  readonly lanes: Map<string, Map<string, Lane>>;
  /** Processing jobs by the server that claimed them. */
  readonly held: Map<string, Set<Row>>;
  readonly servers: Map<string, ServerRow>;
  readonly leases: Map<string, LeaseRow>;
  readonly paused: Set<string>;
  /** Recurring jobs by id. */
  readonly recurring: Map<string, RecurringRecord>;
  lastVersion: number;
  /** Unique keys, with the jobs that hold them. */
  readonly keys: Map<string, KeyRow>;
  /** By parent (a job, or a batch by `asParent`), then child. A link stays as long as its child. */
  readonly links: Map<number, Map<JobId, LinkRow>>;
  readonly batches: Map<BatchId, BatchRow>;
  lastBatch: BatchId;
  /** Keys of limits by name. */
  readonly limits: Map<string, LimitKey>;
  /** Statistics by the start of their minute. */
  readonly minutes: Map<number, Tally>;
  /** All-time totals. */
  readonly totals: Record<ArchivedState, number>;
  /** Scheduled jobs that have had an attempt. */
  retries: number;
  lastId: JobId;
  /** For the simulator: called before a job is added, changed or removed. */
  observe: ((row: Row, what: "add" | "change" | "remove") => void) | null;
}

export function emptyData(runtime: Runtime, wake: Wake): Data {
  return {
    runtime,
    wake,
    undo: null,
    jobs: new Map(),
    byState: Object.fromEntries(JOB_STATES.map((state) => [state, new Set<Row>()])) as Record<JobState, Set<Row>>,
    lanes: new Map(),
    held: new Map(),
    servers: new Map(),
    leases: new Map(),
    paused: new Set(),
    recurring: new Map(),
    lastVersion: 0,
    keys: new Map(),
    links: new Map(),
    batches: new Map(),
    lastBatch: 0,
    limits: new Map(),
    minutes: new Map(),
    totals: { succeeded: 0, deleted: 0 },
    retries: 0,
    lastId: 0,
    observe: null,
  };
}

export function addRow(data: Data, row: Row): void {
  data.observe?.(row, "add");
  data.jobs.set(row.id, row);
  enter(data, row);
  data.undo?.add(() => removeRow(data, row));
}

/** Changes a job and moves it in every index. */
export function change(data: Data, row: Row, to: Partial<Row>): void {
  const before = data.undo && { ...row };
  data.observe?.(row, "change");
  leave(data, row);
  Object.assign(row, to);
  enter(data, row);
  if (before) data.undo?.add(() => change(data, row, valuesOf(before, to)));
}

export function removeRow(data: Data, row: Row): void {
  data.observe?.(row, "remove");
  leave(data, row);
  data.jobs.delete(row.id);
}

function enter(data: Data, row: Row): void {
  data.byState[row.state].add(row);
  countMember(data, row, 1);
  if (row.state === "enqueued") laneOf(data, row).ready.add(row);
  if (row.state === "scheduled") laneOf(data, row).due.add(row);
  if (row.state === "processing") heldBy(data, row.server ?? "").add(row);
  if (row.limit !== null) enterLimit(data, row, row.limit);
  if (isRetry(row)) data.retries += 1;
}

function leave(data: Data, row: Row): void {
  data.byState[row.state].delete(row);
  countMember(data, row, -1);
  if (row.state === "enqueued") laneOf(data, row).ready.remove(row);
  if (row.state === "scheduled") laneOf(data, row).due.remove(row);
  if (row.state === "processing") letGo(data, row);
  if (row.limit !== null && row.state === "processing") countActive(data, row, row.limit, -1);
  if (row.state === "throttled") unthrottle(data, row);
  if (isRetry(row)) data.retries -= 1;
}

function enterLimit(data: Data, row: Row, limit: Limit): void {
  if (row.state === "throttled") throttle(data, laneOf(data, row).limited, row, limit);
  if (row.state === "processing") countActive(data, row, limit, 1);
}

function countMember({ batches }: Data, { batch, state }: Row, change: 1 | -1): void {
  const row = batch === null ? undefined : batches.get(batch);
  if (row) row.counts[state] += change;
}

const isRetry = (row: Row): boolean => row.state === "scheduled" && row.attempt > 0;

function laneOf(data: Data, row: Row): Lane {
  const kinds = getOrAdd(data.lanes, row.queue, () => new Map<string, Lane>());
  return getOrAdd(kinds, row.kind, () => ({
    ready: new Heap(isMoreUrgent),
    due: new Heap(isDueBefore),
    limited: emptyGroup(),
  }));
}

export function getOrAdd<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}

function isDueBefore(a: Row, b: Row): boolean {
  return a.runAt !== b.runAt ? a.runAt < b.runAt : a.id < b.id;
}

function heldBy(data: Data, server: string): Set<Row> {
  return getOrAdd(data.held, server, () => new Set());
}

function letGo(data: Data, row: Row): void {
  const server = row.server ?? "";
  const rows = heldBy(data, server);
  rows.delete(row);
  if (rows.size === 0) data.held.delete(server);
}

/** Moves the lane's due jobs, at most `limit`, to where they wait. Returns them. */
export function promote(data: Data, lane: Lane, now: number, limit: number): Row[] {
  const moved: Row[] = [];
  while (moved.length < limit) {
    const row = lane.due.first;
    if (!row || row.runAt > now) break;
    change(data, row, { state: waitingState(row.limit !== null) });
    moved.push(row);
  }
  return moved;
}

/** A server that may claim and beat. */
export function livingServer(data: Data, id: string): ServerRow | null {
  const server = data.servers.get(id);
  return server && server.deadAt === null ? server : null;
}

/** Counts the end of an attempt, or of a job, in its minute and in the totals. */
export function tally(data: Data, counter: Counter, now: number): void {
  const minute = minuteOf(now);
  const counts = getOrAdd(data.minutes, minute, () => ({ succeeded: 0, failed: 0, deleted: 0, retried: 0 }));
  count(data, counts, counter, 1);
  data.undo?.add(() => {
    count(data, counts, counter, -1);
    if (COUNTERS.every((each) => counts[each] === 0)) data.minutes.delete(minute);
  });
}

function count(data: Data, counts: Tally, counter: Counter, change: 1 | -1): void {
  counts[counter] += change;
  if (isArchived(counter)) data.totals[counter] += change;
}

const isArchived = (state: string): state is ArchivedState => (ARCHIVED_STATES as readonly string[]).includes(state);

export const toDate = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

/** The fields that filters and queries have in common. */
export function fieldsMatch(
  row: Row,
  { queue, kind, batch, recurringId }: Pick<JobFilter, "queue" | "kind" | "batch" | "recurringId">,
): boolean {
  return (
    (queue === undefined || row.queue === queue) &&
    (kind === undefined || row.kind === kind) &&
    (batch === undefined || row.batch === batch) &&
    (recurringId === undefined || row.recurringId === recurringId)
  );
}

/** What claims and records have in common, with nothing in it that the store could be changed through. */
export function fieldsOf(row: Row): JobFields {
  return {
    id: row.id,
    claim: row.claim,
    kind: row.kind,
    queue: row.queue,
    args: row.args,
    priority: row.priority,
    attempt: row.attempt,
    maxAttempts: row.maxAttempts,
    timeout: row.timeout,
    runAt: new Date(row.runAt),
    deadline: toDate(row.deadline),
    createdAt: new Date(row.createdAt),
    title: row.title,
    tags: row.tags,
    meta: row.meta,
    recurringId: row.recurringId,
    limitKey: row.limit?.key ?? null,
    params: row.params,
    parents: row.parents,
    batch: row.batch,
  };
}
