/** The child processes of `--once --workers N`, one of which is killed while it is running jobs. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Client, JobView } from "kiln";
import { importFile, importRow } from "./jobs.ts";
import type { Storage } from "./storage.ts";

export interface WorkersOptions {
  readonly count: number;
  readonly db: string;
  /** Rows that each of them works on at once. */
  readonly concurrency: number;
  /** Told what went wrong in one of them. */
  readonly onProblem: (text: string) => void;
}

export interface Killed {
  readonly pid: number;
  /** Jobs that it was running, or whose result it had not stored. */
  readonly jobs: number;
}

export class Workers {
  readonly #children: readonly ChildProcess[];
  readonly #ended: ReadonlyMap<ChildProcess, Promise<void>>;
  #failure: Error | null = null;

  constructor({ count, db, concurrency, onProblem }: WorkersOptions) {
    const start = (): ChildProcess => fork(join(import.meta.dirname, "worker.ts"), [db, String(concurrency)]);
    this.#children = Array.from({ length: count }, start);
    this.#ended = new Map(this.#children.map((child) => [child, this.#watch(child)]));
    for (const child of this.#children) child.on("message", (text) => onProblem(`process ${child.pid}: ${text}`));
  }

  get pids(): number[] {
    return this.#running().flatMap(({ pid }) => pid ?? []);
  }

  /** @throws Error when one has ended by itself */
  check(): void {
    if (this.#failure) throw this.#failure;
  }

  /**
   * Kills a process that is running jobs; while the file is being read the one that reads it, so that this has to be taken
   * over too. Null = none is running any at the moment.
   */
  async kill(client: Client, storage: Storage): Promise<Killed | null> {
    const server = (await runningJobs(client))[0]?.server;
    const record = (await client.servers()).find(({ id }) => id === server);
    const child = this.#running().find(({ pid }) => pid === record?.pid);
    if (!child) return null;
    child.kill("SIGKILL");
    await this.#ended.get(child);
    const worker = storage.workers().find(({ pid }) => pid === child.pid);
    if (worker) await storage.noteDeath(worker.id);
    // What it held stays its own until it is declared dead, seconds from now.
    const held = (await runningJobs(client)).filter((job) => job.server === server);
    return { pid: child.pid ?? 0, jobs: held.length };
  }

  /** Lets all finish what they are running; resolves when they have ended. */
  async stop(): Promise<void> {
    for (const child of this.#running()) if (child.connected) child.disconnect();
    await Promise.all(this.#ended.values());
  }

  #running(): ChildProcess[] {
    return this.#children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
  }

  async #watch(child: ChildProcess): Promise<void> {
    try {
      const [code, signal] = await once(child, "exit");
      const expected = code === 0 || child.killed;
      if (!expected) this.#failure ??= new Error(`process ${child.pid} ended by itself (${signal ?? `code ${code}`})`);
    } catch (error) {
      this.#failure ??= error as Error;
    }
  }
}

/** The reading of a file first. */
async function runningJobs(client: Client): Promise<readonly JobView[]> {
  const kinds = [importFile.kind, importRow.kind];
  const pages = await Promise.all(kinds.map((kind) => client.list({ state: "processing", kind, limit: 500 })));
  return pages.flatMap(({ jobs }) => jobs);
}
