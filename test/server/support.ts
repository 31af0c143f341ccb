/** A small world for tests of whole servers: one store, one virtual clock, any number of simulated processes. */
import assert from "node:assert/strict";
import { sleep } from "../../engine/async.ts";
import { Client } from "../../engine/client.ts";
import { StoreError } from "../../engine/errors.ts";
import type { Handler } from "../../engine/job.ts";
import type { Logger } from "../../engine/logger.ts";
import type { Runtime } from "../../engine/runtime.ts";
import type { ServerConfig } from "../../engine/server/config.ts";
import { Server } from "../../engine/server/server.ts";
import type { JobId, JobRecord, JobState, Store } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { type VirtualRuntime, VirtualTime } from "../../engine/testing/virtual-time.ts";

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;

/** What stands between a server and its store: the real store behind it, and faults in front. */
export class Link {
  readonly store: Store;
  /** Calls do not reach the store and fail. */
  down = false;
  /** Calls do not reach the store and are never answered, like those of a process that is cut off. */
  silent = false;
  /** The next calls of these methods reach the store but their reply is lost. */
  readonly loseReply = new Map<keyof Store, number>();
  /** Calls of these methods reach the store after this many milliseconds. */
  readonly delay = new Map<keyof Store, number>();
  /** Replies of these methods come after this many milliseconds. */
  readonly delayReply = new Map<keyof Store, number>();
  readonly calls: string[] = [];
  readonly #runtime: VirtualRuntime;

  constructor(store: Store, runtime: VirtualRuntime) {
    this.#runtime = runtime;
    this.store = new Proxy(store, {
      get: (target, name: keyof Store) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function" || name === "subscribe") {
          return typeof value === "function" ? value.bind(target) : value;
        }
        return (...args: unknown[]) => this.#call(name, () => Reflect.apply(value, target, args) as Promise<unknown>);
      },
    });
  }

  async #call(name: keyof Store, call: () => Promise<unknown>): Promise<unknown> {
    this.calls.push(name);
    await this.#pass(this.delay.get(name) ?? 0);
    const result = await call();
    const lose = this.loseReply.get(name) ?? 0;
    if (lose > 0) {
      this.loseReply.set(name, lose - 1);
      throw new StoreError("store_unavailable", `reply of ${name} lost`);
    }
    await this.#pass(this.delayReply.get(name) ?? 0);
    return result;
  }

  async #pass(ms: number): Promise<void> {
    if (ms > 0) await new Promise<void>((resolve) => this.#runtime.timer(ms, resolve));
    if (this.silent) await new Promise<never>(() => {});
    if (this.down) throw new StoreError("store_unavailable", "the database can't be reached");
  }
}

export interface Process {
  readonly server: Server;
  readonly runtime: VirtualRuntime;
  readonly link: Link;
  readonly logs: string[];
  /** Like SIGKILL: nothing of this process reaches the store any more. */
  kill(): void;
  /** Stops it in order and waits for the end of `run`. */
  stop(limit?: number): Promise<void>;
  /** Tells it to stop; `ended` says when `run` has returned. */
  term(): void;
  readonly ended: Promise<void>;
}

export type OpenStore = (runtime: Runtime) => Promise<Store>;

/** For tests of whole servers that run on each store. */
export const STORES: Readonly<Record<"memory" | "SQLite", OpenStore>> = {
  memory: (runtime) => MemoryStore.open({ runtime }),
  SQLite: (runtime) => SqliteStore.open({ path: ":memory:", runtime }),
};

export class World {
  readonly time: VirtualTime;
  readonly store: Store;
  readonly client: Client;
  readonly #runtime: VirtualRuntime;

  private constructor(time: VirtualTime, store: Store) {
    this.time = time;
    this.store = store;
    this.client = new Client(store);
    this.#runtime = time.runtime();
  }

  /** `buggify`: lines of defence of the store that are taken away. */
  static async make(buggify: readonly string[] = [], open: OpenStore = STORES.memory): Promise<World> {
    const time = new VirtualTime();
    return new World(time, await open(time.runtime({ buggify })));
  }

  /** `buggify`: lines of defence of the server that are taken away; `store`: this world's, as the server sees it. */
  start(
    handlers: readonly Handler[],
    config: Partial<ServerConfig> = {},
    buggify: readonly string[] = [],
    store: Store = this.store,
  ): Process {
    const runtime = this.time.runtime({ buggify });
    const link = new Link(store, runtime);
    const logs: string[] = [];
    const line = (message: string, fields?: object): number => logs.push(`${message} ${JSON.stringify(fields)}`);
    const logger: Logger = { debug: line, info: line, warn: line, error: line };
    const server = new Server(link.store, { handlers, queues: { default: 10 }, runtime, logger, ...config });
    const stop = new AbortController();
    const ended = server.run({ signal: stop.signal });
    return {
      ...{ server, runtime, link, logs, ended },
      kill: () => {
        link.silent = true;
      },
      term: () => stop.abort(),
      stop: async (limit = 5 * MINUTE) => {
        stop.abort();
        await this.time.settled(ended, limit);
      },
    };
  }

  /** What a handler does that works for `ms` milliseconds and obeys its signal, if it gets one. */
  async work(ms: number, signal?: AbortSignal): Promise<void> {
    await sleep(this.#runtime, ms, signal ?? new AbortController().signal);
    signal?.throwIfAborted();
  }

  async job(id: JobId): Promise<JobRecord> {
    const job = await this.store.job(id);
    assert.ok(job, `job ${id} exists`);
    return job;
  }

  /** Lets time pass until the job is in one of the states. */
  async reach(id: JobId, states: JobState | readonly JobState[], limit: number): Promise<JobRecord> {
    const wanted = [states].flat();
    const end = this.time.now + limit;
    for (;;) {
      const job = await this.job(id);
      if (wanted.includes(job.state)) return job;
      assert.ok(this.time.now < end, `job ${id} is ${job.state} after ${limit} ms, not ${wanted.join(" or ")}`);
      await this.time.advance(Math.min(10, end - this.time.now));
    }
  }
}
