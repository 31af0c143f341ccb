/** Jobs that wait for other jobs: what may be asked for, and what the end of a parent does to a child. */
import { NotFoundError } from "../errors.ts";
import type { Problems } from "../problems.ts";
import {
  type BatchId,
  type JobId,
  type JobState,
  type NewJob,
  PARENT_STATES,
  type Parent,
  type ParentState,
} from "../store.ts";
import { type BatchState, findBatch } from "./batches.ts";
import { readyState } from "./state.ts";
import type { Holder } from "./unique.ts";

/** What a child waits for, as a sum of bits: that is how stores keep it. */
const BITS: Readonly<Record<ParentState, number>> = { succeeded: 1, failed: 2, deleted: 4 };
export const FAILED_BIT = BITS.failed;
const ANY_END = BITS.succeeded + BITS.failed + BITS.deleted;

export const maskOf = (on: readonly ParentState[]): number => on.reduce((mask, state) => mask | BITS[state], 0);

/** How a parent ended. `pruned`: it was removed by retention. */
export type ParentEnd = ParentState | "pruned";

export const isParentState = (state: JobState): state is ParentState =>
  (PARENT_STATES as readonly string[]).includes(state);

/** What a parent's end means to a child that waits for it: it is met, can never be met, or stays open. */
export function verdict(mask: number, end: ParentEnd): "met" | "doomed" | "open" {
  const state = end === "pruned" ? "deleted" : end;
  if ((mask & BITS[state]) !== 0) return "met";
  return state === "failed" ? "open" : "doomed";
}

/** Why a child was deleted. */
export const parentReason = (parent: JobId, end: ParentEnd): string => `parent ${parent} ${end}`;

/** Where a job goes that has waited for its last parent; `now` must have been read after that one ended. */
export function released(
  runAt: number,
  now: number,
  limited = false,
): { state: "scheduled" | "enqueued" | "throttled"; runAt: number } {
  return { state: readyState(runAt, now, limited), runAt: Math.max(runAt, now) };
}

/** What the parents of one job must be; `check` adds a problem with a field unless `ok`. */
export function checkParents(
  parents: readonly Parent[],
  position: number,
  count: number,
  check: (ok: boolean, field: string, value: unknown, rule: string) => void,
): void {
  if (!Array.isArray(parents)) {
    check(false, "parents", parents, "must be an array");
    return;
  }
  // Not forEach, which passes over holes.
  [...parents].forEach((parent: Partial<Record<"id" | "index" | "on", unknown>> | null, place) => {
    const { id, index, on } = parent ?? {};
    const field = `parents[${place}]`;
    if (id !== undefined) check(isInteger(id, 1), `${field}.id`, id, "must be the id of a job");
    else {
      const another = isInteger(index, 0) && index < count && index !== position;
      check(another, `${field}.index`, index, "must be the position of another job of the call");
    }
    const known = Array.isArray(on) && on.length > 0 && on.every((state) => PARENT_STATES.includes(state));
    check(known, `${field}.on`, on, `must be one or more of ${PARENT_STATES.join(", ")}`);
  });
}

const isInteger = (value: unknown, min: number): value is number => Number.isSafeInteger(value) && Number(value) >= min;

/**
 * Adds a problem when jobs of the call would wait for each other for ever. Their parents must have been checked. `place` is
 * what the call's jobs are called.
 */
export function refuseCycle(jobs: readonly NewJob[], problems: Problems, place = "jobs"): void {
  if (!jobs.some(({ parents }) => parents.length > 0)) return;
  const graph = parentPositions(jobs, firstOfKey(jobs));
  const order = parentsFirst(graph);
  if (order.length === graph.length) return;
  const cycle = findCycle(graph, new Set(order));
  const path = [...cycle, cycle[0]].join(" → ");
  problems.add(`${place}[${cycle[0]}].parents`, cycle, `must not wait for itself (jobs ${path} of the call)`);
}

/** For each position the first one that has the same unique key: the job that the others are duplicates of. */
function firstOfKey(jobs: readonly NewJob[]): number[] {
  const firsts = new Map<string, number>();
  return jobs.map(({ unique }, position) => {
    if (unique === null) return position;
    const first = firsts.get(unique.key) ?? position;
    firsts.set(unique.key, first);
    return first;
  });
}

/** For each job of a call the positions that it waits for. `stands` says which position stands for each. */
function parentPositions(jobs: readonly NewJob[], stands: readonly number[]): number[][] {
  return jobs.map(({ parents }, position) =>
    stands[position] !== position
      ? []
      : parents.flatMap((parent) => ("index" in parent ? [stands[parent.index] ?? parent.index] : [])),
  );
}

/** Positions in such an order that each comes after all that it waits for; those that wait for a cycle are left out. */
export function parentsFirst(graph: readonly (readonly number[])[]): number[] {
  const children: number[][] = graph.map(() => []);
  const open = graph.map((parents, position) => {
    for (const parent of parents) children[parent]?.push(position);
    return parents.length;
  });
  const order = [...open.keys()].filter((position) => open[position] === 0);
  for (let next = 0; next < order.length; next++) {
    for (const child of children[order[next] ?? 0] ?? []) {
      open[child] = (open[child] ?? 0) - 1;
      if (open[child] === 0) order.push(child);
    }
  }
  return order;
}

/** One of the cycles among the positions that are not `sorted`. */
function findCycle(graph: readonly (readonly number[])[], sorted: ReadonlySet<number>): number[] {
  const path: number[] = [];
  const places = new Map<number, number>();
  let at = [...graph.keys()].find((position) => !sorted.has(position)) ?? 0;
  while (!places.has(at)) {
    places.set(at, path.length);
    path.push(at);
    at = graph[at]?.find((parent) => !sorted.has(parent)) ?? at;
  }
  return path.slice(places.get(at));
}

/** How a batch stands among the parents of a job that waits for it: it never fails, and ends as `succeeded`. */
export const asParent = (batch: BatchId): number => -batch;

/** The other way round, for all that one job waits for. */
export function splitParents(parents: readonly number[]): { parents: JobId[]; afterBatch: BatchId | null } {
  const batch = parents.find((parent) => parent < 0);
  return { parents: parents.filter((parent) => parent > 0), afterBatch: batch === undefined ? null : -batch };
}

/** That a child waits, or waited, for a parent. */
export interface Link {
  /** The id of a job, or that of a batch by `asParent`. */
  readonly parent: number;
  readonly mask: number;
  /** Not met yet. */
  readonly open: boolean;
}

/** What a new job's parents make of it. */
export interface Birth {
  /** One for each parent. */
  readonly links: readonly Link[];
  /** How many of them are open. */
  readonly pending: number;
  /** Why it is deleted at once, or null. */
  readonly doomedBy: string | null;
}

const NO_PARENTS: Birth = { links: [], pending: 0, doomedBy: null };

/** The jobs of one call, once it is known which of them are duplicates and which ids the others get. */
export interface Family {
  readonly jobs: readonly NewJob[];
  /** By position; null = added. */
  readonly holders: readonly (Holder | null)[];
  /** By position; of duplicates anything. */
  readonly ids: readonly JobId[];
  /** State of a job from before the call; undefined = there is none. */
  readonly stateOf: (id: JobId) => JobState | undefined;
  /** Undefined = there is no such batch. */
  readonly batchOf: (id: BatchId) => BatchState | undefined;
}

/** Ids from before the call whose states `births` asks for. */
export function namedParents(jobs: readonly NewJob[], holders: readonly (Holder | null)[]): JobId[] {
  const ids = new Set<JobId>();
  jobs.forEach(({ parents }, position) => {
    if (holders[position] !== null) return;
    for (const parent of parents) {
      const holder = "id" in parent ? parent : holders[parent.index];
      if (holder && "id" in holder) ids.add(holder.id);
    }
  });
  return [...ids];
}

/** By position; duplicates have no parents. @throws NotFoundError for a parent or a batch to wait for that does not exist */
export function births(family: Family): Birth[] {
  const { jobs, holders } = family;
  const found: Birth[] = jobs.map(() => NO_PARENTS);
  if (!jobs.some(({ parents, afterBatch }) => parents.length > 0 || afterBatch !== null)) return found;
  const stands = holders.map((holder, position) => (holder && "position" in holder ? holder.position : position));
  const graph = parentPositions(jobs, stands).map((parents, position) => (holders[position] === null ? parents : []));
  for (const position of parentsFirst(graph)) {
    if (holders[position] === null) found[position] = birth(family, position, found);
  }
  return found;
}

function birth({ jobs, holders, ids, stateOf, batchOf }: Family, position: number, before: readonly Birth[]): Birth {
  const masks = new Map<number, { mask: number; end: ParentEnd | null }>();
  const { parents, afterBatch } = jobs[position] as NewJob;
  parents.forEach((parent, place) => {
    const { id, end } = find(parent, place);
    masks.set(id, { mask: maskOf(parent.on) & (masks.get(id)?.mask ?? ANY_END), end });
  });
  if (afterBatch !== null) {
    const { finished } = findBatch(batchOf, afterBatch, `jobs[${position}].afterBatch`);
    masks.set(asParent(afterBatch), { mask: ANY_END, end: finished ? "succeeded" : null });
  }

  /** The parent's id and how it ended, null = it has not. */
  function find(parent: Parent, place: number): { id: JobId; end: ParentEnd | null } {
    if ("id" in parent) {
      const state = stateOf(parent.id);
      if (state !== undefined) return { id: parent.id, end: isParentState(state) ? state : null };
      throw new NotFoundError(`can't insert: jobs[${position}].parents[${place}]: there is no job ${parent.id}`);
    }
    const holder = holders[parent.index];
    if (holder && "id" in holder) {
      const state = stateOf(holder.id);
      return { id: holder.id, end: state === undefined ? "pruned" : isParentState(state) ? state : null };
    }
    const index = holder?.position ?? parent.index;
    return { id: ids[index] ?? 0, end: before[index]?.doomedBy === null ? null : "deleted" };
  }

  return fromParents([...masks].map(([parent, { mask, end }]) => ({ parent, mask, end })));
}

function fromParents(parents: readonly { parent: JobId; mask: number; end: ParentEnd | null }[]): Birth {
  const links = parents.map(({ parent, mask, end }) => ({
    ...{ parent, mask },
    verdict: end === null ? "open" : verdict(mask, end),
  }));
  const doom = links.findIndex((link) => link.verdict === "doomed");
  const by = parents[doom];
  const doomed = by !== undefined && by.end !== null;
  const open = links.map((link) => !doomed && link.verdict === "open");
  return {
    links: links.map(({ parent, mask }, index) => ({ parent, mask, open: open[index] ?? false })),
    pending: open.filter(Boolean).length,
    doomedBy: doomed && by.end !== null ? parentReason(by.parent, by.end) : null,
  };
}
