/**
 * Claiming. Finding nothing is one read of 4 statements (with no kinds given, one more for each kind that waits in the
 * queues); it takes no lock and writes nothing. Otherwise one transaction more: 2 or 3 statements for each queue, a few
 * for each kind that has ready jobs when there are several, and one update of the claimed rows. When a key of limits is
 * open, besides 2 statements for each kind with open keys, 2 or 3 for each of at most as many of these as jobs are wanted.
 */
import type { ClaimedJob, ClaimQuery, ClaimReply, JobId } from "../../store.ts";
import { Admission } from "./admission.ts";
import type { Connection, Transaction } from "./connection.ts";
import { lanesOf, mergeLanes } from "./lanes.ts";
import { addPromoted, type PromotedRow } from "./limits.ts";
import { FIELDS, type FieldsRow, inOrder, toClaimed } from "./rows.ts";
import { Waiting } from "./wake.ts";

/** At most this many due jobs are moved by one claim. */
const PROMOTE_LIMIT = 1_000;

const LIVING_SERVER = "SELECT 1 FROM kiln_servers WHERE id = ? AND dead_at IS NULL";
const PAUSED = "SELECT queue FROM kiln_paused_queues WHERE queue IN (SELECT value FROM json_each(?))";

const ANY_READY = `SELECT 1 FROM json_each(?1) AS q CROSS JOIN json_each(?2) AS k
  CROSS JOIN kiln_jobs AS j INDEXED BY kiln_jobs_ready
  WHERE j.state = 'enqueued' AND j.queue = q.value AND j.kind = k.value LIMIT 1`;

const READY_KINDS = `SELECT k.value FROM json_each(?2) AS k
  WHERE EXISTS (SELECT 1 FROM kiln_jobs INDEXED BY kiln_jobs_ready
    WHERE state = 'enqueued' AND queue = ?1 AND kind = k.value)`;

const NEXT = `SELECT min(due), min(opening) FROM (
  SELECT (SELECT run_at FROM kiln_jobs INDEXED BY kiln_jobs_due
      WHERE state = 'scheduled' AND queue = q.value AND kind = k.value ORDER BY run_at LIMIT 1) AS due,
    (SELECT open_at FROM kiln_limits INDEXED BY kiln_limits_open
      WHERE open_at IS NOT NULL AND queue = q.value AND kind = k.value ORDER BY open_at LIMIT 1) AS opening
    FROM json_each(?1) AS q CROSS JOIN json_each(?2) AS k)`;

const PROMOTE = `UPDATE kiln_jobs SET state = iif(limit_key IS NULL, 'enqueued', 'throttled') WHERE id IN (
  SELECT j.id FROM json_each(?1) AS q CROSS JOIN json_each(?2) AS k
    CROSS JOIN kiln_jobs AS j INDEXED BY kiln_jobs_due
    WHERE j.state = 'scheduled' AND j.queue = q.value AND j.kind = k.value AND j.run_at <= ?3 LIMIT ?4)
  RETURNING id, queue, kind, limit_key`;

const PICK_LANE = `SELECT ${FIELDS} FROM kiln_jobs INDEXED BY kiln_jobs_ready
  WHERE state = 'enqueued' AND queue = ?1 AND kind = ?2 ORDER BY priority DESC, id LIMIT ?3`;

const PICK_IDS = `SELECT ${FIELDS} FROM kiln_jobs WHERE id IN (SELECT value FROM json_each(?1))`;

const TAKE = `UPDATE kiln_jobs SET state = 'processing', attempt = attempt + 1, claim = claim + 1, attempted_at = ?2,
  server = ?3, claim_sequence = ?4, cancel_requested = 0 WHERE id IN (SELECT value FROM json_each(?1))`;

export async function claim(db: Connection, query: ClaimQuery): Promise<ClaimReply> {
  const idle = await db.read(() => look(db, query));
  return idle ?? db.write((tx) => take(db, tx, query));
}

/** The reply when there is nothing to do, else null. */
function look(db: Connection, query: ClaimQuery): ClaimReply | null {
  const lanes = queriedLanes(db, query);
  if (lanes === null) return UNKNOWN;
  const now = db.runtime.now();
  const next = earlier(nextOf(db, lanes));
  if (anyReady(db, lanes) || (next !== null && next <= now)) return null;
  return { known: true, jobs: [], nextIn: next === null ? null : next - now };
}

const UNKNOWN: ClaimReply = { known: false, jobs: [], nextIn: null };

/** The lanes that a query may claim from: those of each of the kinds in each of the queues. */
interface QueriedLanes {
  readonly queues: readonly string[];
  /** `queues` and the kinds, as the JSON that statements take. */
  readonly queuesJson: string;
  readonly kindsJson: string;
}

/** Null when the server is not known. */
function queriedLanes(db: Connection, query: ClaimQuery): QueriedLanes | null {
  if (!db.get(LIVING_SERVER, query.server)) return null;
  const asked = [...new Set(query.queues)];
  const paused = new Set(db.all<[string]>(PAUSED, JSON.stringify(asked)).map(([queue]) => queue));
  const queues = paused.size === 0 ? asked : asked.filter((queue) => !paused.has(queue));
  const kinds = query.kinds.length === 0 ? kindsWaiting(db, queues) : [...new Set(query.kinds)];
  return { queues, queuesJson: JSON.stringify(queues), kindsJson: JSON.stringify(kinds) };
}

function kindsWaiting(db: Connection, queues: readonly string[]): string[] {
  const states = ["enqueued", "throttled", "scheduled"] as const;
  const lanes = queues.flatMap((queue) => states.flatMap((state) => lanesOf(db, state, queue)));
  return [...new Set(lanes.map(({ kind }) => kind))];
}

function anyReady(db: Connection, { queuesJson, kindsJson }: QueriedLanes): boolean {
  return db.get(ANY_READY, queuesJson, kindsJson) !== undefined;
}

interface Next {
  /** When the first scheduled job of the lanes is due. */
  readonly due: number | null;
  /** When the first key of limits opens in them. */
  readonly opening: number | null;
}

function nextOf(db: Connection, { queuesJson, kindsJson }: QueriedLanes): Next {
  const [due, opening] = db.get<[number | null, number | null]>(NEXT, queuesJson, kindsJson) ?? [null, null];
  return { due, opening };
}

const earlier = ({ due, opening }: Next): number | null =>
  due === null || opening === null ? (due ?? opening) : Math.min(due, opening);

function take(db: Connection, tx: Transaction, query: ClaimQuery): ClaimReply {
  const lanes = queriedLanes(db, query);
  if (lanes === null) return UNKNOWN;
  const before = nextOf(db, lanes);
  const promoted = before.due === null || before.due > tx.now ? [] : promote(db, tx, lanes);
  const { opening } = promoted.length === 0 ? before : nextOf(db, lanes);
  const admission = opening === null || opening > tx.now ? null : new Admission(db, tx);
  const rows: FieldsRow[] = [];
  for (const queue of lanes.queues) {
    if (rows.length < query.limit) rows.push(...pick(db, admission, queue, lanes.kindsJson, query.limit - rows.length));
  }
  if (rows.length > 0) db.run(TAKE, idsOf(rows), tx.now, query.server, query.sequence);
  admission?.end();
  const jobs: ClaimedJob[] = rows.map((row) => toClaimed(row, tx.now, admission?.isRated(row[0]) ?? false));
  const next = earlier(nextOf(db, lanes));
  const more =
    promoted.length === PROMOTE_LIMIT ||
    (jobs.length >= query.limit && anyReady(db, lanes)) ||
    (next !== null && next <= tx.now);
  if (more) tellOthers(db, tx, promoted);
  return { known: true, jobs, nextIn: more ? 0 : next && next - tx.now };
}

const idsOf = (rows: readonly FieldsRow[]): string => JSON.stringify(rows.map(([id]) => id));

/** Moves due jobs to where they wait. Returns them. */
function promote(db: Connection, tx: Transaction, lanes: QueriedLanes): PromotedRow[] {
  const promoted = db.all<PromotedRow>(PROMOTE, lanes.queuesJson, lanes.kindsJson, tx.now, PROMOTE_LIMIT);
  addPromoted(db, tx, promoted, new Waiting());
  return promoted;
}

/** The most urgent jobs of a queue, in order. */
function pick(
  db: Connection,
  admission: Admission | null,
  queue: string,
  kindsJson: string,
  limit: number,
): FieldsRow[] {
  const kinds = db.all<[string]>(READY_KINDS, queue, kindsJson).map(([kind]) => kind);
  const lanes = kinds.map((kind) => ({ queue, kind }));
  if (admission !== null) return readRows(db, admission.pick(queue, kindsJson, lanes, limit));
  if (kinds.length === 0) return [];
  const [only = ""] = kinds;
  if (kinds.length === 1) return db.all<FieldsRow>(PICK_LANE, queue, only, limit);
  const ids = mergeLanes(db, "enqueued", lanes, limit).map(({ id }) => id);
  return readRows(db, ids);
}

const readRows = (db: Connection, ids: readonly JobId[]): FieldsRow[] =>
  ids.length === 0 ? [] : inOrder(db.all<FieldsRow>(PICK_IDS, JSON.stringify(ids)), ids);

/** Other servers may run what this claim has made ready but not taken. */
function tellOthers(db: Connection, tx: Transaction, promoted: readonly PromotedRow[]): void {
  const waiting = new Waiting();
  for (const [, queue] of promoted) waiting.add(queue, 0);
  waiting.announce(db, tx);
}
