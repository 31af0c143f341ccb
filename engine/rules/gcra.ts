/**
 * How a rate admits: the generic cell rate algorithm, in whole microseconds. A key keeps one number, its theoretical
 * arrival time `tat`; each admission moves it on by one interval T, and a key admits while `tat` is at most
 * tau = (burst - 1) · T ahead of the clock. So `burst` jobs may start back to back from rest, and of any n admissions
 *
 *     (n - 1) · T ≤ tau + (reading of the last - reading of the first)
 *
 * whatever came in between: a closed window of length `per` holds at most rate + burst, also after a stall. T is rounded
 * up, because rounding down would break that. All of this holds for readings of a clock that is read while nobody else can
 * admit for the key. Pure; every store uses it.
 */
import type { Limit } from "../store.ts";

/** A rate's numbers. With `rate` 0 there is no rate: everything is admitted. */
export type Rate = Pick<Limit, "rate" | "per" | "burst">;

/** T: microseconds between admissions at the steady pace. */
export function interval({ rate, per }: Rate): number {
  return rate === 0 ? 0 : Math.ceil((per * 1_000) / rate);
}

function tolerance(rate: Rate): number {
  return (rate.burst - 1) * interval(rate);
}

/**
 * `tat` not farther ahead than an admission at `now` could have put it: after the clock stepped back, or the rule changed, a
 * key is blocked for at most T. A store must write this whenever it finds a key closed, or places its lanes: forgotten, the
 * end of the block would move on with the clock.
 */
export function clamp(rate: Rate, tat: number, now: number): number {
  return rate.rate === 0 ? tat : Math.min(tat, now + tolerance(rate) + interval(rate));
}

/** `tat` as it counts at `now`: not before `now`, for capacity that was not used is lost. */
function current(rate: Rate, tat: number, now: number): number {
  return clamp(rate, Math.max(tat, now), now);
}

/** How many jobs may be admitted at `now`; Infinity without a rate. */
export function admissible(rate: Rate, tat: number, now: number): number {
  if (rate.rate === 0) return Number.POSITIVE_INFINITY;
  const ahead = current(rate, tat, now) - now;
  const left = tolerance(rate) - ahead;
  return left < 0 ? 0 : Math.floor(left / interval(rate)) + 1;
}

/** `tat` after `count` admissions at `now`, which must be admissible. With none it is clamped. */
export function admit(rate: Rate, tat: number, now: number, count: number): number {
  if (rate.rate === 0 || count === 0) return clamp(rate, tat, now);
  return current(rate, tat, now) + count * interval(rate);
}

/** The first instant, not before `now`, at which one job may be admitted. */
export function opening(rate: Rate, tat: number, now: number): number {
  return rate.rate === 0 ? now : Math.max(current(rate, tat, now) - tolerance(rate), now);
}
