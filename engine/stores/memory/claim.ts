import type { ClaimedJob, ClaimQuery, ClaimReply } from "../../store.ts";
import { change, type Data, fieldsOf, type Lane, livingServer, promote, type Row } from "./data.ts";
import { isMoreUrgent, mayStart, nextOpening, openLane, takeOne } from "./limits.ts";

export function claim(data: Data, query: ClaimQuery): ClaimReply {
  if (!livingServer(data, query.server)) return { known: false, jobs: [], nextIn: null };
  const now = data.runtime.now();
  const queues = queriedLanes(data, query);
  for (const lane of queues.flat()) promote(data, lane, now, Number.POSITIVE_INFINITY);
  const jobs: ClaimedJob[] = [];
  for (const lanes of queues) {
    while (jobs.length < query.limit) {
      const row = mostUrgent(lanes, now);
      if (!row) break;
      if (row.lane && !mayStart(data, row.lane.key, now)) continue;
      jobs.push(take(data, row, query, now));
    }
  }
  return { known: true, jobs, nextIn: nextIn(queues.flat(), now) };
}

/** The lanes that the query may claim from, by queue in the order asked for. */
function queriedLanes(data: Data, query: ClaimQuery): Lane[][] {
  return query.queues.map((queue) => {
    const lanes = data.lanes.get(queue);
    if (!lanes || data.paused.has(queue)) return [];
    if (query.kinds.length === 0) return [...lanes.values()];
    return query.kinds.flatMap((kind) => lanes.get(kind) ?? []);
  });
}

function mostUrgent(lanes: readonly Lane[], now: number): Row | undefined {
  let best: Row | undefined;
  for (const { ready, limited } of lanes) {
    for (const row of [ready.first, openLane(limited, now)?.jobs.first]) {
      if (row && (!best || isMoreUrgent(row, best))) best = row;
    }
  }
  return best;
}

function take(data: Data, row: Row, query: ClaimQuery, now: number): ClaimedJob {
  const key = row.lane?.key;
  change(data, row, {
    state: "processing",
    attempt: row.attempt + 1,
    claim: row.claim + 1,
    attemptedAt: now,
    server: query.server,
    sequence: query.sequence,
  });
  if (key) takeOne(data, key, now);
  return { ...fieldsOf(row), limited: key !== undefined && key.limit.rate > 0, attemptedAt: new Date(now) };
}

function nextIn(lanes: readonly Lane[], now: number): number | null {
  let next: number | null = null;
  for (const { ready, due, limited } of lanes) {
    if (ready.size > 0) return 0;
    for (const at of [due.first?.runAt, nextOpening(limited, now)]) {
      if (at != null) next = Math.min(at - now, next ?? Number.POSITIVE_INFINITY);
    }
  }
  return next;
}
