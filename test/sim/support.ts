/** What tests of the simulator share. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { cli } from "../../sim/cli.ts";
import { EMPTY_SCENARIO, type JobPlan, PLAIN_JOB, PLAIN_SERVER, type Scenario } from "../../sim/scenario/scenario.ts";

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The command line within this process, with what it starts in processes of their own. */
export async function sim(...args: readonly string[]): Promise<Ended> {
  const said: string[] = [];
  const complained: string[] = [];
  const code = await cli(args, {
    terminal: false,
    say: (line) => said.push(line),
    complain: (text) => complained.push(text),
    show: () => {},
  });
  return { code, stdout: said.join("\n"), stderr: complained.join("\n") };
}

/** Loads a module of `plants/` into all processes that `fn` starts. */
export async function planted<Value>(plant: string, fn: () => Promise<Value>): Promise<Value> {
  const before = process.env["NODE_OPTIONS"];
  process.env["NODE_OPTIONS"] = `--import=${new URL(`./plants/${plant}.ts`, import.meta.url).href}`;
  try {
    return await fn();
  } finally {
    if (before === undefined) delete process.env["NODE_OPTIONS"];
    else process.env["NODE_OPTIONS"] = before;
  }
}

/** The command line as users start it. */
export function simProcess(...args: readonly string[]): Promise<Ended> {
  const main = fileURLToPath(new URL("../../sim/main.ts", import.meta.url));
  return new Promise((resolve) => {
    execFile(process.execPath, ["--conditions=kiln-source", main, ...args], (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** Minutes long, with three servers. */
export function scenarioWith(jobs: readonly Partial<JobPlan>[], more: Partial<Scenario> = {}): Scenario {
  return {
    ...EMPTY_SCENARIO,
    duration: 120_000,
    servers: [PLAIN_SERVER, PLAIN_SERVER, PLAIN_SERVER],
    jobs: jobs.map((job) => ({ ...PLAIN_JOB, ...job })),
    ...more,
  };
}

/** Something of everything goes wrong. */
export const TROUBLED = scenarioWith(
  Array.from({ length: 8 }, (_, index) => ({ at: index * 9_000, obeys: index % 2 === 0 ? 0 : null })),
  {
    seed: 11,
    faults: [
      { type: "crash", target: 0, at: 20_000, restartAfter: 5_000 },
      { type: "pause", target: 1, at: 10_000, for: 66_000 },
      { type: "loseReply", target: 2, op: "claim", nth: 3, at: 0 },
      { type: "errorAfter", target: 2, op: "finish", nth: 1, at: 0 },
      { type: "delayRequest", target: 2, op: "heartbeat", nth: 2, at: 0, for: 30_000 },
      { type: "databaseDown", at: 50_000, for: 7_000 },
      { type: "databaseClock", at: 60_000, by: 3_000 },
      { type: "doubleEvents", at: 0, for: 100_000 },
    ],
    recurring: [
      {
        ...{ at: 0, cron: "@every 10s", timeZone: "UTC", misfire: "once", overlap: false },
        run: { work: 100, end: "return", checkpoint: true, enqueues: null },
      },
    ],
  },
);

/** Fails on the engine as it is: where each call takes longer than a limited job may take to start, it never starts. */
export const NEVER_STARTS = scenarioWith([{ limit: { key: 0, max: 0, rate: 1, per: 60_000, burst: 1 } }], {
  duration: 30_000,
  seed: 5,
  config: { ...EMPTY_SCENARIO.config, latency: 2_500 },
});
