/** `regress`: every failure that was ever found and kept, again. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { invalid } from "../../engine/problems.ts";
import { allCheckers } from "../invariants/index.ts";
import { run } from "../run/run.ts";
import type { Case } from "../scenario/case.ts";
import { EXIT, exitCodeOf, worst } from "../search/exit.ts";
import { headline, timeline } from "../tell/timeline.ts";
import { readCase, type Verb } from "./verb.ts";

/** Where they are kept. */
export const REGRESSIONS = fileURLToPath(new URL("../regressions", import.meta.url));

/** By file name. @throws InvalidError when it is not a folder of cases */
export async function readRegressions(folder: string): Promise<ReadonlyMap<string, Case>> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    throw invalid("can't run regressions", "DIR", folder, `must be a folder (${(error as Error).message})`);
  }
  const cases = new Map<string, Case>();
  for (const name of names.filter((file) => file.endsWith(".json")).sort()) {
    cases.set(name, await readCase(join(folder, name)));
  }
  return cases;
}

export const regress: Verb = async (args, io) => {
  const { positionals } = parseArgs({ args: [...args], options: {}, allowPositionals: true });
  const [folder = REGRESSIONS] = positionals;
  const codes: number[] = [];
  for (const [name, { scenario, stores, commit }] of await readRegressions(folder)) {
    for (const store of stores) {
      const { failure, history } = await run(scenario, { store, checkers: allCheckers });
      codes.push(failure === null ? EXIT.ok : exitCodeOf(failure));
      if (failure === null) continue;
      const replay = `npm run sim -- replay ${join(folder, name)}`;
      io.say(headline(failure, scenario, { store, commit, shrunk: null, replay }));
      io.say(timeline(failure, scenario, history));
    }
  }
  io.say(`${codes.length} runs, ${codes.filter((code) => code !== EXIT.ok).length} failed`);
  return worst(codes);
};
