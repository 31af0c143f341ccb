/** `shrink`: makes the scenario of a file as small as it gets while it fails in the same way. */
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { allCheckers } from "../invariants/index.ts";
import { run } from "../run/run.ts";
import { caseToText } from "../scenario/case.ts";
import { EXIT, exitCodeOf } from "../search/exit.ts";
import { shrunkText } from "../search/report.ts";
import { after, plain } from "../search/search.ts";
import { shrink as shrinkScenario } from "../shrink/shrink.ts";
import { headline, timeline } from "../tell/timeline.ts";
import { commitHash, countOf, durationOf, only, readCase, storeOf, type Verb } from "./verb.ts";

const OPTIONS = {
  store: { type: "string" },
  budget: { type: "string", default: "60s" },
  runs: { type: "string", default: "1000" },
  out: { type: "string" },
} as const;

export const shrink: Verb = async (args, io) => {
  const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  const name = only(positionals, "FILE");
  const of = await readCase(name);
  const store = values.store === undefined ? (of.stores[0] ?? "memory") : storeOf(values.store);
  const runs = countOf("--runs", values.runs, 1e6);
  const expired = after(durationOf("--budget", values.budget));
  const first = await run(of.scenario, { store, checkers: allCheckers });
  if (first.failure === null) {
    io.say(`ok  store=${store}: it does not fail, so there is nothing to make smaller`);
    return EXIT.ok;
  }
  const shrunk = await shrinkScenario(of.scenario, first.failure, {
    run: async (scenario) => (await run(scenario, { store, checkers: allCheckers })).failure,
    runs,
    expired,
  });
  const { scenario, failure } = shrunk;
  const file = values.out ?? name.replace(/(\.json)?$/, ".min.json");
  const commit = await commitHash();
  const what = `${failure.invariant} ${failure.message}`;
  const stores = [store, ...of.stores.filter((other) => other !== store)];
  await writeFile(file, caseToText({ what, stores, signature: failure.signature, commit, scenario }));
  const found = { store, drawn: of.scenario, scenario, failure: plain(failure), runs: shrunk.runs };
  const replay = `npm run sim -- replay ${file}`;
  io.say(headline(failure, scenario, { store, commit, shrunk: shrunkText(found), replay }));
  const { history } = await run(scenario, { store, checkers: allCheckers });
  io.say(timeline(failure, scenario, history));
  return exitCodeOf(failure);
};
