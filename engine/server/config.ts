/** What a server can be told, its defaults, and the rules that it must keep. */
import { Client } from "../client.ts";
import { type Duration, formatDuration } from "../duration.ts";
import { Handler, type HandlerInterceptor } from "../job.ts";
import type { Logger } from "../logger.ts";
import { type Backoff, defaultBackoff } from "../retry.ts";
import { LONGEST_DURATION, QUEUE } from "../rules/limits.ts";
import { isName, QUEUE_RULE } from "../rules/values.ts";
import { type Runtime, systemRuntime } from "../runtime.ts";
import type { Retention } from "../store.ts";
import { Checker } from "../validate.ts";

export interface PoolConfig {
  /** In strict order unless there are weights: the first queue's jobs go before the second's. */
  readonly queues: readonly string[];
  /** Jobs of this pool that run at once, 1 to 10,000. */
  readonly workers: number;
  /** Under load a queue comes first in proportion to its weight, 1 to 1,000; queues not named have weight 1. */
  readonly weights?: Readonly<Record<string, number>>;
}

/** All durations are milliseconds or strings such as `"30s"`. */
export interface ServerConfig {
  /** What this server can run; it claims no other kinds. At least one. */
  readonly handlers: readonly Handler[];
  /** A pool of its own for each queue: name to workers. Needs this or `pools`. */
  readonly queues?: Readonly<Record<string, number>>;
  /** Pools that share workers among several queues. A queue may be in one pool only. */
  readonly pools?: readonly PoolConfig[];
  /** Most jobs that one claim asks for, 1 to 500. Default: the pool's workers, at most 500. */
  readonly fetchBatch?: number;
  /** Start of the server's id. Default: the host's name. */
  readonly name?: string;
  /** How often an idle pool looks for work when nothing wakes it. 10ms to 1h, default 1s. */
  readonly pollInterval?: Duration;
  /** How often the server reports that it is alive, one write each time. 100ms to 5m, default 5s. */
  readonly heartbeatInterval?: Duration;
  /**
   * Silence after which the server's running jobs are retried elsewhere. More than 3 × heartbeatInterval + killGrace + 5s,
   * at most 24h, default 60s.
   */
  readonly deadAfter?: Duration;
  /** Lease of the leader, which fires recurring jobs, rescues, sweeps and prunes. 1s to 10m, default 15s. */
  readonly leaderTtl?: Duration;
  /** How long `run` waits for running jobs once it is told to stop. 0 to 24h, default 30s. */
  readonly shutdownTimeout?: Duration;
  /** What a handler gets to return once its signal is aborted, before it is abandoned. 0 to 1h, default 5s. */
  readonly killGrace?: Duration;
  /** For attempts of jobs and kinds that name none; false = none. At least 1ms, default 30m. */
  readonly timeout?: Duration | false;
  /** A job of a kind without a handler fails at this age. Default 24h. */
  readonly unknownKindTtl?: Duration;
  /** How long ended jobs are kept; false = forever. Default 24h, failed ones forever. */
  readonly retention?: {
    readonly succeeded?: Duration | false;
    readonly deleted?: Duration | false;
    readonly failed?: Duration | false;
  };
  /** Wait of kinds that name none. Default `defaultBackoff`. */
  readonly backoff?: Backoff;
  /** Take part in electing the leader. Default true; at least one server of a store must. */
  readonly maintenance?: boolean;
  /**
   * What handlers get to enqueue with, each a copy for its claim; for one that has interceptors. Must be a `Client` (no object
   * like it, and of no subclass) of the server's database. Default: a plain client of the server's store.
   */
  readonly client?: Client;
  /** Run around every handler, the first outermost. */
  readonly interceptors?: readonly HandlerInterceptor[];
  /** Called with the wall time of every handler run, successful or not. Must not block; what it throws is logged. */
  readonly onDuration?: (run: HandlerRun) => void;
  /** Default: silent. */
  readonly logger?: Logger;
  /** Clock, timers and randomness. Default: the system's. */
  readonly runtime?: Runtime;
}

/** One run of a handler. */
export interface HandlerRun {
  readonly kind: string;
  readonly queue: string;
  /** The handler returned. */
  readonly succeeded: boolean;
  /** Milliseconds. */
  readonly duration: number;
}

export interface Pool {
  readonly queues: readonly string[];
  readonly workers: number;
  readonly fetchBatch: number;
  /** Null = strict order. */
  readonly weights: ReadonlyMap<string, number> | null;
}

/** `ServerConfig` with all defaults filled in and all durations in milliseconds. */
export interface ResolvedConfig {
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly pools: readonly Pool[];
  readonly name: string;
  readonly pollInterval: number;
  readonly heartbeatInterval: number;
  readonly deadAfter: number;
  readonly leaderTtl: number;
  readonly shutdownTimeout: number;
  readonly killGrace: number;
  /** 0 = none. */
  readonly timeout: number;
  readonly unknownKindTtl: number;
  readonly retention: Retention;
  readonly backoff: Backoff;
  readonly maintenance: boolean;
  /** Null = a plain client of the server's store. */
  readonly client: Client | null;
  readonly interceptors: readonly HandlerInterceptor[];
  readonly onDuration: (run: HandlerRun) => void;
  readonly logger: Logger;
  readonly runtime: Runtime;
}

const FIELDS = [
  "handlers",
  "queues",
  "pools",
  "fetchBatch",
  "name",
  "pollInterval",
  "heartbeatInterval",
  "deadAfter",
  "leaderTtl",
  "shutdownTimeout",
  "killGrace",
  "timeout",
  "unknownKindTtl",
  "retention",
  "backoff",
  "maintenance",
  "client",
  "interceptors",
  "onDuration",
  "logger",
  "runtime",
] as const satisfies readonly (keyof ServerConfig)[];
type Check = Checker<(typeof FIELDS)[number]>;

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MAX_WORKERS = 10_000;
const MAX_WEIGHT = 1_000;
const MAX_FETCH_BATCH = 500;
const MAX_NAME_BYTES = 200;

/** @throws InvalidError naming every problem of the config */
export function resolveConfig(config: ServerConfig): ResolvedConfig {
  const check: Check = new Checker("can't make a server", config, FIELDS);
  check.required("handlers");
  const runtime = check.object<Runtime>("runtime", RUNTIME_METHODS) ?? systemRuntime;
  const silent = (): void => {};
  const resolved: ResolvedConfig = {
    handlers: readHandlers(check),
    pools: readPools(check),
    name: check.text("name", { maxBytes: MAX_NAME_BYTES, default: runtime.host?.hostname ?? "" }),
    ...readLiveness(check),
    pollInterval: check.duration("pollInterval", { min: 10, max: HOUR, default: SECOND }),
    leaderTtl: check.duration("leaderTtl", { min: SECOND, max: 10 * MINUTE, default: 15 * SECOND }),
    shutdownTimeout: check.duration("shutdownTimeout", { min: 0, max: DAY, default: 30 * SECOND }),
    timeout: check.duration("timeout", { min: 1, max: LONGEST_DURATION, off: 0, default: 30 * MINUTE }),
    unknownKindTtl: check.duration("unknownKindTtl", { min: 0, max: LONGEST_DURATION, default: DAY }),
    retention: readRetention(check),
    backoff: check.function<Backoff>("backoff") ?? defaultBackoff,
    maintenance: check.boolean("maintenance", { default: true }),
    client: readClient(check),
    interceptors: readInterceptors(check),
    onDuration: check.function<(run: HandlerRun) => void>("onDuration") ?? silent,
    logger: check.object<Logger>("logger", ["debug", "info", "warn", "error"]) ?? {
      debug: silent,
      info: silent,
      warn: silent,
      error: silent,
    },
    runtime,
  };
  if (runtime.host === undefined) check.refuse("runtime", "must have a host");
  check.end();
  return resolved;
}

const RUNTIME_METHODS = [
  "now",
  "monotonic",
  "timer",
  "turn",
  "random",
  "randomHex",
  "onSignal",
  "buggify",
  "mark",
  "invariant",
] as const satisfies readonly (keyof Runtime)[];

/** A fenced server must have let go of its jobs, with three chances to be heard, before others may take them. */
function readLiveness(check: Check): Pick<ResolvedConfig, "heartbeatInterval" | "killGrace" | "deadAfter"> {
  const before = check.problems.count;
  const heartbeatInterval = check.duration("heartbeatInterval", { min: 100, max: 5 * MINUTE, default: 5 * SECOND });
  const killGrace = check.duration("killGrace", { min: 0, max: HOUR, default: 5 * SECOND });
  const deadAfter = check.duration("deadAfter", { min: 0, max: DAY, default: MINUTE });
  const bound = 3 * heartbeatInterval + killGrace + 5 * SECOND;
  if (deadAfter <= bound && check.problems.count === before) {
    const rule = `must exceed 3 × heartbeatInterval + killGrace + 5s, which is ${formatDuration(bound)}`;
    check.problems.add("deadAfter", formatDuration(deadAfter), rule);
  }
  return { heartbeatInterval, killGrace, deadAfter };
}

function readHandlers(check: Check): Map<string, Handler> {
  const handlers = new Map<string, Handler>();
  const given = check.array("handlers");
  if (given?.length === 0) check.refuse("handlers", "must have at least one handler");
  given?.forEach((handler, index) => {
    const field = `handlers[${index}]`;
    if (!Handler.is(handler)) {
      check.problems.add(field, handler, "must be a handler, as made by `defineJob(…).handler(…)`");
      return;
    }
    const { kind } = handler.definition;
    if (handlers.has(kind)) check.problems.add(field, kind, "must be the only handler of its kind");
    handlers.set(kind, handler);
  });
  return handlers;
}

function readPools(check: Check): Pool[] {
  const most = check.integer("fetchBatch", { min: 1, max: MAX_FETCH_BATCH, default: MAX_FETCH_BATCH });
  const pools: Pool[] = [];
  const seen = new Set<string>();
  const queue = (field: string, name: unknown): void => {
    if (!isName(name, QUEUE)) check.problems.add(field, name, QUEUE_RULE);
    else if (seen.has(name)) check.problems.add(field, name, "must be in one pool only");
    else seen.add(name);
  };
  for (const pool of check.items("pools", ["queues", "workers", "weights"]) ?? []) {
    pool.required("queues", "workers");
    const workers = pool.integer("workers", { min: 1, max: MAX_WORKERS, default: 1 });
    const queues = (pool.array("queues") ?? []) as string[];
    if (pool.has("queues") && queues.length === 0) pool.refuse("queues", "must name at least one queue");
    queues.forEach((name, index) => {
      queue(`${pool.field("queues")}[${index}]`, name);
    });
    pools.push({ queues, workers, fetchBatch: Math.min(workers, most), weights: readWeights(pool, queues) });
  }
  const single = check.record("queues");
  for (const name of [...(single?.keys ?? [])].sort()) {
    queue(check.field("queues"), name);
    const workers = single?.integer(name, { min: 1, max: MAX_WORKERS, default: 1 }) ?? 1;
    pools.push({ queues: [name], workers, fetchBatch: Math.min(workers, most), weights: null });
  }
  if (pools.length === 0) check.problems.add("queues", undefined, "or pools must name at least one queue");
  return pools;
}

function readWeights(pool: Checker<"queues" | "workers" | "weights">, queues: readonly string[]): Pool["weights"] {
  const given = pool.record("weights");
  if (given === undefined) return null;
  const weights = new Map<string, number>();
  for (const name of given.keys) {
    if (!queues.includes(name)) given.refuse(name, "must be a queue of its pool");
    weights.set(name, given.integer(name, { min: 1, max: MAX_WEIGHT, default: 1 }));
  }
  return weights;
}

function readRetention(check: Check): Retention {
  const given = check.record("retention", ["succeeded", "deleted", "failed"]);
  const read = (name: keyof Retention, normal: number | null): number | null => {
    // Apart from `duration`, for which false would be a length of time.
    if (given?.value(name) === false) return null;
    return given?.duration(name, { min: 0, max: LONGEST_DURATION, off: 0, default: normal }) ?? normal;
  };
  return { succeeded: read("succeeded", DAY), deleted: read("deleted", DAY), failed: read("failed", null) };
}

function readClient(check: Check): Client | null {
  const client = check.value("client");
  if (client === undefined || Client.is(client)) return client ?? null;
  check.refuse("client", "must be a Client, and of no subclass");
  return null;
}

function readInterceptors(check: Check): HandlerInterceptor[] {
  const given = check.array("interceptors") ?? [];
  given.forEach((interceptor, index) => {
    if (typeof interceptor !== "function")
      check.problems.add(`interceptors[${index}]`, interceptor, "must be a function");
  });
  return given as HandlerInterceptor[];
}
