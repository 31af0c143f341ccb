/** Hunts mutants, each in a process of its own. */
import { type ChildProcess, fork } from "node:child_process";
import { systemRuntime } from "../../engine/runtime.ts";
import type { Mutant } from "./mutant.ts";
import { failsAnyway, type Search, type Trial } from "./trial.ts";

export interface HuntOptions {
  /** Null = with the scenario that was written for each. */
  readonly random: { readonly seed: number; readonly seconds: number } | null;
  /** Processes at a time. */
  readonly jobs: number;
  /** Called as each has ended. */
  readonly onVerdict: (verdict: Verdict) => void;
}

export interface Verdict {
  readonly mutant: Mutant;
  readonly caught: boolean;
  /** What caught it, after how long; or why it was not. */
  readonly text: string;
  /** The mutant could not be tried: it does not fit the source any more. */
  readonly broken: boolean;
}

/** Longest time that a process may take beside its search, milliseconds: one whose time stands still counts as caught. */
const GRACE = 60_000;

export async function hunt(mutants: readonly Mutant[], options: HuntOptions): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  const left = [...mutants];
  const worker = async (): Promise<void> => {
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const verdict = await tryOne(mutant, options);
      verdicts.push(verdict);
      options.onVerdict(verdict);
    }
  };
  await Promise.all(Array.from({ length: options.jobs }, worker));
  return verdicts;
}

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
}

async function tryOne(mutant: Mutant, { random }: HuntOptions): Promise<Verdict> {
  if (random === null || typeof mutant.random !== "string") return verdictOf(mutant, await spawn(mutant, null));
  let { seconds } = random;
  let first = 0;
  for (;;) {
    const ended = await spawn(mutant, { seed: random.seed, first, seconds });
    const trial = trialOf(ended);
    if (trial === null) return verdictOf(mutant, ended);
    first += trial.scenarios;
    seconds -= trial.seconds;
    const all = { ...trial, scenarios: first, seconds: random.seconds - seconds };
    // A scenario that fails without the mutant too shows something, but not the mutant.
    if (trial.origin === null || !(await failsAnyway(trial.origin, mutant.random))) return judge(mutant, all, false);
  }
}

function spawn(mutant: Mutant, search: Search | null): Promise<Ended> {
  const url = new URL("child.ts", import.meta.url);
  const preload = new URL(`preload.ts?mutant=${mutant.id}`, import.meta.url);
  const execArgv = ["--conditions=kiln-source", "--import", preload.href];
  const args = search === null ? [] : [search.seed, search.first, search.seconds].map(String);
  const child = fork(url, [mutant.id, ...args], { execArgv, silent: true });
  return endOf(child, GRACE + (search?.seconds ?? 0) * 1_000);
}

/** Null when the process has not said how it went. */
function trialOf({ code, timedOut, stdout }: Ended): Trial | null {
  return timedOut || code !== 0 ? null : (JSON.parse(stdout) as Trial);
}

function verdictOf(mutant: Mutant, ended: Ended): Verdict {
  const trial = trialOf(ended);
  if (trial !== null) return judge(mutant, trial, true);
  if (ended.timedOut) return { mutant, caught: true, broken: false, text: "caught: it does not come to an end" };
  return { mutant, caught: false, broken: true, text: `could not be tried: ${ended.stderr.trim()}` };
}

function judge(mutant: Mutant, { findings, scenarios, seconds }: Trial, strict: boolean): Verdict {
  const effort = `${scenarios} ${scenarios === 1 ? "scenario" : "scenarios"}, ${seconds.toFixed(1)} s`;
  const names = findings.map((finding) => finding?.invariant ?? "nothing");
  const by = [...new Set(names)].join(", ");
  const shown = findings.find((finding) => finding !== null)?.message ?? "";
  const caught = findings.every((finding) => finding !== null);
  // Else a scenario could go on passing for a reason that has nothing to do with its mutant.
  const expected = !strict || names.every((name) => mutant.invariants.includes(name));
  if (caught && expected) return { mutant, caught, broken: false, text: `caught by ${by} (${effort}): ${shown}` };
  const wanted = strict ? `, not ${mutant.invariants.join(" or ")}` : "";
  return { mutant, caught: false, broken: false, text: `SURVIVED: found by ${by}${wanted} (${effort}) ${shown}` };
}

function endOf(child: ChildProcess, ms: number): Promise<Ended> {
  const texts = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8").on("data", (text: string) => {
      texts[name] += text;
    });
  }
  let timedOut = false;
  const cancel = systemRuntime.timer(ms, () => {
    timedOut = true;
    child.kill("SIGKILL");
  });
  return new Promise((resolve) => {
    child.on("close", (code) => {
      cancel();
      resolve({ code, ...texts, timedOut });
    });
  });
}
