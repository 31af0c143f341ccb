/**
 * `mutants`: puts faults into the engine, the stores and the simulator, one at a time, each in a process of its own, and sees
 * whether each is found.
 */
import { parseArgs } from "node:util";
import { invalid } from "../../engine/problems.ts";
import { EXIT } from "../search/exit.ts";
import { countOf, durationOf, seedOfText, type Verb } from "../verbs/verb.ts";
import { hunt } from "./hunt.ts";
import { MUTANTS } from "./list.ts";
import type { Mutant } from "./mutant.ts";

const OPTIONS = {
  only: { type: "string" },
  random: { type: "boolean", default: false },
  seed: { type: "string", default: "today" },
  time: { type: "string", default: "120s" },
  jobs: { type: "string", default: "2" },
} as const;

const MOST_JOBS = 64;

export const mutants: Verb = async (args, io) => {
  const { values } = parseArgs({ args: [...args], options: OPTIONS });
  const time = durationOf("--time", values.time);
  const random = values.random ? { seed: seedOfText(values.seed), seconds: time / 1_000 } : null;
  const jobs = countOf("--jobs", values.jobs, MOST_JOBS);
  const chosen = choose(values.only).filter((mutant) => random === null || typeof mutant.random === "string");
  const verdicts = await hunt(chosen, {
    ...{ random, jobs },
    onVerdict: ({ mutant, text }) => io.say(`${String(mutant.number).padStart(2)} ${mutant.id}: ${text}`),
  });
  const caught = verdicts.filter((verdict) => verdict.caught).length;
  io.say(`caught ${caught}/${chosen.length}`);
  if (verdicts.some(({ broken }) => broken)) return EXIT.harness;
  return caught === chosen.length ? EXIT.ok : EXIT.mutant;
};

/** By numbers and ids; all when none are named. @throws InvalidError for one that is not known */
function choose(only: string | undefined): readonly Mutant[] {
  if (only === undefined) return MUTANTS;
  const names = only.split(",").map((name) => name.trim());
  const found = names.map((name) => MUTANTS.filter(({ id, number }) => id === name || String(number) === name));
  const unknown = names.filter((_, index) => found[index]?.length === 0);
  if (unknown.length === 0) return [...new Set(found.flat())];
  throw invalid(
    "can't try mutants",
    "--only",
    unknown.join(","),
    "must be numbers or ids of docs/simulator-mutants.md",
  );
}
