/** Random batches; see `generate.ts`. */
import fc from "fast-check";
import type { BatchPlan, JobPlan } from "../scenario/scenario.ts";
import { instant, pick } from "./generate-fault.ts";
import type { JobContext } from "./generate-job.ts";

const number = fc.nat(2 ** 20);

export const rawBatching = fc.record({
  /** Whether there are any. */
  on: fc.nat(99),
  batches: fc.array(fc.record({ at: number, open: number, parent: number, continuation: number }), {
    ...{ minLength: 1, maxLength: 3 },
  }),
  /** What jobs have to do with them, one after the other and then from the first again. */
  jobs: fc.array(fc.record({ joins: number, waits: number }), { minLength: 5, maxLength: 5 }),
});
type RawBatching = typeof rawBatching extends fc.Arbitrary<infer Value> ? Value : never;

/** The jobs with the batches that they join and wait for. */
export function batched(
  raw: RawBatching,
  jobs: readonly JobPlan[],
  { has, edges, duration }: JobContext,
): { readonly jobs: readonly JobPlan[]; readonly batches: readonly BatchPlan[] } {
  if (!has("batches") || jobs.length === 0) return { jobs, batches: [] };
  const batches = raw.batches.map(({ at: when, open, parent, continuation }, index): BatchPlan => {
    const at = instant(when, duration / 2);
    return {
      at,
      sealAt: Math.min(at + pick(edges, open), duration - 1),
      parent: index > 0 && parent % 2 === 0 ? Math.floor(parent / 2) % index : null,
      continuation: continuation % 2 === 0 ? Math.floor(continuation / 2) % jobs.length : null,
    };
  });
  return { jobs: tied(raw, jobs, batches), batches };
}

/**
 * A job waits only for batches with a lower number than the one that it joins, and than all around that, be it by way of
 * other jobs: else they would wait for each other for ever.
 */
function tied(raw: RawBatching, jobs: readonly JobPlan[], batches: readonly BatchPlan[]): JobPlan[] {
  const outermost = (index: number): number => {
    const parent = batches[index]?.parent ?? null;
    return parent === null ? index : outermost(parent);
  };
  /** By job: one more than the highest batch that it waits for. */
  const levels: number[] = [];
  return jobs.map((job, index) => {
    const { joins, waits } = raw.jobs[index % raw.jobs.length] ?? { joins: 0, waits: 0 };
    const afterBatch = waits % 4 === 0 ? Math.floor(waits / 4) % batches.length : null;
    const level = Math.max((afterBatch ?? -1) + 1, ...job.after.map((parent) => levels[parent.job] ?? 0));
    levels.push(level);
    const open = [...batches.keys()].filter((batch) => outermost(batch) >= level);
    const batch = open.length > 0 && joins % 2 === 0 ? pick(open, Math.floor(joins / 2)) : null;
    // Whoever holds the key may wait for something else.
    return { ...job, batch, afterBatch, unique: level > 0 ? null : job.unique };
  });
}
