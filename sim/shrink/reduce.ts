/** Scenarios with a part taken out: what refers to it goes too, and what refers to others still does. */
import type { Action, Fault, JobPlan, RunPlan, Scenario } from "../scenario/scenario.ts";

export const PARTS = ["faults", "jobs", "actions", "recurring", "servers", "batches"] as const;
export type Part = (typeof PARTS)[number];

/** Only what stands at these indexes of the part is left; null when nothing would be left that could run. */
export function keep(scenario: Scenario, part: Part, indexes: readonly number[]): Scenario | null {
  const kept = new Map(indexes.map((from, to) => [from, to]));
  switch (part) {
    case "jobs":
      return keepJobs(scenario, kept);
    case "servers":
      return kept.size === 0 ? null : keepServers(scenario, kept);
    case "batches":
      return keepBatches(scenario, kept);
    default:
      return { ...scenario, [part]: only<unknown>(scenario[part], kept) };
  }
}

type Kept = ReadonlyMap<number, number>;

function only<Value>(values: readonly Value[], kept: Kept): Value[] {
  return values.filter((_, index) => kept.has(index));
}

function moved(index: number | null, kept: Kept): number | null {
  return index === null ? null : (kept.get(index) ?? null);
}

function keepJobs(scenario: Scenario, kept: Kept): Scenario {
  const run = (of: RunPlan): RunPlan => ({ ...of, enqueues: moved(of.enqueues, kept) });
  const job = (of: JobPlan): JobPlan => ({
    ...of,
    runs: of.runs.map(run),
    after: of.after.flatMap(({ job: parent, finished }) => {
      const now = kept.get(parent);
      return now === undefined ? [] : [{ job: now, finished }];
    }),
  });
  const action = (of: Action): Action[] => {
    if (!("job" in of)) return [of];
    const now = kept.get(of.job);
    return now === undefined ? [] : [{ ...of, job: now }];
  };
  return {
    ...scenario,
    jobs: only(scenario.jobs, kept).map(job),
    batches: scenario.batches.map((of) => ({ ...of, continuation: moved(of.continuation, kept) })),
    recurring: scenario.recurring.map((of) => ({ ...of, run: run(of.run) })),
    actions: scenario.actions.flatMap(action),
  };
}

function keepServers(scenario: Scenario, kept: Kept): Scenario {
  const fault = (of: Fault): Fault[] => {
    if (!("target" in of) || of.target === "client") return [of];
    const now = kept.get(of.target);
    return now === undefined ? [] : [{ ...of, target: now }];
  };
  return {
    ...scenario,
    servers: only(scenario.servers, kept),
    faults: scenario.faults.flatMap(fault),
  };
}

function keepBatches(scenario: Scenario, kept: Kept): Scenario {
  return {
    ...scenario,
    batches: only(scenario.batches, kept).map((of) => ({ ...of, parent: moved(of.parent, kept) })),
    jobs: scenario.jobs.map((of) => ({
      ...of,
      batch: moved(of.batch, kept),
      afterBatch: moved(of.afterBatch, kept),
    })),
  };
}
