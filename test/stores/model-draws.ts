/** What the commands of the model draw. Numbers stand for jobs, parents and claims that are there when the command is run. */
import fc from "fast-check";
import {
  JOB_STATES,
  type JobFilter,
  type JobRef,
  type JobState,
  type NewJob,
  PARENT_STATES,
  type ParentState,
} from "../../engine/store.ts";
import { newJob } from "../conformance/support.ts";
import type { World } from "./model.ts";

export const queue = fc.constantFrom("a", "b");
export const kind = fc.constantFrom("x", "y");
export const server = fc.constantFrom("s1", "s1", "s2");
export const delay = fc.constantFrom(0, 0, 0, 500, 31_000);
/** How long jobs of a state are kept. */
export const age = fc.constantFrom(null, 1, 20_000);

/** Once in four times. */
export const seldom = <T>(drawn: fc.Arbitrary<T>): fc.Arbitrary<T | null> =>
  fc.oneof({ arbitrary: fc.constant(null), weight: 3 }, { arbitrary: drawn, weight: 1 });

interface DrawnParent {
  /** How far before the child. */
  readonly back: number;
  /** A job of the same call, where there are so many before. */
  readonly inCall: boolean;
  readonly on: ParentState[];
}

const parent: fc.Arbitrary<DrawnParent> = fc.record({
  back: fc.nat(4),
  inCall: fc.boolean(),
  on: fc.subarray([...PARENT_STATES], { minLength: 1 }),
});
const parents: fc.Arbitrary<readonly DrawnParent[]> = fc.oneof(
  { arbitrary: fc.constant([]), weight: 3 },
  { arbitrary: fc.array(parent, { minLength: 1, maxLength: 2 }), weight: 1 },
);

const job = fc.record({
  ...{ queue, kind, delay, parents, priority: fc.integer({ min: -1, max: 1 }) },
  limit: seldom(fc.record({ key: fc.constantFrom("k", "l"), max: fc.constantFrom(1, 2) })),
  unique: seldom(fc.record({ key: fc.constantFrom("a", "b"), window: fc.constantFrom(null, 500, 31_000) })),
});
export const jobs = fc.array(job, { maxLength: 5 });
export type DrawnJobs = typeof jobs extends fc.Arbitrary<infer T> ? T : never;

export function jobsOf({ lastId }: World, drawn: DrawnJobs): NewJob[] {
  return drawn.map(({ limit, unique, parents, ...fields }, position) => {
    const parentOf = ({ back, inCall, on }: DrawnParent): NewJob["parents"] => {
      if (inCall && back < position) return [{ index: position - 1 - back, on }];
      return back < lastId ? [{ id: lastId - back, on }] : [];
    };
    return newJob({
      ...{ ...fields, maxAttempts: 2, parents: parents.flatMap(parentOf) },
      limit: limit && { ...limit, rate: 0, per: 0, burst: 0 },
      unique: unique && { ...unique, key: unique.key.repeat(32), onConflict: "keep" },
    });
  });
}

interface DrawnFilter {
  readonly numbers?: number[];
  readonly state?: JobState;
  readonly queue?: string;
  readonly kind?: string;
}

const numbers = fc.array(fc.nat(), { maxLength: 3 });
const state = fc.constantFrom(...JOB_STATES);
export const filter: fc.Arbitrary<DrawnFilter> = fc.oneof(
  fc.record({ numbers }),
  fc.record({ numbers, state, kind }, { requiredKeys: ["numbers"] }),
  fc.record({ state, queue }, { requiredKeys: ["state"] }),
);

/** The first id that there is not is among those that a number may stand for. */
export function filterOf({ lastId }: World, { numbers, ...fields }: DrawnFilter): JobFilter {
  return numbers === undefined ? fields : { ...fields, ids: numbers.map((number) => 1 + (number % (lastId + 1))) };
}

/** Counted back from the latest claim. */
export const claim = fc.nat(5);

/** A claim that there was, which may be over; before the first one that of a job that may not be there. */
export const claimOf = ({ claims }: World, back: number): JobRef =>
  claims.at(-1 - back) ?? claims.at(-1) ?? { id: 1, claim: 1 };
