/**
 * Reading. Each call is one read, `jobs` with a filter one for each 1,000 jobs that it looks at, with the event loop free
 * in between. Counts of live jobs stop at 100,000, so that what they cost has an end.
 */
import { checkQuery, checkSeries } from "../../rules/check.ts";
import { decodeCursor, encodeCursor } from "../../rules/cursor.ts";
import { COUNT_CAP } from "../../rules/limits.ts";
import type {
  Counts,
  JobId,
  JobPage,
  JobQuery,
  JobRecord,
  JsonText,
  QueueRecord,
  SeriesPoint,
  SeriesQuery,
  ServerRecord,
} from "../../store.ts";
import type { Connection } from "./connection.ts";
import { pausedQueues } from "./coordinate.ts";
import { ALL_TIME } from "./finish.ts";
import { lanesOf } from "./lanes.ts";
import { readRecord, readRecords, toDate } from "./rows.ts";
import { type Found, type Position, positionLength, scan, tableOf } from "./scan.ts";

/** 1 statement. */
export async function job(db: Connection, id: JobId): Promise<JobRecord | null> {
  return db.read(() => readRecord(db, id));
}

const OUTPUTS = `SELECT id, output FROM kiln_archive
  WHERE id IN (SELECT value FROM json_each(?)) AND state = 'succeeded' AND output IS NOT NULL`;

/** 1 statement. */
export async function outputs(db: Connection, ids: readonly JobId[]): Promise<Map<JobId, JsonText>> {
  return db.read(() => new Map(db.all<[JobId, JsonText]>(OUTPUTS, JSON.stringify(ids))));
}

/** Jobs looked at by one read of a filtered page. */
const PORTION = 1_000;
/** Jobs looked at for one page with a tag; then the page ends, however short. */
const TAG_SCAN = 5_000;

/** 2 statements for each read, for enqueued jobs also some for each lane. */
export async function jobs(db: Connection, query: JobQuery): Promise<JobPage> {
  const limit = checkQuery(query);
  const filtered = (query.queue ?? query.kind ?? query.tag ?? query.batch ?? query.recurringId) !== undefined;
  const portion = filtered ? PORTION : limit + 1;
  let after: Position | null =
    query.cursor === undefined ? null : decodeCursor(query.cursor, positionLength(query.state));
  const page: PlacedRecord[] = [];
  for (let looked = portion; ; looked += portion) {
    const from: Position | null = after;
    const { records, next } = await db.read(() => readPortion(db, query, from, portion, limit + 1 - page.length));
    page.push(...records);
    const more = page.length > limit ? page[limit - 1]?.position : next;
    if (page.length > limit || next === null || (query.tag !== undefined && looked >= TAG_SCAN)) {
      return { jobs: page.slice(0, limit).map(({ record }) => record), next: more ? encodeCursor(more) : null };
    }
    after = next;
    await db.runtime.turn();
  }
}

interface PlacedRecord {
  readonly record: JobRecord;
  readonly position: Position;
}

/** The first `limit` matching jobs among the `rows` after a position. */
function readPortion(
  db: Connection,
  query: JobQuery,
  after: Position | null,
  rows: number,
  limit: number,
): { records: PlacedRecord[]; next: Position | null } {
  const { found, next } = scan(db, query, after, rows);
  const tagged = query.tag === undefined ? found : withTag(db, query, query.tag, found);
  const wanted = tagged.slice(0, limit);
  const records = readRecords(
    db,
    tableOf(query.state),
    wanted.map(({ id }) => id),
  );
  return { records: records.map((record, index) => ({ record, position: wanted[index]?.position ?? [] })), next };
}

const TAGGED = {
  kiln_jobs: "SELECT id, tags FROM kiln_jobs WHERE id IN (SELECT value FROM json_each(?)) AND tags IS NOT NULL",
  kiln_archive: "SELECT id, tags FROM kiln_archive WHERE id IN (SELECT value FROM json_each(?)) AND tags IS NOT NULL",
} as const;

function withTag(db: Connection, { state }: JobQuery, tag: string, found: readonly Found[]): Found[] {
  const rows = db.all<[JobId, string]>(TAGGED[tableOf(state)], JSON.stringify(found.map(({ id }) => id)));
  const tagged = new Set(rows.filter(([, tags]) => (JSON.parse(tags) as string[]).includes(tag)).map(([id]) => id));
  return found.filter(({ id }) => tagged.has(id));
}

const countOf = (condition: string): string =>
  `SELECT count(*) FROM (SELECT 1 FROM kiln_jobs WHERE ${condition} LIMIT ${COUNT_CAP})`;
const COUNTS = {
  awaiting: countOf("state = 'awaiting'"),
  scheduled: countOf("state = 'scheduled'"),
  throttled: countOf("state = 'throttled'"),
  enqueued: countOf("state = 'enqueued'"),
  processing: countOf("state = 'processing'"),
  failed: countOf("state = 'failed'"),
} as const;
const RETRIES = countOf("state = 'scheduled' AND attempt > 0");
const TOTALS = `SELECT succeeded, deleted FROM kiln_stats WHERE minute = ${ALL_TIME} AND server = ''`;

/** 7 statements, each over at most 100,000 entries of an index. */
export async function counts(db: Connection): Promise<Counts> {
  return db.read(() => {
    const count = (sql: string): number => db.get<[number]>(sql)?.[0] ?? 0;
    const awaiting = count(COUNTS.awaiting);
    const scheduled = count(COUNTS.scheduled);
    const throttled = count(COUNTS.throttled);
    const enqueued = count(COUNTS.enqueued);
    const processing = count(COUNTS.processing);
    const failed = count(COUNTS.failed);
    const [succeeded, deleted] = db.get<[number, number]>(TOTALS) ?? [0, 0];
    const capped = [awaiting, scheduled, throttled, enqueued, processing, failed].includes(COUNT_CAP);
    const retries = count(RETRIES);
    return { awaiting, scheduled, throttled, enqueued, processing, failed, retries, succeeded, deleted, capped };
  });
}

// Parameters are bound as floating-point numbers, with which % would not be that of integers.
const SERIES = `SELECT minute - minute % CAST(?3 AS INTEGER) AS bucket, sum(succeeded), sum(failed), sum(deleted), sum(retried)
  FROM kiln_stats WHERE minute >= ?1 AND minute < ?2 GROUP BY bucket ORDER BY bucket`;

/** 1 statement over the minutes of the range, a row for each server. */
export async function series(db: Connection, query: SeriesQuery): Promise<SeriesPoint[]> {
  const { from, to, step } = checkSeries(query);
  const rows = await db.read(() => db.all<[number, number, number, number, number]>(SERIES, from, to, step));
  return rows.map(([at, succeeded, failed, deleted, retried]) => ({
    at: new Date(at),
    succeeded,
    failed,
    deleted,
    retried,
  }));
}

const SERVERS = `SELECT id, hostname, pid, version, queues, kinds, workers, running, dead_after, started_at, heartbeat_at, dead_at
  FROM kiln_servers ORDER BY id`;

type ServerRow = readonly [
  id: string,
  hostname: string,
  pid: number,
  version: string,
  queues: string,
  kinds: string,
  workers: number,
  running: number,
  deadAfter: number,
  startedAt: number,
  heartbeatAt: number,
  deadAt: number | null,
];

/** 1 statement. */
export async function servers(db: Connection): Promise<ServerRecord[]> {
  return (await db.read(() => db.all<ServerRow>(SERVERS))).map(toServer);
}

function toServer(row: ServerRow): ServerRecord {
  const [id, hostname, pid, version, queues, kinds, workers, running, deadAfter, startedAt, heartbeatAt, deadAt] = row;
  return {
    id,
    hostname,
    pid,
    version,
    queues: JSON.parse(queues) as string[],
    kinds: JSON.parse(kinds) as string[],
    workers,
    running,
    deadAfter,
    startedAt: new Date(startedAt),
    heartbeatAt: new Date(heartbeatAt),
    deadAt: toDate(deadAt),
  };
}

const QUEUE_COUNTS = {
  enqueued: `SELECT count(*), min(run_at) FROM (SELECT run_at FROM kiln_jobs INDEXED BY kiln_jobs_ready
    WHERE state = 'enqueued' AND queue = ?1 LIMIT ${COUNT_CAP})`,
  scheduled: `SELECT count(*) FROM (SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_due
    WHERE state = 'scheduled' AND queue = ?1 LIMIT ${COUNT_CAP})`,
  throttled: `SELECT count(*) FROM (SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_throttled
    WHERE state = 'throttled' AND queue = ?1 LIMIT ${COUNT_CAP})`,
  awaiting: `SELECT count(*) FROM (SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_awaiting_queue
    WHERE state = 'awaiting' AND queue = ?1 LIMIT ${COUNT_CAP})`,
  failed: `SELECT count(*) FROM (SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_failed_queue
    WHERE state = 'failed' AND queue = ?1 LIMIT ${COUNT_CAP})`,
} as const;
const PROCESSING =
  "SELECT queue, count(*) FROM kiln_jobs INDEXED BY kiln_jobs_held WHERE state = 'processing' GROUP BY queue";
const SERVED = `SELECT DISTINCT q.value FROM kiln_servers AS s CROSS JOIN json_each(s.queues) AS q WHERE s.dead_at IS NULL`;
const nextQueue = (state: "awaiting" | "failed"): string => `SELECT queue FROM kiln_jobs
  INDEXED BY kiln_jobs_${state}_queue WHERE state = '${state}' AND queue > ? ORDER BY queue LIMIT 1`;
const NEXT_QUEUES = [nextQueue("awaiting"), nextQueue("failed")] as const;
const FIRST_OF_LANE = `SELECT run_at FROM kiln_jobs INDEXED BY kiln_jobs_ready
  WHERE state = 'enqueued' AND queue = ?1 AND kind = ?2 ORDER BY priority DESC, id LIMIT 1`;

/** 4 statements for each queue and 1 for each lane; each over at most 100,000 entries of an index. */
export async function queues(db: Connection): Promise<QueueRecord[]> {
  return db.read(() => {
    const now = db.now();
    const paused = new Set(pausedQueues(db));
    const processing = new Map(db.all<[string, number]>(PROCESSING));
    return queueNames(db, [...paused, ...processing.keys()]).map((name) => {
      const [enqueued = 0, oldest = null] = db.get<[number, number | null]>(QUEUE_COUNTS.enqueued, name) ?? [];
      const due = enqueued < COUNT_CAP ? oldest : oldestByLane(db, name, oldest);
      return {
        name,
        paused: paused.has(name),
        awaiting: db.get<[number]>(QUEUE_COUNTS.awaiting, name)?.[0] ?? 0,
        scheduled: db.get<[number]>(QUEUE_COUNTS.scheduled, name)?.[0] ?? 0,
        throttled: db.get<[number]>(QUEUE_COUNTS.throttled, name)?.[0] ?? 0,
        enqueued,
        processing: processing.get(name) ?? 0,
        failed: db.get<[number]>(QUEUE_COUNTS.failed, name)?.[0] ?? 0,
        latency: due === null ? null : Math.max(now - due, 0),
      };
    });
  });
}

/** Sorted. */
function queueNames(db: Connection, others: readonly string[]): string[] {
  const names = new Set([...others, ...db.all<[string]>(SERVED).map(([queue]) => queue)]);
  for (const state of ["enqueued", "throttled", "scheduled"] as const) {
    for (const { queue } of lanesOf(db, state)) names.add(queue);
  }
  for (const sql of NEXT_QUEUES) {
    let next = db.get<[string]>(sql, "");
    while (next) {
      names.add(next[0]);
      next = db.get<[string]>(sql, next[0]);
    }
  }
  return [...names].sort();
}

/** When not all jobs of a queue were looked at: the first of each lane are likely to have waited longest. */
function oldestByLane(db: Connection, queue: string, oldest: number | null): number | null {
  const firsts = lanesOf(db, "enqueued", queue).map(({ kind }) => db.get<[number]>(FIRST_OF_LANE, queue, kind)?.[0]);
  return firsts.reduce<number | null>(
    (least, due) => (due === undefined ? least : Math.min(due, least ?? due)),
    oldest,
  );
}
