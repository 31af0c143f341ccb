/** Scenarios that were written by hand: those that kill a mutant, and those that reach a mark. Each must pass. */
import { MARK_SCENARIOS } from "../marks/scenarios.ts";
import { MUTANTS } from "../mutants/list.ts";
import type { Scenario } from "./scenario.ts";

/** By what they are for. */
export function directedScenarios(): ReadonlyMap<string, Scenario> {
  const named = new Map<Scenario, string>();
  for (const { id, directed } of MUTANTS) {
    if (typeof directed !== "string" && !named.has(directed)) named.set(directed, `mutant ${id}`);
  }
  for (const [name, scenario] of Object.entries(MARK_SCENARIOS)) named.set(scenario, name);
  return new Map([...named].map(([scenario, name]) => [name, scenario]));
}
