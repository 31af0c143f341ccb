/** `replay`: one scenario, from a file or a seed, and all that happens in it. */
import { parseArgs } from "node:util";
import { allCheckers } from "../invariants/index.ts";
import { type PlainFailure, type RunResult, run } from "../run/run.ts";
import type { Case } from "../scenario/case.ts";
import { EXIT, exitCodeOf, worst } from "../search/exit.ts";
import { headline, timeline } from "../tell/timeline.ts";
import { trace } from "../tell/trace.ts";
import { caseFrom, durationOf, only, profileOf, storeOf, type Verb } from "./verb.ts";

const OPTIONS = {
  store: { type: "string" },
  profile: { type: "string", default: "swarm" },
  until: { type: "string" },
  trace: { type: "boolean", default: false },
} as const;

export const replay: Verb = async (args, io) => {
  const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  const name = only(positionals, "FILE or SEED");
  const of = await caseFrom(name, profileOf(values.profile));
  const stores = values.store === undefined ? of.stores : [storeOf(values.store)];
  const until = values.until === undefined ? Number.POSITIVE_INFINITY : durationOf("--until", values.until);
  const codes: number[] = [];
  for (const store of stores) {
    const options = { store, until, checkers: allCheckers };
    let result: RunResult;
    if (values.trace) {
      const traced = await trace(of.scenario, options);
      for (const line of traced.lines) io.say(line);
      result = traced.result;
    } else result = await run(of.scenario, options);
    io.say(said(of, result, store, name, until !== Number.POSITIVE_INFINITY));
    codes.push(result.failure === null ? EXIT.ok : exitCodeOf(result.failure));
  }
  return worst(codes);
};

function said({ scenario, commit }: Case, result: RunResult, store: string, name: string, cut: boolean): string {
  const { failure, history, events, simulated, digest } = result;
  const of = `store=${store}  ${events} events, ${(simulated / 1_000).toFixed(3)} s, digest ${digest}`;
  const none: PlainFailure = { invariant: "", message: "stopped", signature: "", job: null, at: simulated };
  if (failure === null) return cut ? `${timeline(none, scenario, history)}\nok  ${of}` : `ok  ${of}`;
  const replay = `npm run sim -- replay ${name}`;
  return `${headline(failure, scenario, { store, commit, shrunk: null, replay })}\n${timeline(failure, scenario, history)}`;
}
