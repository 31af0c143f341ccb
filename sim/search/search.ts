/** Runs random scenarios until a time is over, and makes those that fail small. */
import { systemRuntime } from "../../engine/runtime.ts";
import type { StoreKind } from "../cluster/database.ts";
import { scenarioFrom } from "../generate/generate.ts";
import type { ProfileName } from "../generate/profiles.ts";
import { allCheckers } from "../invariants/index.ts";
import { type Failure, type PlainFailure, type RunResult, run } from "../run/run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { seedOf } from "../scenario/seed.ts";
import { shrink } from "../shrink/shrink.ts";

export interface SearchOptions {
  readonly store: StoreKind;
  readonly profile: ProfileName;
  readonly seed: number;
  /** Scenario number `first`, `first + step`, … of the seed: several searches share the work. Default 0 and 1. */
  readonly first?: number;
  readonly step?: number;
  /** Whether no further scenario is to be run. */
  readonly expired: () => boolean;
  /** Most real milliseconds that making one failure small may take. */
  readonly shrinkFor: number;
  /** Called before each run. */
  readonly onRun?: (scenario: Scenario, statistics: Statistics) => void;
  readonly onFound?: (found: Found) => void;
}

export interface Statistics {
  scenarios: number;
  /** How many of them failed. */
  failed: number;
  faults: number;
  events: number;
  /** Milliseconds of virtual time. */
  simulated: number;
  /** Milliseconds of real time, without those spent on making failures small. */
  took: number;
  /** How many scenarios have reached each. */
  marks: Record<string, number>;
}

/** All that is needed to see a failure again. */
export interface Found {
  readonly store: StoreKind;
  /** The scenario as it was drawn, and as small as it got. */
  readonly drawn: Scenario;
  readonly scenario: Scenario;
  readonly failure: PlainFailure;
  /** That were spent on it. */
  readonly runs: number;
}

export interface SearchResult {
  readonly statistics: Statistics;
  /** One for each signature. */
  readonly found: readonly Found[];
}

const MOST_SHRINK_RUNS = 400;
/** With more kinds of failures than this, one more says little. */
const MOST_FOUND = 8;

/** Says whether `ms` real milliseconds have passed since. */
export function after(ms: number): () => boolean {
  const end = systemRuntime.monotonic() + ms;
  return () => systemRuntime.monotonic() >= end;
}

export function emptyStatistics(): Statistics {
  return { scenarios: 0, failed: 0, faults: 0, events: 0, simulated: 0, took: 0, marks: {} };
}

export async function search(options: SearchOptions): Promise<SearchResult> {
  const { store, profile, seed, first = 0, step = 1, expired, onRun } = options;
  const statistics = emptyStatistics();
  const found = new Map<string, Found>();
  for (let number = first; !expired() && found.size < MOST_FOUND; number += step) {
    const scenario = scenarioFrom(seedOf(seed, number), profile);
    onRun?.(scenario, statistics);
    const began = systemRuntime.monotonic();
    const result = await run(scenario, { store, checkers: allCheckers });
    count(statistics, result, systemRuntime.monotonic() - began);
    if (result.failure === null || found.has(result.failure.signature)) continue;
    const small = await explain(scenario, result, options, statistics);
    found.set(result.failure.signature, small);
    options.onFound?.(small);
  }
  return { statistics, found: [...found.values()] };
}

function count(statistics: Statistics, result: RunResult, took: number): void {
  statistics.scenarios += 1;
  if (result.failure !== null) statistics.failed += 1;
  statistics.faults += result.faults;
  statistics.events += result.events;
  statistics.simulated += result.simulated;
  statistics.took += took;
  for (const mark of result.marks) statistics.marks[mark] = (statistics.marks[mark] ?? 0) + 1;
}

async function explain(
  drawn: Scenario,
  first: RunResult,
  { store, shrinkFor, onRun }: SearchOptions,
  statistics: Statistics,
): Promise<Found> {
  const once = (scenario: Scenario): Promise<RunResult> => {
    onRun?.(scenario, statistics);
    return run(scenario, { store, checkers: allCheckers });
  };
  const failure = first.failure as Failure;
  const again = await once(drawn);
  if (again.digest !== first.digest || again.failure?.signature !== failure.signature) {
    return { store, drawn, scenario: drawn, failure: differs(failure, again), runs: 1 };
  }
  const shrunk = await shrink(drawn, failure, {
    run: async (scenario) => (await once(scenario)).failure,
    runs: MOST_SHRINK_RUNS,
    expired: after(shrinkFor),
  });
  return { store, drawn, scenario: shrunk.scenario, failure: plain(shrunk.failure), runs: shrunk.runs + 1 };
}

/** The same scenario does not end in the same way twice: the worst of all, for nothing else can be trusted. */
function differs(first: Failure, again: RunResult): PlainFailure {
  const then = again.failure === null ? "was kept" : `was broken differently: ${again.failure.message}`;
  const message = `${first.invariant} ${first.message} was seen once; the second time it ${then}`;
  return {
    invariant: "determinism",
    message,
    signature: `determinism ${first.signature}`,
    job: first.job,
    at: first.at,
  };
}

export function plain({ invariant, message, signature, job, at }: Failure): PlainFailure {
  return { invariant, message, signature, job, at };
}
