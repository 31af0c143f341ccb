/** What the tests of classification share. */
import { type KilnError, SnoozeError } from "../../engine/errors.ts";
import { constant } from "../../engine/retry.ts";
import { type AttemptEnd, classify, type RetryPolicy } from "../../engine/rules/classify.ts";
import type { ClaimedJob, Outcome } from "../../engine/store.ts";

export const HOUR = 3_600_000;
const CREATED = Date.UTC(2026, 0, 1);

/** A job in its first of five attempts, `age` milliseconds after its creation. */
export function claimed({ age = 0, ...fields }: Partial<ClaimedJob> & { age?: number } = {}): ClaimedJob {
  return {
    ...{ id: 7, claim: 3, kind: "task", queue: "default", args: "{}", priority: 0, attempt: 1, maxAttempts: 5 },
    ...{ timeout: null, deadline: null, title: null, tags: [], meta: {}, recurringId: null, params: {}, parents: [] },
    ...{ limitKey: null, limited: false, batch: null },
    ...{ createdAt: new Date(CREATED), runAt: new Date(CREATED), attemptedAt: new Date(CREATED + age) },
    ...fields,
  };
}

export const policy = (fields: Partial<RetryPolicy> = {}): RetryPolicy => ({
  ...{ backoff: constant(1_234), random: () => 0.5, unknownKindTtl: 24 * HOUR },
  ...fields,
});

export const threw = (error: unknown, abortedBy?: KilnError): AttemptEnd => ({ type: "threw", error, abortedBy });

/** What becomes of a job of 5 attempts whose first threw `error`. */
export const after = (error: unknown, abortedBy?: KilnError, fields: Partial<ClaimedJob> = {}): Outcome =>
  classify(claimed(fields), threw(error, abortedBy), policy());

/** `error` as the cause at the end of a chain of `times` more errors. */
export const wrapped = (error: unknown, times = 1): Error => {
  let at = new Error("innermost", { cause: error });
  for (let i = 1; i < times; i++) at = new Error(`level ${i}`, { cause: at });
  return at;
};

/** A snooze made by hand. */
export const snoozeOf = (delay: unknown): SnoozeError =>
  Object.defineProperty(new SnoozeError(0), "delay", { value: delay });

export function pick<Key extends keyof Outcome>(from: Outcome, ...keys: Key[]): Pick<Outcome, Key> {
  return Object.fromEntries(keys.map((key) => [key, from[key]])) as Pick<Outcome, Key>;
}
