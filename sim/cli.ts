/** The simulator's command line, apart from the process that it runs in. */
import { InvalidError } from "../engine/errors.ts";
import { PROFILE_NAMES } from "./generate/profiles.ts";
import { marks } from "./marks/marks.ts";
import { mutants } from "./mutants/main.ts";
import { EXIT } from "./search/exit.ts";
import { checkDeterminism } from "./verbs/check-determinism.ts";
import { diff } from "./verbs/diff.ts";
import { regress } from "./verbs/regress.ts";
import { replay } from "./verbs/replay.ts";
import { run } from "./verbs/run.ts";
import { shrink } from "./verbs/shrink.ts";
import type { Io, Verb } from "./verbs/verb.ts";

const VERBS: Readonly<Record<string, Verb>> = {
  run,
  replay,
  shrink,
  diff,
  "check-determinism": checkDeterminism,
  regress,
  mutants,
  marks,
};

const USAGE = `usage: npm run sim -- VERB [OPTION...]

run                       random scenarios until the time is over
  --store STORE           memory (default) or sqlite
  --profile PROFILE       ${PROFILE_NAMES.join(", ")}
  --seed SEED             a number, the hash of a commit, or today (default)
  --time DURATION         real time, default 60s; making failures small comes on top
  --jobs N                processes, default 1
  --out DIR               where failures are kept, default sim-failures
  --patience DURATION     real time after which one run counts as stuck, default 60s
replay FILE|SEED          one scenario, with what happened if it fails
  --store STORE           default: all that the file names
  --profile PROFILE       that a seed is meant for, default swarm
  --until DURATION        stop at this virtual time and show what was
  --trace                 print every event
shrink FILE               make a failing scenario small
  --budget DURATION       default 60s
  --runs N                default 1000
  --store STORE           default: the first that the file names
  --out FILE              default: FILE with .min.json
diff FILE|SEED            the first event in which stores differ
  --stores STORE,STORE    default memory,sqlite
  --profile PROFILE
check-determinism FILE|SEED   one scenario in two processes, and the first event in which they differ
  --store STORE --profile PROFILE
regress [DIR]             the kept scenarios, default sim/regressions
mutants                   faults on purpose, each of which must be found
  --only NUMBER|ID,…      some of docs/simulator-mutants.md
  --random                with random scenarios, not those written for each
  --seed SEED --time DURATION   of the random ones, default today and 120s for each mutant
  --jobs N                processes, default 2
marks                     the rare things that scenarios must reach
  --time DURATION         of a random search besides those written by hand, default 20s
  --seed SEED

exit codes: 0 all promises were kept, 10 a promise of safety was broken, 11 one of liveness, 12 two runs differ or real time
was read, 13 an error or a run that does not end, 14 marks were not reached, 15 a mutant survived, 20 wrong arguments or files
`;

/** Resolves to the exit code. */
export async function cli([name, ...args]: readonly string[], io: Io): Promise<number> {
  if (name === "--help" || args.includes("--help")) {
    io.say(USAGE.trimEnd());
    return EXIT.ok;
  }
  const verb = name !== undefined && Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
  if (verb === undefined) {
    const what = name === undefined ? "no verb" : `unknown verb ${name}`;
    io.complain(`sim: ${what}; there is ${Object.keys(VERBS).join(", ")}\n\n${USAGE}`);
    return EXIT.harness;
  }
  try {
    return await verb(args, io);
  } catch (error) {
    io.complain(`sim: ${isExpected(error) ? error.message : String((error as Error).stack)}`);
    return EXIT.harness;
  }
}

/** What whoever typed the command can set right. */
function isExpected(error: unknown): error is Error {
  const code = (error as { readonly code?: unknown }).code;
  return error instanceof InvalidError || (typeof code === "string" && code.startsWith("ERR_PARSE_ARGS"));
}
