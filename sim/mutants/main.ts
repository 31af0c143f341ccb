/**
 * `npm run sim -- mutants [--only 5,finish-any-claim] [--random] [--seed N] [--time SECONDS] [--jobs N]`: puts faults into the
 * engine, the stores and the simulator, one at a time, and sees whether each is found. Time is for each mutant.
 */
import { parseArgs } from "node:util";
import { hunt, type Verdict } from "./hunt.ts";
import { MUTANTS } from "./list.ts";
import type { Mutant } from "./mutant.ts";

const SURVIVED = 15;
const HARNESS = 20;

export async function mutants(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string" },
      random: { type: "boolean", default: false },
      seed: { type: "string", default: "1" },
      time: { type: "string", default: "120" },
      jobs: { type: "string", default: "2" },
    },
  });
  const chosen = choose(values.only);
  if (chosen === null) {
    console.error(`no mutant ${values.only}: it takes numbers and ids of docs/simulator-mutants.md`);
    return HARNESS;
  }
  const random = values.random ? { seed: Number(values.seed), seconds: Number(values.time) } : null;
  const tried = chosen.filter((mutant) => random === null || typeof mutant.random === "string");
  const verdicts = await hunt(tried, { random, jobs: Number(values.jobs), onVerdict: report });
  const caught = verdicts.filter((verdict) => verdict.caught).length;
  console.log(`caught ${caught}/${tried.length}`);
  if (verdicts.some(({ broken }) => broken)) return HARNESS;
  return caught === tried.length ? 0 : SURVIVED;
}

/** Null when one of the names is unknown. */
function choose(only: string | undefined): readonly Mutant[] | null {
  if (only === undefined) return MUTANTS;
  const names = only.split(",").map((name) => name.trim());
  const known = (name: string) => MUTANTS.filter(({ id, number }) => id === name || String(number) === name);
  return names.every((name) => known(name).length > 0) ? [...new Set(names.flatMap(known))] : null;
}

function report({ mutant, text }: Verdict): void {
  console.log(`${String(mutant.number).padStart(2)} ${mutant.id}: ${text}`);
}
