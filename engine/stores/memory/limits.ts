/**
 * Keys of limits and the lanes of jobs that wait for them. A lane is in one of two heaps of its kind and queue: `closed`,
 * by when it opens, or `open`, by its most urgent job; a lane without jobs, or whose key is full, is in neither.
 */
import { admit, clamp } from "../../rules/gcra.ts";
import { allowance, isBeyond, opensAt, sameLimit } from "../../rules/limit.ts";
import type { JobId, Limit } from "../../store.ts";
import type { Data, Row } from "./data.ts";
import { Heap, type Placed } from "./heap.ts";

export interface LimitKey {
  limit: Limit;
  /** The newest job that the rule was seen with. */
  ruleOf: JobId;
  active: number;
  /** Microseconds since 1970. */
  tat: number;
  usedAt: number;
  /** Those that have jobs. */
  readonly lanes: Set<LimitLane>;
}

/** The throttled jobs of one key, kind and queue. */
export interface LimitLane extends Placed {
  readonly key: LimitKey;
  readonly group: LimitGroup;
  /** In the order in which they are claimed. */
  readonly jobs: Heap<Row>;
  /** Null while it is in no heap. */
  openAt: number | null;
  heap: Heap<LimitLane> | null;
}

/** The lanes of one kind in one queue. */
export interface LimitGroup {
  readonly byKey: Map<LimitKey, LimitLane>;
  readonly open: Heap<LimitLane>;
  readonly closed: Heap<LimitLane>;
}

export function emptyGroup(): LimitGroup {
  return {
    byKey: new Map(),
    open: new Heap<LimitLane>((a, b) => isMoreUrgent(firstOf(a), firstOf(b))),
    closed: new Heap<LimitLane>(opensBefore),
  };
}

/** The order of claims within a queue: higher priority first, then the older job. */
export function isMoreUrgent(a: Row, b: Row): boolean {
  return a.priority !== b.priority ? a.priority > b.priority : a.id < b.id;
}

/** Lanes in heaps are never empty. */
const firstOf = (lane: LimitLane): Row => lane.jobs.first as Row;

function opensBefore(a: LimitLane, b: LimitLane): boolean {
  const [first, second] = [a.openAt ?? 0, b.openAt ?? 0];
  return first !== second ? first < second : firstOf(a).id < firstOf(b).id;
}

/** The key of a job's limit. The rule of the newest job seen counts, at once. */
export function keyOf(data: Data, limit: Limit, id: JobId): LimitKey {
  let key = data.limits.get(limit.key);
  if (!key) {
    key = { limit, ruleOf: id, active: 0, tat: 0, usedAt: data.runtime.now(), lanes: new Set() };
    data.limits.set(limit.key, key);
    data.undo?.add(() => data.limits.delete(limit.key));
  } else if (id > key.ruleOf) {
    useRule(data, key, limit, id);
  }
  return key;
}

function useRule(data: Data, key: LimitKey, limit: Limit, id: JobId): void {
  const before = { limit: key.limit, ruleOf: key.ruleOf, tat: key.tat };
  key.ruleOf = id;
  const same = sameLimit(limit, key.limit);
  if (!same) {
    key.limit = limit;
    placeAll(data, key);
  }
  data.undo?.add(() => {
    Object.assign(key, before);
    if (!same) placeAll(data, key);
  });
}

/** A job with a limit has become throttled. */
export function throttle(data: Data, group: LimitGroup, row: Row, limit: Limit): void {
  const key = keyOf(data, limit, row.id);
  let lane = group.byKey.get(key);
  if (!lane) {
    lane = { key, group, jobs: new Heap(isMoreUrgent), openAt: null, heap: null, place: 0 };
    group.byKey.set(key, lane);
    key.lanes.add(lane);
  }
  unplace(lane);
  lane.jobs.add(row);
  row.lane = lane;
  place(data, lane);
}

/** A job is no longer throttled. */
export function unthrottle(data: Data, row: Row): void {
  const { lane } = row;
  if (!lane) return;
  unplace(lane);
  lane.jobs.remove(row);
  row.lane = null;
  lane.key.usedAt = data.runtime.now();
  if (lane.jobs.size > 0) {
    place(data, lane);
  } else {
    lane.group.byKey.delete(lane.key);
    lane.key.lanes.delete(lane);
  }
}

/** A job with a limit has begun or ceased to run. */
export function countActive(data: Data, row: Row, limit: Limit, change: 1 | -1): void {
  const key = keyOf(data, limit, row.id);
  key.active += change;
  key.usedAt = data.runtime.now();
  if (key.limit.max > 0) placeAll(data, key);
}

/** The lane, of those of the group that are open, with the most urgent job. */
export function openLane(group: LimitGroup, now: number): LimitLane | undefined {
  for (let lane = group.closed.first; lane && (lane.openAt ?? 0) <= now; lane = group.closed.first) {
    group.closed.remove(lane);
    lane.heap = group.open;
    group.open.add(lane);
  }
  return group.open.first;
}

/** True if a job of the key may start now; else its lanes are closed until one may. */
export function mayStart(data: Data, key: LimitKey, now: number): boolean {
  if (allowance(key, now) > 0) return true;
  placeAll(data, key);
  return false;
}

/** Takes one start from the key's rate. */
export function takeOne(data: Data, key: LimitKey, now: number): void {
  if (key.limit.rate === 0) return;
  key.tat = admit(key.limit, key.tat, now * 1_000, 1);
  placeAll(data, key);
}

/** When a lane of the group opens next; null = none will by itself. */
export function nextOpening(group: LimitGroup, now: number): number | null {
  return openLane(group, now) ? now : (group.closed.first?.openAt ?? null);
}

/** The most urgent job of each lane of a key that is not full: who waits for a place that has become free. */
export function nextInLine(data: Data, limitKey: string): Row[] {
  const lanes = [...(data.limits.get(limitKey)?.lanes ?? [])];
  return lanes.filter(({ openAt }) => openAt !== null).map(firstOf);
}

/** Places lanes anew that a clock which has stepped back would keep closed. Returns how many. */
export function reopenBeyond(data: Data, now: number): number {
  let changed = 0;
  for (const key of data.limits.values()) {
    for (const lane of key.lanes) {
      if (lane.openAt === null || !isBeyond(lane.openAt, key.limit, now)) continue;
      unplace(lane);
      place(data, lane);
      changed += 1;
    }
  }
  return changed;
}

/** How long a key is remembered that nobody uses. */
const KEY_RETENTION = 3_600_000;

export function pruneLimits(data: Data, now: number, limit: number): number {
  let removed = 0;
  for (const [name, { active, lanes, tat, usedAt }] of data.limits) {
    if (removed === limit) break;
    if (active > 0 || lanes.size > 0 || usedAt > now - KEY_RETENTION || tat > now * 1_000) continue;
    data.limits.delete(name);
    removed += 1;
  }
  return removed;
}

function placeAll(data: Data, key: LimitKey): void {
  clampKey(data, key);
  for (const lane of key.lanes) {
    unplace(lane);
    place(data, lane);
  }
}

/** `lane` must have jobs and be in no heap. */
function place(data: Data, lane: LimitLane): void {
  clampKey(data, lane.key);
  lane.openAt = opensAt(lane.key, data.runtime.now());
  if (lane.openAt === null) return;
  lane.heap = lane.group.closed;
  lane.heap.add(lane);
}

function clampKey(data: Data, key: LimitKey): void {
  key.tat = clamp(key.limit, key.tat, data.runtime.now() * 1_000);
}

function unplace(lane: LimitLane): void {
  lane.heap?.remove(lane);
  lane.heap = null;
  lane.openAt = null;
}
