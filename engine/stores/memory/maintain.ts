import { jobOutlived, serverOutlived } from "../../rules/retention.ts";
import { ARCHIVED_STATES, type PruneQuery } from "../../store.ts";
import { pruneBatches } from "./batches.ts";
import { type Data, promote, type Row, removeRow } from "./data.ts";
import { removeLinks, settle } from "./dependencies.ts";
import { pruneLimits, reopenBeyond } from "./limits.ts";
import { pruneKeys } from "./unique.ts";

export function sweep(data: Data, limit: number): number {
  const now = data.runtime.now();
  const moved: Row[] = [];
  for (const kinds of data.lanes.values()) {
    for (const lane of kinds.values()) moved.push(...promote(data, lane, now, limit - moved.length));
  }
  data.wake.emitReady(moved, now);
  return moved.length + reopenBeyond(data, now);
}

export function prune(data: Data, query: PruneQuery): number {
  const now = data.runtime.now();
  const jobs: Row[] = [];
  for (const state of [...ARCHIVED_STATES, "failed"] as const) {
    jobs.push(...pruneJobs(data, data.byState[state], query[state], now, query.limit));
  }
  const pruned = jobs.map(({ id }) => ({ id, end: "pruned" as const }));
  data.wake.emitReady(settle(data, jobs, pruned, now), now);
  let removed = jobs.length + pruneBatches(data, query.succeeded, now, query.limit);
  removed += pruneKeys(data, now, query.limit);
  dropEmptyLanes(data);
  removed += pruneLimits(data, now, query.limit);
  return removed + pruneServers(data, query, now) + foldMinutes(data, now - query.stats, query.limit);
}

function pruneJobs(data: Data, rows: ReadonlySet<Row>, age: number | null, now: number, limit: number): Row[] {
  const removed: Row[] = [];
  for (const row of rows) {
    // The set is in order of ending, so that what follows has to be kept too.
    if (removed.length === limit || !jobOutlived(row.finalizedAt ?? 0, age, now)) break;
    removeRow(data, row);
    removeLinks(data, row);
    removed.push(row);
  }
  return removed;
}

function pruneServers(data: Data, query: PruneQuery, now: number): number {
  let removed = 0;
  for (const [id, { heartbeatAt, info }] of data.servers) {
    if (removed === query.limit) break;
    if (!serverOutlived(heartbeatAt, info.deadAfter, query.servers, now)) continue;
    data.servers.delete(id);
    removed += 1;
  }
  return removed;
}

/** The all-time totals are kept beside the minutes, so that a minute can simply go. */
function foldMinutes(data: Data, until: number, limit: number): number {
  let removed = 0;
  for (const minute of data.minutes.keys()) {
    if (removed === limit) break;
    if (minute >= until) continue;
    data.minutes.delete(minute);
    removed += 1;
  }
  return removed;
}

/** Queues and kinds that come and go must not fill the memory. */
function dropEmptyLanes(data: Data): void {
  for (const [queue, kinds] of data.lanes) {
    for (const [kind, { ready, due, limited }] of kinds) {
      if (ready.size + due.size + limited.byKey.size === 0) kinds.delete(kind);
    }
    if (kinds.size === 0) data.lanes.delete(queue);
  }
}
