/**
 * A server claims jobs and runs them. Data moves one way:
 *
 *     store.claim → Claimer (one per pool) → Attempt → Completer → store.finish
 *
 * Beside it: Heartbeat (alive, fencing, lost claims), Leader (recurring jobs, rescue, sweep, prune), Listener (wake-ups).
 */

import { Background, settlesWithin, withDeadline } from "../async.ts";
import { Client } from "../client.ts";
import { ConflictError, ShutdownError } from "../errors.ts";
import { invalid } from "../problems.ts";
import type { ClaimedJob, JobRef, ServerInfo, Store } from "../store.ts";
import { Checker, hasMethods, isAbortSignal } from "../validate.ts";
import { Attempts } from "./attempts.ts";
import { Claimer } from "./claimer.ts";
import { Completer } from "./completer.ts";
import { type ResolvedConfig, resolveConfig, type ServerConfig } from "./config.ts";
import { CONSOLE_DEADLINE } from "./console.ts";
import { EVENT_BUFFER, Events, type ServerEvent } from "./events.ts";
import { Faults } from "./faults.ts";
import { type Health, healthOf } from "./health.ts";
import { Heartbeat } from "./heartbeat.ts";
import { Leader } from "./leader.ts";
import { Listener } from "./listener.ts";
import { LoopWatch } from "./loop-watch.ts";
import { Runner } from "./runner.ts";
import { Counters, type ServerStats } from "./stats.ts";

/** What the last results get to be stored in, milliseconds. */
const DRAIN_DEADLINE = 15_000;
const UNREGISTER_DEADLINE = 5_000;
const LEAST_OUTCOMES = 1_000;

export class Server {
  readonly #store: Store;
  readonly #config: ResolvedConfig;
  readonly #faults: Faults;
  readonly #events = new Events();
  readonly #counters = new Counters();
  readonly #attempts = new Attempts();
  readonly #completer: Completer;
  readonly #heartbeat: Heartbeat;
  readonly #loopWatch: LoopWatch;
  readonly #claimers: readonly Claimer[];
  readonly #leader: Leader;
  readonly #listener: Listener;
  readonly #runner: Runner;
  readonly #claimsInFlight = new Set<number>();
  #claims = 0;
  #state: "new" | "running" | "stopping" | "stopped" = "new";

  /** @throws InvalidError naming every problem of the config */
  constructor(store: Store, config: ServerConfig) {
    checkStore(store);
    this.#store = store;
    this.#config = resolveConfig(config);
    const { runtime, logger } = this.#config;
    this.#faults = new Faults(runtime, logger);
    this.#heartbeat = this.#makeHeartbeat();
    this.#loopWatch = new LoopWatch(runtime, this.#faults, this.#attempts, this.#config.heartbeatInterval);
    const capacity = Math.max(this.#capacity, LEAST_OUTCOMES);
    const server = (): string => this.id;
    this.#completer = new Completer({ runtime, store, faults: this.#faults, server, capacity });
    this.#claimers = this.#makeClaimers();
    this.#leader = this.#makeLeader();
    this.#listener = new Listener(store, this.#claimers, this.#attempts, this.#heartbeat, this.#leader);
    this.#runner = this.#makeRunner();
  }

  /**
   * `<name>-<pid>-<8 hex digits>`, unique per start. A server that was declared dead while it was out of reach goes on
   * under a new id.
   */
  get id(): string {
    return this.#heartbeat.id;
  }

  /**
   * Runs jobs until `signal` aborts; then claims nothing more, waits up to `shutdownTimeout` for running jobs, aborts the
   * rest, hands back what does not finish, and resolves with nothing left behind. A store that can't be reached is waited
   * for, not an error.
   * @throws ConflictError when called a second time
   * @throws InvalidError for a signal that is none
   */
  async run(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const signal = readSignal(options);
    if (this.#state !== "new") throw new ConflictError("a server runs once; make a new one to run again");
    this.#state = "running";
    const { runtime } = this.#config;
    const work = new Background((name, error) => this.#faults.report(name, error));
    const beating = new AbortController();
    const leading = new AbortController();
    work.start("heartbeat", () => this.#heartbeat.run(beating.signal));
    work.start("loop watch", () => this.#loopWatch.run(beating.signal));
    if (this.#config.maintenance) work.start("leader", () => this.#leader.run(leading.signal));
    const claiming = new Background((name, error) => this.#faults.report(name, error));
    for (const claimer of this.#claimers) claiming.start("claimer", () => claimer.run());
    this.#listener.start();

    await aborted(signal);

    this.#state = "stopping";
    leading.abort();
    for (const claimer of this.#claimers) claimer.stop();
    const idle = Promise.all([claiming.idle(), ...this.#claimers.map((claimer) => claimer.idle())]);
    if (!(await settlesWithin(runtime, this.#config.shutdownTimeout, idle))) {
      for (const attempt of this.#attempts) attempt.abort(new ShutdownError("the server is stopping"));
      // Whoever ignores the signal is abandoned after killGrace, and what it has logged is stored before its result; only
      // results that can't be stored take longer.
      const { killGrace, heartbeatInterval } = this.#config;
      await settlesWithin(runtime, killGrace + CONSOLE_DEADLINE + heartbeatInterval, idle);
    }
    await this.#completer.drain(DRAIN_DEADLINE);
    await idle;
    beating.abort();
    await work.idle();
    await this.#listener.stop();
    await this.#unregister();
    this.#state = "stopped";
    this.#events.close();
  }

  /** `run` until the process gets SIGTERM or SIGINT. A second signal then ends the process as it would without kiln. */
  async runUntilSignal(): Promise<void> {
    const stop = new AbortController();
    const off = this.#config.runtime.onSignal(["SIGTERM", "SIGINT"], () => {
      off();
      stop.abort();
    });
    try {
      await this.run({ signal: stop.signal });
    } finally {
      off();
    }
  }

  /**
   * Every transition that this server drives, from now until it has stopped. Up to `buffer` events (default 1,000) wait
   * for a slow reader; beyond that they are dropped, and a `dropped` event says how many.
   */
  events(options: { readonly buffer?: number } = {}): AsyncIterableIterator<ServerEvent> {
    const check = new Checker("can't subscribe", options, ["buffer"]);
    const buffer = check.integer("buffer", { min: 1, max: Number.MAX_SAFE_INTEGER, default: EVENT_BUFFER });
    check.end();
    return this.#events.subscribe(buffer);
  }

  /** For readiness and liveness probes. */
  healthy(): Health {
    const running = this.#state === "running" || this.#state === "stopping";
    return healthOf(running, this.stats(), this.#completer.oldest, this.#config.deadAfter);
  }

  stats(): ServerStats {
    return {
      ...this.#counters,
      faults: this.#faults.count,
      loopBlocks: this.#loopWatch.blocks,
      inFlight: this.#claimers.reduce((sum, claimer) => sum + claimer.running, 0),
      capacity: this.#capacity,
      pending: this.#completer.pending,
      heartbeatAge: this.#heartbeat.age,
      leader: this.#leader.leading,
      fenced: this.#heartbeat.fenced,
      listening: this.#listener.listening,
    };
  }

  get #capacity(): number {
    return this.#config.pools.reduce((sum, pool) => sum + pool.workers, 0);
  }

  #makeHeartbeat(): Heartbeat {
    const { runtime, heartbeatInterval, deadAfter, killGrace } = this.#config;
    return new Heartbeat({
      runtime,
      store: this.#store,
      faults: this.#faults,
      attempts: this.#attempts,
      describe: () => this.#describe(),
      interval: heartbeatInterval,
      fenceAfter: deadAfter - heartbeatInterval - killGrace,
      claimsInFlight: this.#claimsInFlight,
      onReady: () => {
        for (const claimer of this.#claimers) claimer.wake(0);
      },
      onLost: (lease) => this.#runner.handBackLost(lease),
      onFenced: () => {
        this.#counters.fencedHandlers += 1;
      },
    });
  }

  #makeClaimers(): Claimer[] {
    const { runtime, pools, handlers, pollInterval, heartbeatInterval } = this.#config;
    const deps = {
      runtime,
      store: this.#store,
      faults: this.#faults,
      heartbeat: this.#heartbeat,
      kinds: [...handlers.keys()].sort(),
      pollInterval,
      claimDeadline: heartbeatInterval,
      nextSequence: () => ++this.#claims,
      claimsInFlight: this.#claimsInFlight,
      start: (job: ClaimedJob, claimSent: number) => this.#runner.run(job, claimSent),
      handBack: (jobs: readonly ClaimedJob[]) =>
        this.#runner.handBack(jobs, this.#state === "running" ? "lost" : "shutdown"),
    };
    return pools.map((pool) => new Claimer(deps, pool));
  }

  #makeLeader(): Leader {
    const { runtime, leaderTtl, deadAfter, heartbeatInterval, retention, handlers, backoff } = this.#config;
    return new Leader({
      runtime,
      store: this.#store,
      faults: this.#faults,
      server: () => this.id,
      ttl: leaderTtl,
      rescueDelay: deadAfter + heartbeatInterval,
      // Twice per heartbeat, so that a dead server is noticed well within one.
      rescueInterval: heartbeatInterval / 2,
      retention,
      rescuePolicy: {
        backoffOf: (kind) => handlers.get(kind)?.definition.options.backoff ?? backoff,
        random: () => runtime.random(),
      },
      onRescued: (orphan, outcome, state) => this.#runner.rescued(orphan, outcome, state),
    });
  }

  #makeRunner(): Runner {
    const { runtime, logger, interceptors, killGrace, timeout } = this.#config;
    const store = this.#store;
    const client = this.#config.client ?? new Client(store, { runtime });
    const clientFor = (ref: JobRef): Client => Client.whileHeld(client, ref);
    return new Runner({
      config: this.#config,
      attempt: { runtime, store, clientFor, logger, faults: this.#faults, interceptors, killGrace, timeout },
      attempts: this.#attempts,
      completer: this.#completer,
      heartbeat: this.#heartbeat,
      events: this.#events,
      counters: this.#counters,
      faults: this.#faults,
    });
  }

  #describe(): ServerInfo {
    const { runtime, name, pools, handlers, deadAfter, heartbeatInterval } = this.#config;
    const { hostname, pid, version } = runtime.host;
    return {
      id: `${name}-${pid}-${runtime.randomHex(4)}`,
      hostname,
      pid,
      version,
      queues: pools.flatMap((pool) => pool.queues),
      kinds: [...handlers.keys()].sort(),
      workers: this.#capacity,
      // A server may die any time between two beats: counted from the last one, this is `deadAfter` after the latest moment
      // at which it can have died.
      deadAfter: deadAfter + heartbeatInterval,
    };
  }

  async #unregister(): Promise<void> {
    const { runtime } = this.#config;
    try {
      await withDeadline(runtime, "unregister", UNREGISTER_DEADLINE, () => this.#store.unregister(this.id));
    } catch (error) {
      this.#faults.report("unregister", error);
    }
  }
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    signal?.addEventListener("abort", () => resolve(), { once: true });
  });
}

function readSignal(options: unknown): AbortSignal | undefined {
  const check = new Checker("can't run", options, ["signal"]);
  const signal = check.value("signal");
  if (signal !== undefined && !isAbortSignal(signal)) check.refuse("signal", "must be an AbortSignal");
  check.end();
  return signal as AbortSignal | undefined;
}

function checkStore(store: unknown): asserts store is Store {
  if (hasMethods(store, ["claim", "finish"])) return;
  throw invalid("can't make a server", "store", store, "must be a store");
}
