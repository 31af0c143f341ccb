import { checkLimitQuery, checkQuery, checkSeries } from "../../rules/check.ts";
import { decodeCursor, encodeCursor } from "../../rules/cursor.ts";
import { opensAt } from "../../rules/limit.ts";
import { COUNT_CAP } from "../../rules/limits.ts";
import { COUNTERS } from "../../rules/outcome.ts";
import type {
  Counts,
  JobId,
  JobPage,
  JobQuery,
  JobRecord,
  JobState,
  JsonText,
  LimitQuery,
  LimitRecord,
  QueueRecord,
  SeriesPoint,
  SeriesQuery,
  ServerRecord,
} from "../../store.ts";
import { type Data, fieldsMatch, fieldsOf, type Row, type ServerRow, type Tally, toDate } from "./data.ts";
import { childrenOf } from "./dependencies.ts";
import type { LimitKey } from "./limits.ts";

export function job(data: Data, id: JobId): JobRecord | null {
  const row = data.jobs.get(id);
  return row ? toRecord(data, row) : null;
}

export function outputs(data: Data, ids: readonly JobId[]): Map<JobId, JsonText> {
  const found = new Map<JobId, JsonText>();
  for (const id of ids) {
    const row = data.jobs.get(id);
    if (row?.state === "succeeded" && row.output !== null) found.set(id, row.output);
  }
  return found;
}

function toRecord(data: Data, row: Row): JobRecord {
  return {
    ...fieldsOf(row),
    state: row.state,
    attemptedAt: toDate(row.attemptedAt),
    finalizedAt: toDate(row.finalizedAt),
    server: row.server,
    cancelRequested: row.cancelRequested,
    history: row.history.map((entry) => ({ ...entry, at: new Date(entry.at) })),
    output: row.output,
    progress: row.progress,
    afterBatch: row.afterBatch,
    pendingParents: row.pendingParents,
    children: childrenOf(data, row.id),
  };
}

/** What pages of each state are sorted by, ascending. */
const SORT_KEYS: Readonly<Record<JobState, (row: Row) => readonly [number, number] | readonly [number]>> = {
  awaiting: (row) => [-row.id],
  scheduled: (row) => [row.runAt, row.id],
  enqueued: (row) => [-row.priority, row.id],
  throttled: (row) => [-row.priority, row.id],
  processing: (row) => [-row.id],
  succeeded: newestFinalizedFirst,
  failed: newestFinalizedFirst,
  deleted: newestFinalizedFirst,
};

function newestFinalizedFirst(row: Row): readonly [number, number] {
  return [-(row.finalizedAt ?? 0), -row.id];
}

const keyLength = (state: JobState): number => (state === "awaiting" || state === "processing" ? 1 : 2);

function compareKeys(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < a.length; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return 0;
}

export function jobs(data: Data, query: JobQuery): JobPage {
  const limit = checkQuery(query);
  const keyOf = SORT_KEYS[query.state];
  const after = query.cursor === undefined ? null : decodeCursor(query.cursor, keyLength(query.state));
  const found: { readonly row: Row; readonly key: readonly number[] }[] = [];
  for (const row of data.byState[query.state]) {
    const key = keyOf(row);
    if (matches(row, query) && (after === null || compareKeys(key, after) > 0)) found.push({ row, key });
  }
  const page = found.sort((a, b) => compareKeys(a.key, b.key)).slice(0, limit);
  const last = page.at(-1);
  return {
    jobs: page.map(({ row }) => toRecord(data, row)),
    next: last && found.length > page.length ? encodeCursor(last.key) : null,
  };
}

function matches(row: Row, query: JobQuery): boolean {
  return fieldsMatch(row, query) && (query.tag === undefined || row.tags.includes(query.tag));
}

export function counts(data: Data): Counts {
  const live = LIVE.map((state) => data.byState[state].size);
  const [awaiting = 0, scheduled = 0, throttled = 0, enqueued = 0, processing = 0, failed = 0] = live.map(capped);
  return {
    awaiting,
    scheduled,
    throttled,
    enqueued,
    processing,
    failed,
    retries: capped(data.retries),
    ...data.totals,
    capped: live.some((count) => count >= COUNT_CAP),
  };
}

const LIVE = ["awaiting", "scheduled", "throttled", "enqueued", "processing", "failed"] as const;

const capped = (count: number): number => Math.min(count, COUNT_CAP);

export function limits(data: Data, query: LimitQuery): LimitRecord[] {
  const now = data.runtime.now();
  const { after } = query;
  return [...data.limits.keys()]
    .filter((key) => after === undefined || key > after)
    .sort()
    .slice(0, checkLimitQuery(query))
    .map((name) => {
      const key = data.limits.get(name) as LimitKey;
      const throttled = [...key.lanes].reduce((sum, { jobs }) => sum + jobs.size, 0);
      const active = capped(key.active);
      return { ...key.limit, active, throttled: capped(throttled), opensAt: toDate(opensAt(key, now)) };
    });
}

export function series(data: Data, query: SeriesQuery): SeriesPoint[] {
  const { from, to, step } = checkSeries(query);
  const buckets = new Map<number, Tally>();
  for (const [minute, counts] of data.minutes) {
    if (minute < from || minute >= to) continue;
    const start = minute - (minute % step);
    const bucket = buckets.get(start);
    if (!bucket) buckets.set(start, { ...counts });
    else for (const counter of COUNTERS) bucket[counter] += counts[counter];
  }
  return [...buckets].sort(([a], [b]) => a - b).map(([start, counts]) => ({ at: new Date(start), ...counts }));
}

export function servers(data: Data): ServerRecord[] {
  return [...data.servers.values()]
    .map((server) => ({
      ...server.info,
      running: server.running,
      startedAt: new Date(server.startedAt),
      heartbeatAt: new Date(server.heartbeatAt),
      deadAt: toDate(server.deadAt),
    }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

type QueueTally = { -readonly [Field in (typeof LIVE)[number]]: number } & {
  oldest: number | null;
};

export function queues(data: Data): QueueRecord[] {
  const now = data.runtime.now();
  const found = new Map<string, QueueTally>();
  const at = (name: string): QueueTally => {
    const none = { awaiting: 0, scheduled: 0, throttled: 0, enqueued: 0, processing: 0, failed: 0, oldest: null };
    const tally = found.get(name) ?? none;
    found.set(name, tally);
    return tally;
  };
  for (const name of [...data.paused, ...servedQueues(data)]) at(name);
  for (const state of LIVE) {
    for (const row of data.byState[state]) {
      const tally = at(row.queue);
      tally[state] += 1;
      if (state === "enqueued") tally.oldest = Math.min(row.runAt, tally.oldest ?? row.runAt);
    }
  }
  return [...found]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { oldest, ...tally }]) => ({
      name,
      paused: data.paused.has(name),
      ...tally,
      latency: oldest === null ? null : Math.max(now - oldest, 0),
    }));
}

function servedQueues(data: Data): string[] {
  const living = [...data.servers.values()].filter((server: ServerRow) => server.deadAt === null);
  return living.flatMap((server) => [...server.info.queues]);
}
