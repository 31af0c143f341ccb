/** Which occurrences of a recurring job fire now, when some were missed. All instants are milliseconds since 1970. */

/**
 * What becomes of occurrences that were missed, for example because no server was up:
 * - `once`: the latest fires, the others are skipped;
 * - `all`: each of them fires, a hundred at a time;
 * - `skip`: the latest fires if it is at most a minute late, the others are skipped.
 */
export const MISFIRES = ["once", "all", "skip"] as const;
export type Misfire = (typeof MISFIRES)[number];

/** Most occurrences that fire at once; the rest stays due. */
export const FIRE_LIMIT = 100;
/** For `skip`. */
export const LATE_LIMIT = 60_000;
/** Counting of skipped occurrences stops here, so that what a long time down costs has an end. */
export const SKIPPED_LIMIT = 1_000;

/** The first occurrence strictly after an instant; null = there is none. */
export type NextOccurrence = (instant: number) => number | null;

export interface Firing {
  /** Ascending. */
  readonly occurrences: readonly FiringOccurrence[];
  /** Latest occurrence that is dealt with, fired or skipped; null = none was due after all. */
  readonly last: number | null;
  /** What is due next; at or before now when there is more to fire; null = nothing any more. */
  readonly next: number | null;
}

export interface FiringOccurrence {
  readonly at: number;
  /** Occurrences before this one, since the last that was dealt with, that were missed and do not fire; at most 1,000 are counted. */
  readonly skipped: number;
}

/** What to do at `now` with a row that was due at `due`, which is not after now. */
export function dueOccurrences(next: NextOccurrence, due: number, now: number, misfire: Misfire): Firing {
  // A row that was put off is due at an instant that need not be an occurrence.
  const first = next(due - 1);
  if (first === null || first > now) return { occurrences: [], last: null, next: first };
  if (misfire === "all") return firstOnes(next, first, now);
  const { skipped, last } = latest(next, first, now);
  const fires = misfire === "once" || now - last <= LATE_LIMIT;
  return { occurrences: fires ? [{ at: last, skipped }] : [], last, next: next(last) };
}

function firstOnes(next: NextOccurrence, first: number, now: number): Firing {
  const occurrences: FiringOccurrence[] = [];
  let last = first;
  let at: number | null = first;
  while (at !== null && at <= now && occurrences.length < FIRE_LIMIT) {
    occurrences.push({ at, skipped: 0 });
    last = at;
    at = next(at);
  }
  return { occurrences, last, next: at };
}

/** The latest occurrence that is not after now, and how many from `first` on come before it. */
function latest(next: NextOccurrence, first: number, now: number): { skipped: number; last: number } {
  let last = first;
  for (let skipped = 0; skipped < SKIPPED_LIMIT; skipped++) {
    const at = next(last);
    if (at === null || at > now) return { skipped, last };
    last = at;
  }
  return { skipped: SKIPPED_LIMIT, last: latestBetween(next, last, now) };
}

/** By halving the time in which it must be, which takes few steps however many occurrences there are. */
function latestBetween(next: NextOccurrence, known: number, now: number): number {
  let last = known;
  let end = now;
  while (last < end) {
    const middle = last + Math.floor((end - last) / 2);
    const at = next(middle);
    if (at !== null && at <= now) last = at;
    else end = middle;
  }
  return last;
}
