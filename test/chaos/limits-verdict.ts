/** What must hold of limits over all processes, whatever happened to them. Pure, so that it can be shown to find what is wrong. */
import { START_SLACK } from "../../engine/server/attempt.ts";
import type { Run } from "./verdict.ts";

/** One key: its rule, in which 0 says none, and how long each of its jobs works. Milliseconds. */
export interface Key {
  readonly name: string;
  readonly max: number;
  readonly rate: number;
  readonly per: number;
  readonly burst: number;
  readonly work: number;
}

/** Least part of what a key allows that is used while its jobs wait, by machines that have time for it. */
const LEAST_USED = 0.8;

export interface LimitsVerdict {
  /** Empty = all is well. */
  readonly problems: readonly string[];
  /** Part of what the key allowed that was used while jobs waited. */
  readonly used: number;
  /** Most starts in a window of `per`, and most running at once. */
  readonly busiest: number;
  readonly running: number;
}

/** `runs`: all of the key's, of all processes; `admitted`: the store's instants of those that ran once. */
export function limitsVerdict(
  key: Key,
  runs: readonly Run[],
  admitted: readonly number[],
  leastUsed = LEAST_USED,
): LimitsVerdict {
  const busiest = mostWithin(
    runs.map(({ start }) => start),
    key.per,
  );
  const admissions = mostWithin(admitted, key.per);
  const running = mostAtOnce(runs);
  const used = usedPart(key, runs);
  const problems: string[] = [];
  const bound = key.rate + key.burst;
  const startBound = bound + Math.ceil((key.rate * START_SLACK) / key.per);
  if (key.rate > 0 && admissions > bound) problems.push(`${key.name}: ${admissions} admitted in ${key.per} ms`);
  if (key.rate > 0 && busiest > startBound) problems.push(`${key.name}: ${busiest} started in ${key.per} ms`);
  if (key.max > 0 && running > key.max) problems.push(`${key.name}: ${running} ran at once`);
  if (used < leastUsed) problems.push(`${key.name}: ${Math.round(used * 100)} % used`);
  return { problems, used, busiest, running };
}

/** Most instants in a closed window of this length. */
export function mostWithin(instants: readonly number[], length: number): number {
  const sorted = instants.toSorted((a, b) => a - b);
  let [first, most] = [0, 0];
  sorted.forEach((instant, index) => {
    while (instant - (sorted[first] ?? 0) > length) first += 1;
    most = Math.max(most, index - first + 1);
  });
  return most;
}

/** A run that ends at the instant at which another starts is not with it. */
export function mostAtOnce(runs: readonly Run[]): number {
  const steps = runs.flatMap(({ start, end }) => [
    { at: start, by: 1 },
    { at: end, by: -1 },
  ]);
  let [running, most] = [0, 0];
  for (const { by } of steps.sort((a, b) => a.at - b.at || a.by - b.by)) {
    running += by;
    most = Math.max(most, running);
  }
  return most;
}

/**
 * First starts, as a part of those that the key allowed from the first to the last of them. A killed run holds its place
 * until its job runs again, for nobody may know earlier that it is gone.
 */
function usedPart(key: Key, runs: readonly Run[]): number {
  const begin = Math.min(...runs.map(({ start }) => start));
  const end = Math.max(...runs.filter(({ attempt }) => attempt === 1).map(({ start }) => start));
  const dead = runs
    .filter(({ how }) => how === "killed")
    .map(({ id, end }) => {
      const again = runs.find((other) => other.id === id && other.start >= end);
      return { from: end, to: again?.start ?? Number.POSITIVE_INFINITY };
    });
  const edges = [begin, end, ...dead.flatMap(({ from, to }) => [from, to])].filter((at) => at >= begin && at <= end);
  edges.sort((a, b) => a - b);
  let allowed = 0;
  edges.forEach((from, index) => {
    const to = edges[index + 1] ?? from;
    const held = dead.filter((place) => place.from <= from && place.to > from).length;
    allowed += pace(key, held) * (to - from);
  });
  const started = runs.filter(({ start }) => start >= begin && start < end).length;
  return started / allowed;
}

/** Starts in a millisecond that the key allows while so many of its places are held by dead processes. */
function pace({ max, rate, per, work }: Key, held: number): number {
  const byRate = rate === 0 ? Number.POSITIVE_INFINITY : rate / per;
  return max === 0 ? byRate : Math.min(byRate, Math.max(max - held, 0) / work);
}
