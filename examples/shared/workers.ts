/** The child processes of `--once --workers N`, one of which is killed while it is running jobs. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { Client, JobView } from "kiln";
import { isAlive } from "./database.ts";

export interface WorkersOptions {
  readonly count: number;
  /** The program that each of them runs, and its arguments. */
  readonly program: string;
  readonly args: readonly string[];
  /** Told what went wrong in one of them. */
  readonly onProblem: (text: string) => void;
}

/** Where the application writes down which processes run its jobs. */
export interface WorkerLog {
  /** Makes a process known; returns its id. */
  addWorker(pid: number): Promise<number>;
  /** Processes that are not known to be dead. */
  workers(): readonly { readonly id: number; readonly pid: number }[];
  /** To be called once the process is certain to be dead, or will run no more jobs. */
  noteDeath(worker: number): Promise<void>;
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

  constructor({ count, program, args, onProblem }: WorkersOptions) {
    this.#children = Array.from({ length: count }, () => fork(program, args));
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
   * Kills a process that is running a job of the first of these kinds that any is running. Null = none is running any at
   * the moment.
   */
  async kill(client: Client, log: WorkerLog, kinds: readonly string[]): Promise<Killed | null> {
    const server = (await runningJobs(client, kinds))[0]?.server;
    const record = (await client.servers()).find(({ id }) => id === server);
    const child = this.#running().find(({ pid }) => pid === record?.pid);
    if (!child) return null;
    child.kill("SIGKILL");
    await this.#ended.get(child);
    const worker = log.workers().find(({ pid }) => pid === child.pid);
    if (worker) await log.noteDeath(worker.id);
    // What it held stays its own until it is declared dead, seconds from now.
    const held = (await runningJobs(client, kinds)).filter((job) => job.server === server);
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

/** In the order of their kinds. */
async function runningJobs(client: Client, kinds: readonly string[]): Promise<readonly JobView[]> {
  const pages = await Promise.all(kinds.map((kind) => client.list({ state: "processing", kind, limit: 500 })));
  return pages.flatMap(({ jobs }) => jobs);
}

/** Writes down the deaths of processes that ended without doing so themselves. Returns how many there were. */
export async function noteDeaths(log: WorkerLog): Promise<number> {
  // One with the number of this process, which has only just begun, can't be living either.
  const dead = log.workers().filter(({ pid }) => pid === process.pid || !isAlive(pid));
  for (const { id } of dead) await log.noteDeath(id);
  return dead.length;
}
