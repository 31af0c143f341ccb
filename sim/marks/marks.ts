/**
 * `marks`: whether the hand-written scenarios and a short search reach all that a
 * search must have reached, on each store. A run that has met nothing rare proves little.
 */
import { parseArgs } from "node:util";
import { systemRuntime } from "../../engine/runtime.ts";
import { STORE_KINDS, type StoreKind } from "../cluster/database.ts";
import { scenarioFrom } from "../generate/generate.ts";
import { run } from "../run/run.ts";
import { directedScenarios } from "../scenario/directed.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { seedOf } from "../scenario/seed.ts";
import { EXIT } from "../search/exit.ts";
import { durationOf, seedOfText, type Verb } from "../verbs/verb.ts";
import { MARKS, type Mark } from "./list.ts";
import { MarkWatch } from "./watch.ts";

/** Which marks a run reaches. */
export async function marksOf(scenario: Scenario, store: StoreKind): Promise<ReadonlySet<Mark>> {
  const reached = new Set<Mark>();
  const watch = new MarkWatch((mark) => reached.add(mark));
  const { marks } = await run(scenario, { store, checkers: () => [watch] });
  for (const mark of marks) if (MARKS.has(mark as Mark)) reached.add(mark as Mark);
  return reached;
}

export const marks: Verb = async (args, io) => {
  const { values } = parseArgs({
    args: [...args],
    options: { time: { type: "string", default: "20s" }, seed: { type: "string", default: "today" } },
  });
  const seconds = durationOf("--time", values.time) / 1_000;
  const seed = seedOfText(values.seed);
  let missing = 0;
  for (const store of STORE_KINDS) {
    const directed = await reachedBy([...directedScenarios().values()], store);
    const random = await search(store, seed, seconds / STORE_KINDS.length);
    for (const [mark, meaning] of MARKS) {
      const how = [directed.has(mark) && "by hand", random.has(mark) && "at random"].filter(Boolean);
      if (how.length === 0) missing += 1;
      io.say(`${store.padEnd(6)} ${(how.join(" and ") || "NOT REACHED").padEnd(21)} ${mark}: ${meaning}`);
    }
  }
  io.say(missing === 0 ? "all marks were reached" : `${missing} marks were not reached`);
  return missing === 0 ? EXIT.ok : EXIT.marks;
};

async function reachedBy(scenarios: readonly Scenario[], store: StoreKind): Promise<Set<Mark>> {
  const reached = new Set<Mark>();
  for (const scenario of scenarios) for (const mark of await marksOf(scenario, store)) reached.add(mark);
  return reached;
}

async function search(store: StoreKind, seed: number, seconds: number): Promise<Set<Mark>> {
  const reached = new Set<Mark>();
  const until = systemRuntime.monotonic() + seconds * 1_000;
  for (let number = 0; systemRuntime.monotonic() < until; number++) {
    for (const mark of await marksOf(scenarioFrom(seedOf(seed, number), "swarm"), store)) reached.add(mark);
  }
  return reached;
}
