/** Files and processes for the tests of the examples. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

export const ROOT = join(import.meta.dirname, "../..");
export const SAMPLE = join(ROOT, "examples/data/customers.csv");
export const HEADER = "customer_id,name,email,country,signed_up,amount";

/** A directory that is removed when the test has ended. */
export async function makeDirectory(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "kiln-import-test-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Customers that are all valid. */
export function customers(count: number): string {
  const rows = Array.from({ length: count }, (_, index) => {
    const number = String(index + 1).padStart(6, "0");
    return `C-${number},Ada Lovelace,ada${number}@example.com,GB,2024-02-29,${index}.50`;
  });
  return [HEADER, ...rows].map((line) => `${line}\n`).join("");
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  kill(signal: NodeJS.Signals): void;
  /** Resolves as soon as the output so far matches. @throws AssertionError when the process ends before that */
  shows(pattern: RegExp): Promise<void>;
  readonly ended: Promise<Ended>;
}

/** Runs a program with arguments as npm does. */
export function launcher(program: string) {
  const started = (t: TestContext, args: readonly string[]): Running => start(t, program, args);
  return { start: started, run: (t: TestContext, args: readonly string[]) => started(t, args).ended };
}

function start(t: TestContext, program: string, args: readonly string[]): Running {
  const launch = ["--conditions=kiln-source", "scripts/launch.mjs", program];
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, [...launch, ...args], { cwd: ROOT, env, timeout: 60_000 });
  t.after(() => child.kill("SIGKILL"));
  let [stdout, stderr] = ["", ""];
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  return {
    ended,
    kill: (signal) => child.kill(signal),
    shows: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (pattern.test(stdout)) resolve();
        };
        look();
        child.stdout.on("data", look);
        child.on("close", () =>
          reject(new assert.AssertionError({ message: `never showed ${pattern}:\n${stdout}${stderr}` })),
        );
      }),
  };
}

export function lastLine({ stdout, stderr }: Ended): string {
  return stdout.trimEnd().split("\n").at(-1) ?? stderr;
}
