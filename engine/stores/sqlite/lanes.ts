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

/** An enqueued job and what it is ordered by: higher priority first, then the smaller id. */
export interface Ready extends Lane {
  readonly id: JobId;
  readonly priority: number;
}

const LANE_INDEX = { enqueued: "kiln_jobs_ready", scheduled: "kiln_jobs_due" } as const;
type LaneState = keyof typeof LANE_INDEX;

// Two statements, because (queue, kind) > (?, ?) would walk over the whole lane that it begins with.
const nextKind = (state: LaneState): string => `SELECT queue, kind FROM kiln_jobs INDEXED BY ${LANE_INDEX[state]}
  WHERE state = '${state}' AND queue = ?1 AND kind > ?2 ORDER BY kind LIMIT 1`;
const nextQueue = (state: LaneState): string => `SELECT queue, kind FROM kiln_jobs INDEXED BY ${LANE_INDEX[state]}
  WHERE state = '${state}' AND queue > ?1 ORDER BY queue, kind LIMIT 1`;

const NEXT_KIND = { enqueued: nextKind("enqueued"), scheduled: nextKind("scheduled") } as const;
const NEXT_QUEUE = { enqueued: nextQueue("enqueued"), scheduled: nextQueue("scheduled") } as const;

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

const LANE_HEAD = `SELECT id, priority FROM kiln_jobs INDEXED BY kiln_jobs_ready
  WHERE state = 'enqueued' AND queue = ?1 AND kind = ?2 ORDER BY priority DESC, id LIMIT ?3`;

const LANE_AFTER = `
  SELECT id, priority FROM kiln_jobs INDEXED BY kiln_jobs_ready
    WHERE state = 'enqueued' AND queue = ?1 AND kind = ?2 AND priority = ?4 AND id > ?5
  UNION ALL
  SELECT id, priority FROM kiln_jobs INDEXED BY kiln_jobs_ready
    WHERE state = 'enqueued' AND queue = ?1 AND kind = ?2 AND priority < ?4
  ORDER BY priority DESC, id LIMIT ?3`;

type ReadyRow = readonly [id: JobId, priority: number];

/**
 * The first `limit` enqueued jobs of the lanes in order, or those after the position `after`. Each lane is read in small
 * portions as the merge needs them: about one statement for each lane and one for each portion.
 */
export function mergeLanes(
  db: Connection,
  lanes: readonly Lane[],
  limit: number,
  after: ReadyRow | null = null,
): Ready[] {
  const portion = lanes.length === 1 ? limit : Math.min(limit, Math.max(4, 2 * Math.ceil(limit / lanes.length)));
  const readers = lanes.map((lane) => new LaneReader(db, lane, portion, after));
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
  readonly #portion: number;
  #rows: ReadyRow[];
  #place = 0;

  constructor(db: Connection, lane: Lane, portion: number, after: ReadyRow | null) {
    this.#db = db;
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
      ? this.#db.all<ReadyRow>(LANE_HEAD, queue, kind, this.#portion)
      : this.#db.all<ReadyRow>(LANE_AFTER, queue, kind, this.#portion, after[1], after[0]);
  }
}
