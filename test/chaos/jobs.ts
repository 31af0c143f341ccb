/** The kinds of jobs of the chaos: the test enqueues them, its workers run them. */
import { defineJob } from "../../engine/job.ts";
import { constant } from "../../engine/retry.ts";
import type { JobState } from "../../engine/store.ts";

/** Each kill may use up one attempt. */
const options = { maxAttempts: 1_000, backoff: constant(50) } as const;

export const plain = defineJob("plain", options);
/** Throws in its first `failures` attempts. */
export const flaky = defineJob<{ readonly failures: number }>("flaky", options);
/** Always throws. */
export const hopeless = defineJob("hopeless", { ...options, maxAttempts: 2 });
/** Works for `ms` milliseconds. */
export const slow = defineJob<{ readonly ms: number }>("slow", options);
export const delayed = defineJob("delayed", options);

/** Limited kinds, each of its own key, whose jobs work for `LIMITED_WORK` milliseconds. */
export const LIMITED_WORK = 200;
export const rated = defineJob("rated", { ...options, limit: { rate: 40, burst: 5 } });
export const capped = defineJob("capped", { ...options, limit: { max: 4 } });
export const ratedAndCapped = defineJob("rated_and_capped", {
  ...options,
  limit: { rate: 20, burst: 10, max: 6 },
});

/** How each kind has to end, whatever is killed. */
export const ENDS: ReadonlyMap<string, JobState> = new Map([
  [plain.kind, "succeeded"],
  [flaky.kind, "succeeded"],
  [hopeless.kind, "failed"],
  [slow.kind, "succeeded"],
  [delayed.kind, "succeeded"],
]);
