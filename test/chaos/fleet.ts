/** The worker processes: starts them, kills them, and gathers what they wrote down. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout } from "node:timers/promises";
import { readLines, sharedNow, toRuns } from "./log.ts";
import type { Run } from "./verdict.ts";

const WORKER = join(import.meta.dirname, "worker.ts");
/** Milliseconds; far more than any of it takes. */
const LIMIT = 30_000;
/** A worker is killed at some moment within this time after it is seen to be busy, milliseconds. */
const WITHIN = 300;

interface Worker {
  readonly name: string;
  readonly log: string;
  readonly process: ChildProcess;
  /** Resolves once the process is gone, with when that was known. */
  readonly exited: Promise<number>;
}

export class Fleet {
  readonly #directory: string;
  readonly #database: string;
  readonly #cutOff = new Set<string>();
  readonly #past: Run[] = [];
  #workers: Worker[] = [];
  #started = 0;
  #output = "";
  /** Set when a worker ends that was not told to. */
  #unexpected: string | null = null;

  constructor(directory: string, database: string) {
    this.#directory = directory;
    this.#database = database;
  }

  /** Runs of all workers that have ended. */
  get runs(): readonly Run[] {
    return this.#past;
  }

  /** Workers that were killed or declared dead. */
  get cutOff(): ReadonlySet<string> {
    return this.#cutOff;
  }

  /** What the workers logged. */
  get output(): string {
    return this.#output;
  }

  /** Resolves when all of them run jobs. */
  async start(count: number): Promise<void> {
    for (let n = 0; n < count; n += 1) this.#workers.push(this.#spawn());
    await this.busy();
  }

  /** Ends one of them by the signal while it is busy, and starts another. */
  async replaceOne(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const victim = this.#workers[Math.floor(Math.random() * this.#workers.length)] ?? assert.fail();
    await this.#busy(victim);
    await setTimeout(Math.random() * WITHIN);
    await this.#end(victim, signal);
    this.#workers.push(this.#spawn());
  }

  /** Resolves when each of them has had a job in hand since this was called. */
  async busy(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => this.#busy(worker)));
  }

  /** Ends them in order. */
  async stop(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => this.#end(worker, "SIGTERM")));
    assert.equal(this.#unexpected, null);
  }

  /** Ends what is left, whatever has happened. */
  async kill(): Promise<void> {
    for (const { process } of this.#workers) process.kill("SIGKILL");
    await Promise.all(this.#workers.map(({ exited }) => exited));
  }

  #spawn(): Worker {
    this.#started += 1;
    const name = `worker ${this.#started}`;
    const log = join(this.#directory, `${this.#started}.log`);
    const child = spawn(process.execPath, ["--conditions=kiln-source", WORKER, this.#database, log], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    child.stderr?.on("data", (chunk: Buffer) => {
      this.#output += `${name}: ${chunk}`;
    });
    const exited = new Promise<number>((resolve) => child.once("exit", () => resolve(sharedNow())));
    const worker: Worker = { name, log, process: child, exited };
    child.once("exit", (code, signal) => {
      if (this.#workers.includes(worker)) this.#unexpected ??= `${name} ended with ${signal ?? code}: ${this.#output}`;
    });
    return worker;
  }

  async #end(worker: Worker, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    this.#workers = this.#workers.filter((other) => other !== worker);
    if (signal === "SIGKILL") this.#cutOff.add(worker.name);
    worker.process.kill(signal);
    // One that does not end is found by the time limit of the test.
    const at = await worker.exited;
    if (signal === "SIGTERM") {
      const ended = `${worker.name} ended with ${worker.process.signalCode ?? worker.process.exitCode}: ${this.#output}`;
      assert.equal(worker.process.exitCode, 0, ended);
    }
    const lines = readLines(worker.log);
    if (lines.some(({ type }) => type === "declared dead")) this.#cutOff.add(worker.name);
    this.#past.push(...toRuns(worker.name, lines, at));
  }

  /** Waits until the worker has written down something more of a run. */
  async #busy({ name, log }: Worker): Promise<void> {
    const written = (): number => statSync(log, { throwIfNoEntry: false })?.size ?? 0;
    const before = written();
    const end = performance.now() + LIMIT;
    while (written() === before) {
      assert.equal(this.#unexpected, null);
      assert.ok(performance.now() < end, `${name} ran nothing for ${LIMIT} ms: ${this.#output}`);
      await setTimeout(10);
    }
  }
}

/** Rows of the table of live jobs and of the archive. */
export function countRows(database: string): { live: number; archived: number } {
  const db = new DatabaseSync(database, { readOnly: true });
  const count = (table: string): number => Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.["n"]);
  const rows = { live: count("kiln_jobs"), archived: count("kiln_archive") };
  db.close();
  return rows;
}

export async function until(done: () => Promise<boolean>, limit: number): Promise<void> {
  const end = performance.now() + limit;
  while (!(await done())) {
    assert.ok(performance.now() < end, `not done within ${limit} ms`);
    await setTimeout(50);
  }
}
