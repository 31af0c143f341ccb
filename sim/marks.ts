/**
 * `npm run sim -- marks [--time SECONDS] [--seed N]`: whether the hand-written scenarios and a short search reach all that a
 * search must have reached, on each store. A run that has met nothing rare proves little.
 */
import { parseArgs } from "node:util";
import { systemRuntime } from "../engine/runtime.ts";
import { STORE_KINDS, type StoreKind } from "./database.ts";
import { directedScenarios } from "./directed.ts";
import { scenarioFrom } from "./generate.ts";
import { MARKS, type Mark } from "./marks/list.ts";
import { MarkWatch } from "./marks/watch.ts";
import { run } from "./run.ts";
import type { Scenario } from "./scenario.ts";

const NOT_REACHED = 14;

/** Which marks a run reaches. */
export async function marksOf(scenario: Scenario, store: StoreKind): Promise<ReadonlySet<Mark>> {
  const reached = new Set<Mark>();
  const watch = new MarkWatch((mark) => reached.add(mark));
  const { marks } = await run(scenario, { store, checkers: () => [watch] });
  for (const mark of marks) if (MARKS.has(mark as Mark)) reached.add(mark as Mark);
  return reached;
}

export async function marks(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: { time: { type: "string", default: "20" }, seed: { type: "string", default: "1" } },
  });
  let missing = 0;
  for (const store of STORE_KINDS) {
    const directed = await reachedBy([...directedScenarios().values()], store);
    const random = await search(store, Number(values.seed), Number(values.time) / STORE_KINDS.length);
    for (const [mark, meaning] of MARKS) {
      const how = [directed.has(mark) && "by hand", random.has(mark) && "at random"].filter(Boolean);
      if (how.length === 0) missing += 1;
      console.log(`${store.padEnd(6)} ${(how.join(" and ") || "NOT REACHED").padEnd(21)} ${mark}: ${meaning}`);
    }
  }
  console.log(missing === 0 ? "all marks were reached" : `${missing} marks were not reached`);
  return missing === 0 ? 0 : NOT_REACHED;
}

async function reachedBy(scenarios: readonly Scenario[], store: StoreKind): Promise<Set<Mark>> {
  const reached = new Set<Mark>();
  for (const scenario of scenarios) for (const mark of await marksOf(scenario, store)) reached.add(mark);
  return reached;
}

async function search(store: StoreKind, seed: number, seconds: number): Promise<Set<Mark>> {
  const reached = new Set<Mark>();
  const until = systemRuntime.monotonic() + seconds * 1_000;
  for (let next = seed; systemRuntime.monotonic() < until; next++) {
    for (const mark of await marksOf(scenarioFrom(next, "swarm"), store)) reached.add(mark);
  }
  return reached;
}
