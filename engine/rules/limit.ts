/** What a limit must be, and what it says of a key at a moment. Pure; every store uses it. */
import type { Problems } from "../problems.ts";
import type { Limit } from "../store.ts";
import { admissible, interval, opening } from "./gcra.ts";
import { LIMIT, LONGEST_DURATION } from "./limits.ts";
import { CLEAN_RULE, isClean } from "./values.ts";

/** Adds a problem for everything that is wrong with a limit as stores get it; `field` is where it stands. */
export function checkLimit(problems: Problems, field: string, limit: Limit): void {
  const check = (ok: boolean, name: keyof Limit, rule: string): void => {
    if (!ok) problems.add(`${field}.${name}`, limit[name], rule);
  };
  const count = (value: number, min: number, max: number): boolean =>
    Number.isInteger(value) && value >= min && value <= max;
  const { key, max, rate, per, burst } = limit;
  const bytes = typeof key === "string" ? Buffer.byteLength(key) : 0;
  check(bytes >= 1 && bytes <= LIMIT.keyMaxBytes, "key", `must be a string of 1 to ${LIMIT.keyMaxBytes} bytes`);
  check(isClean(key), "key", CLEAN_RULE);
  check(count(max, 0, LIMIT.max), "max", `must be an integer from 0 to ${LIMIT.max}`);
  check(count(rate, 0, LIMIT.max), "rate", `must be an integer from 0 to ${LIMIT.max}`);
  check(max !== 0 || rate !== 0, "max", "must be at least 1 when there is no rate");
  const least = rate === 0 ? 0 : 1;
  check(count(per, least, LONGEST_DURATION), "per", `must be whole ms, at least ${least}, at most a hundred years`);
  check(count(burst, least, LIMIT.max), "burst", `must be an integer from ${least} to ${LIMIT.max}`);
  check(!(burst * interval(limit) > LONGEST_DURATION * 1_000), "burst", BURST_RULE);
}

/** So that all instants stay within what a number holds exactly. */
export const BURST_RULE = "must be earned anew within a hundred years: burst × per ÷ rate";

export function sameLimit(a: Limit, b: Limit): boolean {
  return a.max === b.max && a.rate === b.rate && a.per === b.per && a.burst === b.burst;
}

/** What is known of a key: its rule, its jobs that run, and how far its rate is used, in microseconds since 1970. */
export interface KeyState {
  readonly limit: Limit;
  readonly active: number;
  readonly tat: number;
}

/** How many of a key's jobs may start at `now`, milliseconds since 1970. */
export function allowance({ limit, active, tat }: KeyState, now: number): number {
  const free = limit.max === 0 ? Number.POSITIVE_INFINITY : Math.max(limit.max - active, 0);
  return Math.min(free, admissible(limit, tat, now * 1_000));
}

/** When the key can next admit a job, as far as is known at `now`, in whole milliseconds; null while `max` are running. */
export function opensAt({ limit, active, tat }: KeyState, now: number): number | null {
  if (limit.max > 0 && active >= limit.max) return null;
  return Math.ceil(opening(limit, tat, now * 1_000) / 1_000);
}

/** True for an opening that can't have been written at a moment before `now`: the clock has stepped back since. */
export function isBeyond(openAt: number, limit: Limit, now: number): boolean {
  return openAt > now + Math.ceil(interval(limit) / 1_000) + 1;
}
