/** `run`: a search with random scenarios in several processes, as long as it is told to. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { systemRuntime } from "../../engine/runtime.ts";
import { allCheckers } from "../invariants/index.ts";
import { run as runScenario } from "../run/run.ts";
import { caseToText } from "../scenario/case.ts";
import { EXIT, exitCodeOf, worst } from "../search/exit.ts";
import { searchInProcesses } from "../search/pool.ts";
import { caseOf, distinct, fileNameOf, shrunkText, statisticsLine } from "../search/report.ts";
import type { Found, Statistics } from "../search/search.ts";
import { headline, timeline } from "../tell/timeline.ts";
import { commitHash, countOf, durationOf, type Io, profileOf, seedOfText, storeOf, type Verb } from "./verb.ts";

const OPTIONS = {
  store: { type: "string", default: "memory" },
  profile: { type: "string", default: "swarm" },
  seed: { type: "string", default: "today" },
  time: { type: "string", default: "60s" },
  jobs: { type: "string", default: "1" },
  out: { type: "string", default: "sim-failures" },
  patience: { type: "string", default: "60s" },
} as const;

const MOST_JOBS = 64;
const SHRINK_FOR = 60_000;
/** Between two lines of progress where nobody watches. */
const QUIET = 30_000;

export const run: Verb = async (args, io) => {
  const { values } = parseArgs({ args: [...args], options: OPTIONS });
  const common = {
    type: "search",
    store: storeOf(values.store),
    profile: profileOf(values.profile),
    seed: seedOfText(values.seed),
    time: durationOf("--time", values.time),
    shrinkFor: SHRINK_FOR,
  } as const;
  const jobs = countOf("--jobs", values.jobs, MOST_JOBS);
  const patience = durationOf("--patience", values.patience);
  const commit = await commitHash();
  io.say(`seed ${common.seed}, profile ${common.profile}, store ${common.store}, commit ${commit ?? "unknown"}`);
  const { statistics, found } = await searchInProcesses({
    tasks: Array.from({ length: jobs }, (_, first) => ({ ...common, first, step: jobs })),
    patience,
    onProgress: progressTo(io),
  });
  const kinds = distinct(found);
  for (const one of kinds) await reportFound(one, { commit, folder: values.out, io });
  io.say(statisticsLine(statistics));
  if (Object.keys(statistics.marks).length > 0) io.say(`reached: ${Object.keys(statistics.marks).sort().join(", ")}`);
  return kinds.length === 0 ? EXIT.ok : worst(kinds.map(({ failure }) => exitCodeOf(failure)));
};

function progressTo(io: Io): (statistics: Statistics) => void {
  let last = systemRuntime.monotonic();
  return (statistics) => {
    const now = systemRuntime.monotonic();
    if (now - last < (io.terminal ? 200 : QUIET)) return;
    last = now;
    if (io.terminal) io.show(statisticsLine(statistics));
    else io.say(statisticsLine(statistics));
  };
}

interface Where {
  readonly commit: string | null;
  readonly folder: string;
  readonly io: Io;
}

async function reportFound(found: Found, { commit, folder, io }: Where): Promise<void> {
  await mkdir(folder, { recursive: true });
  const file = join(folder, fileNameOf(found));
  await writeFile(file, caseToText(caseOf(found, commit)));
  const { store, scenario, failure } = found;
  const replay = `npm run sim -- replay ${file}`;
  io.say(headline(failure, scenario, { store, commit, shrunk: shrunkText(found), replay }));
  // One that never ended has nothing to tell, and would not now.
  if (found.runs === 0) return;
  const result = await runScenario(scenario, { store, checkers: allCheckers });
  io.say(timeline(failure, scenario, result.history));
}
