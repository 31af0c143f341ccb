/** Short ways to write down what the directed scenarios are made of. Durations and instants in milliseconds. */
import {
  EMPTY_SCENARIO,
  type Fault,
  type JobPlan,
  PLAIN_JOB,
  PLAIN_SERVER,
  type RunPlan,
  type Scenario,
  type ServerPlan,
  type SimConfig,
} from "../scenario/scenario.ts";

export function runs(work: number, end: RunPlan["end"] = "return"): RunPlan {
  return { work, end, checkpoint: false, enqueues: null };
}

export function job(work: number, more: Partial<JobPlan> = {}): JobPlan {
  return { ...PLAIN_JOB, runs: [runs(work)], ...more };
}

export function jobs(count: number, make: (index: number) => JobPlan): JobPlan[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** Servers that start one second after the other, so that the first one leads. */
export function servers(count: number, more: (index: number) => Partial<ServerPlan> = () => ({})): ServerPlan[] {
  return Array.from({ length: count }, (_, index) => ({ ...PLAIN_SERVER, startAt: index * 1_000, ...more(index) }));
}

type Plan = Partial<Omit<Scenario, "config">> & { readonly config?: Partial<SimConfig> };

export function scenario({ config, ...plan }: Plan): Scenario {
  return { ...EMPTY_SCENARIO, seed: 1, ...plan, config: { ...EMPTY_SCENARIO.config, ...config } };
}

/** The process can't reach the database. */
export function partition(
  target: number,
  at: number,
  ms: number,
  ways: "both" | "requests" | "replies" = "both",
): Fault {
  return { type: "partition", target, at, for: ms, ways };
}
