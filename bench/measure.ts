/** What all suites measure with. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Says on stderr what is being measured. */
export function progress(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** The smallest value that at least the part `q` (0 to 1) of the values does not exceed. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(Math.ceil(q * sorted.length) - 1, 0)] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** Milliseconds that `work` takes. */
export async function timed(work: () => unknown): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

export interface Compared {
  readonly a: number;
  readonly b: number;
  /** Of `a` to `b`. */
  readonly ratio: number;
}

/**
 * Measures two things side by side: `rounds` times each, the one that goes first changing from round to round, because
 * the machine is not the same from one minute to the next. A round before them, in which Node compiles, does not count.
 * The medians of all.
 */
export async function compare(rounds: number, a: () => Promise<number>, b: () => Promise<number>): Promise<Compared> {
  const values: { a: number; b: number }[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    if (round % 2 === 0) {
      const first = await a();
      values.push({ a: first, b: await b() });
    } else {
      const first = await b();
      values.push({ a: await a(), b: first });
    }
  }
  values.shift();
  return {
    a: median(values.map((value) => value.a)),
    b: median(values.map((value) => value.b)),
    ratio: median(values.map((value) => value.a / value.b)),
  };
}

/** Gives `work` a directory on disk that is removed at its end. */
export async function withDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "kiln-bench-"));
  try {
    return await work(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** A TypeScript program of this repository in a process of its own, with which messages can be exchanged. */
export class Child {
  readonly #process: ChildProcess;
  readonly #messages: unknown[] = [];
  #reader: (() => void) | null = null;
  #ended: string | null = null;

  /** `options` are for node. */
  constructor(file: string, args: readonly string[], options: readonly string[] = []) {
    this.#process = spawn(process.execPath, ["--conditions=kiln-source", ...options, file, ...args], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.#process.on("message", (message) => {
      this.#messages.push(message);
      this.#reader?.();
    });
    this.#process.on("exit", (code, signal) => {
      this.#ended = `${file} ended with ${signal ?? code}`;
      this.#reader?.();
    });
  }

  send(message: NonNullable<unknown>): void {
    this.#process.send(message);
  }

  /** The next message. @throws Error when the process ends without one */
  async next<T>(): Promise<T> {
    while (this.#messages.length === 0) {
      if (this.#ended !== null) throw new Error(this.#ended);
      await new Promise<void>((resolve) => {
        this.#reader = resolve;
      });
      this.#reader = null;
    }
    return this.#messages.shift() as T;
  }

  /** Tells it to stop and waits until it has. */
  async stop(): Promise<void> {
    if (this.#ended !== null) return;
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGTERM");
    await ended;
  }
}
