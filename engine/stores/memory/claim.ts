import type { ClaimedJob, ClaimQuery, ClaimReply } from "../../store.ts";
import { change, type Data, fieldsOf, isMoreUrgent, type Lane, livingServer, promote, type Row } from "./data.ts";

export function claim(data: Data, query: ClaimQuery): ClaimReply {
  if (!livingServer(data, query.server)) return { known: false, jobs: [], nextIn: null };
  const now = data.runtime.now();
  const queues = queriedLanes(data, query);
  for (const lane of queues.flat()) promote(data, lane, now, Number.POSITIVE_INFINITY);
  const jobs: ClaimedJob[] = [];
  for (const lanes of queues) {
    while (jobs.length < query.limit) {
      const row = mostUrgent(lanes);
      if (!row) break;
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

function mostUrgent(lanes: readonly Lane[]): Row | undefined {
  let best: Row | undefined;
  for (const { ready } of lanes) {
    const row = ready.first;
    if (row && (!best || isMoreUrgent(row, best))) best = row;
  }
  return best;
}

function take(data: Data, row: Row, query: ClaimQuery, now: number): ClaimedJob {
  change(data, row, {
    state: "processing",
    attempt: row.attempt + 1,
    claim: row.claim + 1,
    attemptedAt: now,
    server: query.server,
    sequence: query.sequence,
  });
  return { ...fieldsOf(row), attemptedAt: new Date(now) };
}

function nextIn(lanes: readonly Lane[], now: number): number | null {
  let next: number | null = null;
  for (const { ready, due } of lanes) {
    if (ready.size > 0) return 0;
    if (due.first) next = Math.min(due.first.runAt - now, next ?? Number.POSITIVE_INFINITY);
  }
  return next;
}
