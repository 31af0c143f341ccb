/** Runs programs through scripts/launch.mjs as npm's scripts do. */
import { spawn } from "node:child_process";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface LaunchOptions {
  /** For Node itself. */
  readonly flags?: readonly string[];
  /** Sent once the program has printed `ready`. */
  readonly kill?: NodeJS.Signals;
}

/** Runs `args`, a program with its arguments, to its end. The program's path is relative to the repository. */
export function launch(args: readonly string[], { flags = [], kill }: LaunchOptions = {}): Promise<Ended> {
  const node = [...flags, "--conditions=kiln-source", join(ROOT, "scripts/launch.mjs")];
  // Left in place, it would make a test runner inside the program believe that it is a part of this one, and do nothing.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...node, ...args], { cwd: ROOT, env });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += chunk;
      if (kill && stdout === "ready\n") child.kill(kill);
    });
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += chunk;
    });
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}
