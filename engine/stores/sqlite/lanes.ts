/**
 * Lanes: the waiting jobs of one kind in one queue. The indexes lead with (queue, kind), so a lane costs the same whatever
 * waits beside it; an order across lanes is made by merging them.
 */
import type { JobId } from "../../store.ts";
import type { Connection } from "./connection.ts";

export interface Lane {
  readonly queue: string;
  readonly kind: string;
}

/** States whose jobs are merged by urgency. */
export type UrgencyState = Exclude<LaneState, "scheduled">;

/** A waiting job and what it is ordered by: higher priority first, then the smaller id. */
export interface Ready extends Lane {
  readonly id: JobId;
  readonly priority: number;
}

const LANE_INDEX = {
  enqueued: "kiln_jobs_ready",
  throttled: "kiln_jobs_throttled_order",
  scheduled: "kiln_jobs_due",
} as const;
type LaneState = keyof typeof LANE_INDEX;

// Two statements, because (queue, kind) > (?, ?) would walk over the whole lane that it begins with.
const nextKind = (state: LaneState): string => `SELECT queue, kind FROM kiln_jobs INDEXED BY ${LANE_INDEX[state]}
  WHERE state = '${state}' AND queue = ?1 AND kind > ?2 ORDER BY kind LIMIT 1`;
const nextQueue = (state: LaneState): string => `SELECT queue, kind FROM kiln_jobs INDEXED BY ${LANE_INDEX[state]}
  WHERE state = '${state}' AND queue > ?1 ORDER BY queue, kind LIMIT 1`;

const forEachState = (sql: (state: LaneState) => string): Readonly<Record<LaneState, string>> => ({
  enqueued: sql("enqueued"),
  throttled: sql("throttled"),
  scheduled: sql("scheduled"),
});
const NEXT_KIND = forEachState(nextKind);
const NEXT_QUEUE = forEachState(nextQueue);

/** The lanes that have jobs in `state`, those of `queue` or all, in order. One statement for each, one for each queue. */
export function lanesOf(db: Connection, state: LaneState, queue?: string): Lane[] {
  const lanes: Lane[] = [];
  let [after, kind] = [queue ?? "", ""];
  while (true) {
    let next = db.get<[string, string]>(NEXT_KIND[state], after, kind);
    if (!next && queue === undefined) next = db.get<[string, string]>(NEXT_QUEUE[state], after);
    if (!next) return lanes;
    [after, kind] = next;
    lanes.push({ queue: after, kind });
  }
}

const LANE_HEAD = forEachState(
  (state) => `SELECT id, priority FROM kiln_jobs INDEXED BY ${LANE_INDEX[state]}
  WHERE state = '${state}' AND queue = ?1 AND kind = ?2 ORDER BY priority DESC, id LIMIT ?3`,
);

const LANE_AFTER = forEachState(
  (state) => `
  SELECT id, priority FROM kiln_jobs INDEXED BY ${LANE_INDEX[state]}
    WHERE state = '${state}' AND queue = ?1 AND kind = ?2 AND priority = ?4 AND id > ?5
  UNION ALL
  SELECT id, priority FROM kiln_jobs INDEXED BY ${LANE_INDEX[state]}
    WHERE state = '${state}' AND queue = ?1 AND kind = ?2 AND priority < ?4
  ORDER BY priority DESC, id LIMIT ?3`,
);

type ReadyRow = readonly [id: JobId, priority: number];

/**
 * The first `limit` jobs in `state` of the lanes in order, or those after the position `after`. Each lane is read in small
 * portions as the merge needs them: about one statement for each lane and one for each portion.
 */
export function mergeLanes(
  db: Connection,
  state: UrgencyState,
  lanes: readonly Lane[],
  limit: number,
  after: ReadyRow | null = null,
): Ready[] {
  const portion = lanes.length === 1 ? limit : Math.min(limit, Math.max(4, 2 * Math.ceil(limit / lanes.length)));
  const readers = lanes.map((lane) => new LaneReader(db, state, lane, portion, after));
  const merged: Ready[] = [];
  while (merged.length < limit) {
    let first: LaneReader | null = null;
    for (const reader of readers) {
      if (reader.head && (!first?.head || isBefore(reader.head, first.head))) first = reader;
    }
    if (!first?.head) break;
    merged.push({ id: first.head[0], priority: first.head[1], ...first.lane });
    first.advance();
  }
  return merged;
}

const isBefore = ([id, priority]: ReadyRow, [otherId, otherPriority]: ReadyRow): boolean =>
  priority !== otherPriority ? priority > otherPriority : id < otherId;

class LaneReader {
  readonly lane: Lane;
  readonly #db: Connection;
  readonly #state: UrgencyState;
  readonly #portion: number;
  #rows: ReadyRow[];
  #place = 0;

  constructor(db: Connection, state: UrgencyState, lane: Lane, portion: number, after: ReadyRow | null) {
    this.#db = db;
    this.#state = state;
    this.lane = lane;
    this.#portion = portion;
    this.#rows = this.#read(after);
  }

  /** Undefined when the lane has no more. */
  get head(): ReadyRow | undefined {
    return this.#rows[this.#place];
  }

  advance(): void {
    const last = this.head;
    this.#place += 1;
    if (this.#place < this.#portion || !last) return;
    this.#rows = this.#read(last);
    this.#place = 0;
  }

  #read(after: ReadyRow | null): ReadyRow[] {
    const { queue, kind } = this.lane;
    return after === null
      ? this.#db.all<ReadyRow>(LANE_HEAD[this.#state], queue, kind, this.#portion)
      : this.#db.all<ReadyRow>(LANE_AFTER[this.#state], queue, kind, this.#portion, after[1], after[0]);
  }
}
