/** Limits as users give them. */
import type { Duration } from "./duration.ts";
import { interval } from "./rules/gcra.ts";
import { BURST_RULE } from "./rules/limit.ts";
import { LIMIT, LONGEST_DURATION } from "./rules/limits.ts";
import type { Limit } from "./store.ts";
import type { Checker } from "./validate.ts";

/**
 * How many jobs of a key may run at once, and how many may start in a time, over all servers. The numbers belong to the
 * key: those of the job that was enqueued last count for all of its jobs, at once. With neither `max` nor `rate` one job
 * runs at a time.
 */
export interface LimitOptions {
  /** 1 to 200 bytes; jobs of any kind and queue may share it. Default: the kind. */
  readonly key?: string;
  /** Running at once; an integer from 1 to 1,000,000. Default: 1 without a rate, any number with one (0 says the same). */
  readonly max?: number;
  /** Starts in each `per`; an integer up to 1,000,000. Default 0 = no rate. */
  readonly rate?: number;
  /** At least 1ms, default 1s. No window of this length sees more than `rate + burst` jobs admitted. Needs a rate. */
  readonly per?: Duration;
  /** Starts that may follow each other at once; an integer from 1 to 1,000,000, default `rate`. Needs a rate. */
  readonly burst?: number;
}

export const LIMIT_OPTIONS = ["key", "max", "rate", "per", "burst"] as const satisfies readonly (keyof LimitOptions)[];

/** The limit of a job of this kind; null when none is given. What is wrong goes to the checker. */
export function readLimit(check: Checker<keyof LimitOptions> | undefined, kind: string): Limit | null {
  if (check === undefined) return null;
  const key = check.text("key", { maxBytes: LIMIT.keyMaxBytes, default: kind });
  const max = check.integer("max", { min: 0, max: LIMIT.max, default: 0 });
  const rate = check.integer("rate", { min: 0, max: LIMIT.max, default: 0 });
  const per = check.duration("per", { min: 1, max: LONGEST_DURATION, default: 1_000 });
  const burst = check.integer("burst", { min: 1, max: LIMIT.max, default: rate });
  if (rate === 0) {
    for (const field of ["per", "burst"] as const) if (check.has(field)) check.refuse(field, "needs a rate");
    return { key, max: Math.max(max, 1), rate, per: 0, burst: 0 };
  }
  if (burst * interval({ rate, per, burst }) > LONGEST_DURATION * 1_000) check.refuse("burst", BURST_RULE);
  return { key, max, rate, per, burst };
}
