/** A server that runs only while a test drains it, in time that passes only then. */
import { AssertionError } from "node:assert";
import { Client } from "../client.ts";
import { type Duration, formatDuration } from "../duration.ts";
import { ConflictError } from "../errors.ts";
import type { HandlerInterceptor } from "../job.ts";
import { LONGEST_DURATION } from "../rules/limits.ts";
import { type Runtime, systemRuntime } from "../runtime.ts";
import { resolveConfig, type ServerConfig } from "../server/config.ts";
import { Server } from "../server/server.ts";
import type { JobRef, JobState, Store } from "../store.ts";
import { MemoryStore } from "../stores/memory/index.ts";
import { Checker } from "../validate.ts";
import type { JobView } from "../view.ts";
import { VirtualTime } from "./virtual-time.ts";
import { type AttemptRun, WatchedStore } from "./watched-store.ts";

type OfTheServer = Pick<
  ServerConfig,
  "handlers" | "interceptors" | "backoff" | "timeout" | "killGrace" | "onDuration" | "logger"
>;

export interface TestServerOptions extends OfTheServer {
  /** Jobs of one queue that run at once, 1 to 10,000. Default 10. */
  readonly workers?: number;
  /**
   * For how much real time virtual time stands still for a running handler, and again once its signal is aborted; 0 to 1h,
   * default 1s. A handler that takes longer counts as one that waits for its signal, so that time passes and its timeout comes.
   */
  readonly patience?: Duration;
  /** A store that was opened with a runtime of `time`. Default: a memory store. Needs `time`. */
  readonly store?: Store;
  /** Default: a clock that starts at the real time. */
  readonly time?: VirtualTime;
}

export interface DrainOptions {
  /** Virtual time that may pass until all is done, at most a hundred years. Default 1d. */
  readonly limit?: Duration;
}

/** A job that ran, as it is after the drain, with what its attempts came to. */
export interface DrainedJob extends JobView {
  /** Those of this drain, oldest first. */
  readonly attempts: readonly AttemptRun[];
}

const SERVER_OPTIONS = [
  "handlers",
  "interceptors",
  "backoff",
  "timeout",
  "killGrace",
  "onDuration",
  "logger",
] as const satisfies readonly (keyof OfTheServer)[];
const OPTIONS = [...SERVER_OPTIONS, "workers", "patience", "store", "time"] as const;

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/**
 * Where there is one server nobody has to notice its death, and the store says when to look for jobs: with as little going
 * on as the limits allow, a day passes in a few milliseconds.
 */
const QUIET = { pollInterval: "1h", heartbeatInterval: "5m", deadAfter: "24h", maintenance: false } as const;
/** Running jobs are to end by themselves. */
const PATIENT = { shutdownTimeout: "24h" } as const;
const UNFINISHED = ["processing", "enqueued", "throttled", "scheduled"] as const satisfies readonly JobState[];
/** Jobs that a message shows. */
const SHOWN = 5;

/**
 * A client and a server on one store, for tests of whole flows of jobs. Nothing runs until `drain`.
 *
 *     const server = new TestServer({ handlers: [sendMail.handler(deliver)] });
 *     await signUp(server.client, "ada@example.com");
 *     const [mail] = await server.drain();
 *     assert.deepEqual(mail?.attempts.map(({ error }) => error), ["Error: mailbox is full", null]);
 *
 * Time is virtual: retries, delays and timeouts take none of the test's. What a handler does takes no virtual time: while
 * one runs, time stands still, so that it may read files, fetch or use timers of its own, for up to `patience` of real time.
 * Only the engine sees virtual time; `Date.now()` and the clock of a handler's own database do not.
 */
export class TestServer {
  /** To enqueue with. */
  readonly client: Client;
  readonly store: Store;
  /** Between drains a test may let it pass with `advance`, which runs no jobs. */
  readonly time: VirtualTime;
  readonly #config: ServerConfig;
  readonly #runtime: Runtime;
  readonly #patience: number;
  readonly #workers: number;
  readonly #kinds: readonly string[];
  /** Of the kinds' own definitions. */
  readonly #queues: readonly string[];
  #draining = false;

  /** @throws InvalidError naming every bad option */
  constructor(options: TestServerOptions) {
    const check = new Checker("can't make a test server", options ?? null, OPTIONS);
    check.required("handlers");
    this.#workers = check.integer("workers", { min: 1, max: 10_000, default: 10 });
    this.#patience = check.duration("patience", { min: 0, max: HOUR, default: 1_000 });
    const time = check.object<VirtualTime>("time", ["runtime", "hold", "reaches", "settled"]);
    const store = check.object<Store>("store", ["insert", "claim", "finish"]);
    if (store !== undefined && time === undefined) check.refuse("store", "needs the `time` that it was opened with");
    check.end();
    this.time = time ?? new VirtualTime({ start: systemRuntime.now() });
    this.#runtime = this.time.runtime();
    this.store = store ?? new MemoryStore({ runtime: this.#runtime });
    this.client = new Client(this.store, { runtime: this.#runtime });
    const given = SERVER_OPTIONS.filter((name) => check.has(name)).map((name) => [name, check.value(name)]);
    this.#config = { ...(Object.fromEntries(given) as unknown as OfTheServer), ...QUIET, ...PATIENT };
    const { handlers } = resolveConfig({ ...this.#config, queues: { default: 1 } });
    this.#kinds = [...handlers.keys()];
    this.#queues = [...handlers.values()].map(({ definition }) => definition.options.queue);
  }

  /**
   * Runs all jobs for which there is a handler until none is enqueued, scheduled or processing any more, those that they
   * enqueue included, and lets virtual time pass for it. Jobs of other kinds stay where they are. Resolves with the jobs
   * that ran, in the order in which their first attempts ended.
   * @throws AssertionError naming what is not done when `limit` has passed, or a job has had 1,000 attempts at one instant
   * @throws ConflictError while another drain is under way
   */
  async drain(options: DrainOptions = {}): Promise<DrainedJob[]> {
    const check = new Checker("can't drain", options, ["limit"]);
    const limit = check.duration("limit", { min: 0, max: LONGEST_DURATION, default: DAY });
    check.end();
    if (this.#draining) throw new ConflictError("another drain is under way");
    this.#draining = true;
    const drain = new Drain(this.time, this.store, this.#patience);
    try {
      await this.#runAll(drain, limit);
    } finally {
      await drain.stop();
      this.#draining = false;
    }
    return this.#result(drain);
  }

  async #runAll(drain: Drain, limit: number): Promise<void> {
    const end = this.time.now + limit;
    let inTime = true;
    for (;;) {
      await this.#serve(drain);
      const unfinished = await this.#unfinished();
      if (unfinished.length === 0) return;
      const { finishes, endless } = drain.watched;
      if (endless !== null)
        throw await this.#failure(`job ${endless} runs again and again, and no time passes`, unfinished);
      if (!inTime) throw await this.#failure(`not drained within ${formatDuration(limit)} of virtual time`, unfinished);
      inTime = await this.time.reaches(() => drain.watched.finishes > finishes, end - this.time.now);
    }
  }

  /** A server for all queues that have none yet. */
  async #serve(drain: Drain): Promise<void> {
    const used = (await this.store.queues()).map(({ name }) => name);
    const queues = [...this.#queues, ...used].filter((name) => !drain.served.has(name));
    if (queues.length === 0) return;
    const interceptors = [drain.interceptor, ...(this.#config.interceptors ?? [])];
    drain.start({
      ...this.#config,
      interceptors,
      runtime: this.time.runtime(),
      queues: Object.fromEntries(queues.map((name) => [name, this.#workers])),
    });
    for (const name of queues) drain.served.add(name);
  }

  /** The first few of each kind and state. */
  async #unfinished(): Promise<JobView[]> {
    const found: JobView[] = [];
    for (const state of UNFINISHED) {
      for (const kind of this.#kinds) {
        const { jobs } = await this.client.list({ state, kind, limit: SHOWN + 1 });
        found.push(...jobs);
      }
    }
    return found;
  }

  async #failure(what: string, jobs: readonly JobView[]): Promise<AssertionError> {
    const paused = new Set((await this.store.queues()).filter((queue) => queue.paused).map(({ name }) => name));
    const lines = jobs.slice(0, SHOWN).map((job) => `\n  ${describe(job, this.time.now, paused.has(job.queue))}`);
    const more = jobs.length > SHOWN ? "\n  and others" : "";
    const stackStartFn = this.drain as (...args: unknown[]) => unknown;
    return new AssertionError({ message: `${what}:${lines.join("")}${more}`, stackStartFn });
  }

  async #result({ watched }: Drain): Promise<DrainedJob[]> {
    const drained: DrainedJob[] = [];
    for (const [id, attempts] of watched.runs) {
      const job = await this.client.get(id);
      if (job !== null) drained.push({ ...job, attempts });
    }
    return drained;
  }
}

function describe(
  { id, kind, state, runAt, attempt, maxAttempts, ...job }: JobView,
  now: number,
  paused: boolean,
): string {
  const due = state === "scheduled" ? ` for ${formatDuration(runAt.getTime() - now)} from now` : "";
  const where = paused ? ` in the paused queue ${job.queue}` : "";
  const error = job.history.at(-1)?.error;
  const after = attempt > 0 ? `, attempt ${attempt} of ${maxAttempts}${error ? `: ${error}` : ""}` : "";
  return `job ${id}, ${kind}, ${state}${due}${where}${after}`;
}

/** The servers of one drain, and for which of their handlers time stands still. */
class Drain {
  readonly watched: WatchedStore;
  readonly served = new Set<string>();
  readonly #time: VirtualTime;
  readonly #patience: number;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>[] = [];
  /** By job: ends its hold on the clock. */
  readonly #holds = new Map<number, () => void>();

  constructor(time: VirtualTime, store: Store, patience: number) {
    this.#time = time;
    this.#patience = patience;
    this.watched = new WatchedStore(
      store,
      (job) => this.#hold(job),
      (job) => this.#release(job),
    );
  }

  /** A handler that was told to stop gets its time to do so. */
  readonly interceptor: HandlerInterceptor = async (job, { signal }, next) => {
    const hold = (): void => this.#hold(job);
    signal.addEventListener("abort", hold, { once: true });
    try {
      return await next();
    } finally {
      signal.removeEventListener("abort", hold);
    }
  };

  start(config: ServerConfig): void {
    const server = new Server(this.watched.store, config);
    this.#ended.push(server.run({ signal: this.#stop.signal }));
  }

  /** Lets running handlers end, and leaves nothing behind. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#time.settled(Promise.all(this.#ended), 3 * DAY);
    for (const release of [...this.#holds.values()]) release();
  }

  #hold({ id }: Pick<JobRef, "id">): void {
    this.#release({ id });
    if (this.#patience === 0) return;
    const release = this.#time.hold();
    const cancel = systemRuntime.timer(this.#patience, () => this.#release({ id }));
    this.#holds.set(id, () => {
      cancel();
      release();
    });
  }

  #release({ id }: Pick<JobRef, "id">): void {
    this.#holds.get(id)?.();
    this.#holds.delete(id);
  }
}
