/** Whether the simulator finds a fault, in the process whose source has it. */
import { systemRuntime } from "../../engine/runtime.ts";
import type { StoreKind } from "../cluster/database.ts";
import { scenarioFrom } from "../generate/generate.ts";
import type { ProfileName } from "../generate/profiles.ts";
import { allCheckers } from "../invariants/index.ts";
import { run } from "../run/run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { seedOf } from "../scenario/seed.ts";
import { type Mutant, storesOf } from "./mutant.ts";
import { SELF_CHECKS, type SelfCheck } from "./self-checks.ts";

export interface Finding {
  /** As `Failure.invariant`; `determinism`: two runs of a scenario differ; `self`: the simulator does not keep to its own. */
  readonly invariant: string;
  readonly message: string;
}

export interface Trial {
  /** By store, or one in all; null = not found. */
  readonly findings: readonly (Finding | null)[];
  readonly scenarios: number;
  readonly seconds: number;
  /** Where the random scenario that was found comes from. */
  readonly origin: Origin | null;
}

export interface Origin {
  readonly seed: number;
  /** Of the scenario in the search. */
  readonly number: number;
  readonly store: StoreKind;
}

export interface Search {
  readonly seed: number;
  /** Number of the first scenario. */
  readonly first: number;
  readonly seconds: number;
}

/** With the scenario that was written for the mutant, on each store that it is part of. */
export async function directed({ directed: how, ...mutant }: Mutant): Promise<Trial> {
  const started = systemRuntime.monotonic();
  const findings: (Finding | null)[] = [];
  if (typeof how === "string") findings.push(await selfCheck(how));
  else for (const store of storesOf(mutant)) findings.push(await look(how, store, mutant.invariants));
  return { findings, scenarios: findings.length, seconds: since(started), origin: null };
}

/** With random scenarios, on its stores in turn, for at most so many seconds. */
export async function atRandom(mutant: Mutant, profile: ProfileName, { seed, first, seconds }: Search): Promise<Trial> {
  const started = systemRuntime.monotonic();
  const stores = storesOf(mutant);
  let number = first;
  while (since(started) < seconds) {
    const origin = { seed, number, store: stores[number % stores.length] as StoreKind };
    const finding = await look(drawn(origin, profile), origin.store, []);
    number += 1;
    if (finding !== null) return { findings: [finding], scenarios: number - first, seconds: since(started), origin };
  }
  return { findings: [null], scenarios: number - first, seconds: since(started), origin: null };
}

/** Without the mutant, which must not be in this process: whether the scenario fails all the same. */
export async function failsAnyway(origin: Origin, profile: ProfileName): Promise<boolean> {
  return (await look(drawn(origin, profile), origin.store, [])) !== null;
}

const drawn = ({ seed, number }: Origin, profile: ProfileName): Scenario => scenarioFrom(seedOf(seed, number), profile);

const since = (started: number): number => (systemRuntime.monotonic() - started) / 1_000;

async function look(scenario: Scenario, store: StoreKind, expected: readonly string[]): Promise<Finding | null> {
  const { failure, digest } = await run(scenario, { store, checkers: allCheckers });
  if (failure !== null) return failure;
  if (!expected.includes("determinism")) return null;
  const again = await run(scenario, { store });
  return again.digest === digest ? null : { invariant: "determinism", message: "two runs of one scenario differ" };
}

async function selfCheck(name: SelfCheck): Promise<Finding | null> {
  try {
    await SELF_CHECKS[name]();
    return null;
  } catch (error) {
    return { invariant: "self", message: (error as Error).message };
  }
}
