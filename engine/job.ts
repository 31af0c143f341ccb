/** Jobs as users define them, and what their handlers are given. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Client } from "./client.ts";
import type { Duration } from "./duration.ts";
import type { SpecOptions } from "./enqueue.ts";
import type { Decoded } from "./json.ts";
import { LIMIT_OPTIONS, type LimitOptions, readLimit } from "./limit.ts";
import type { Logger } from "./logger.ts";
import { invalid, Problems, readName } from "./problems.ts";
import type { RecurringOptions } from "./recurring.ts";
import type { Backoff } from "./retry.ts";
import { ATTEMPTS, KIND, LONGEST_DURATION, PRIORITY, QUEUE } from "./rules/limits.ts";
import type { Occurrence } from "./rules/recurring.ts";
import { shown } from "./rules/text.ts";
import { KIND_RULE, QUEUE_RULE } from "./rules/values.ts";
import { isSchema } from "./schema.ts";
import type { BatchId, JobId, Limit, Writer } from "./store.ts";
import { Checker } from "./validate.ts";

export const DEFAULT_QUEUE = "default";
export const DEFAULT_MAX_ATTEMPTS = 10;

/** How all jobs of a kind behave, unless a call of `enqueue` says otherwise. */
export interface JobOptions<Input = unknown> {
  /** Default `"default"`. */
  readonly queue?: string;
  /** Higher runs first; an integer from -32768 to 32767, default 0. */
  readonly priority?: number;
  /** An integer from 1 to 32767, default 10. */
  readonly maxAttempts?: number;
  /** How long a failed job waits. Default: the server's, which is `defaultBackoff`. */
  readonly backoff?: Backoff;
  /** For one attempt, at least 1ms; false = none. Default: the server's, which is 30m. */
  readonly timeout?: Duration | false;
  /** An attempt that gives no sign of life for so long is aborted and retried; at least 1ms. Default: no such check. */
  readonly stallTimeout?: Duration;
  /** How many of these jobs may run at once, and start in a time. Default: no limit. */
  readonly limit?: LimitOptions;
  /** What lists show instead of the kind, cut to 200 bytes; may be made of the args. Default: none. */
  readonly title?: string | ((args: Input) => string);
}

/** `JobOptions` with all durations in milliseconds and all defaults filled in. */
export interface ResolvedJobOptions {
  readonly queue: string;
  readonly priority: number;
  readonly maxAttempts: number;
  /** Null = the server's. */
  readonly backoff: Backoff | null;
  /** 0 = none, null = the server's. */
  readonly timeout: number | null;
  /** Null = none. */
  readonly stallTimeout: number | null;
  /** Null = none. */
  readonly limit: Limit | null;
  readonly title: string | ((args: never) => string) | null;
}

/** A `JobDefinition` of whatever types. */
export interface AnyJobDefinition {
  readonly kind: string;
  readonly options: ResolvedJobOptions;
  readonly schema: StandardSchemaV1 | null;
}

export interface SetParamOptions {
  /** A transaction of the application's, as `Store.transaction` gives it. Default: the checkpoint is stored by itself. */
  readonly within?: Writer;
}

/** A job while it runs. */
export interface Job<Args = unknown> {
  readonly id: JobId;
  readonly kind: string;
  readonly queue: string;
  readonly args: Args;
  readonly priority: number;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly createdAt: Date;
  /** When it became due. */
  readonly runAt: Date;
  readonly deadline: Date | null;
  readonly title: string | null;
  readonly tags: readonly string[];
  readonly meta: Readonly<Record<string, string>>;
  /** The recurring job that this is a run of, or null. */
  readonly recurringId: string | null;
  /** Which occurrence of the recurring job this run is for; null also when it was triggered. */
  readonly occurrence: Occurrence | null;
  /** Jobs that it has waited for. */
  readonly parents: readonly JobId[];
  /** The batch that it is a member of, or null. */
  readonly batch: BatchId | null;

  /** What those parents returned that have succeeded and returned something, by their id. */
  parentOutputs(): Promise<Map<JobId, unknown>>;
  /** A checkpoint that this or an earlier attempt saved with `setParam`; undefined when there is none. */
  param<Value = unknown>(key: string): Value | undefined;
  /**
   * Saves a checkpoint, a JSON value of at most 1 MiB under a key of at most 256 bytes; resolves when it is stored. Also a
   * sign of life.
   *
   * With `within` it is stored if and when that transaction is committed. Whether it was is not known here: `param` shows
   * what it showed before, and the new value from the next attempt on. Let what is thrown roll the transaction back: then
   * the effect and its checkpoint happen both or not at all, and only while this attempt holds the job.
   * @throws ClaimLostError when this attempt no longer holds the job; InvalidError when the value is not JSON or the key no
   * such text; with `within` also StoreError, for that is not tried again
   */
  setParam(key: string, value: unknown, options?: SetParamOptions): Promise<void>;
  /**
   * Adds a line to the job's console, which `Client.console` shows, and is a sign of life. One newline at its end is dropped,
   * and it is cut to 4 KiB. An attempt may log 1,000 lines; then one says that the rest is missing. Waits for nothing and
   * never throws: lines are written within a quarter of a second and before the job ends, and dropped while the store fails.
   */
  log(message: string): void;
  /**
   * Says how far the job is, in percent; less than 0 counts as 0, more than 100 as 100, and NaN is ignored. Shown as
   * `JobView.progress`. Written like a line, and a sign of life too.
   */
  progress(percent: number): void;
  /** Says that the handler is alive: starts `stallTimeout` anew. */
  heartbeat(): void;
}

export interface HandlerContext {
  /**
   * Aborts when the attempt should end. Its `reason` says why: `CancelledError`, `TimeoutError`, `StallError`,
   * `ShutdownError` or `FencedError`.
   */
  readonly signal: AbortSignal;
  /**
   * For enqueueing more jobs. Its `enqueue`, `enqueueMany`, `startBatch` and `openBatch`, also `within` a transaction, add
   * nothing and throw `ClaimLostError` once this attempt no longer holds the job: when the job was taken away, because the
   * next attempt adds its own, and when the attempt has ended. So await each call; what is to enqueue later, and into another
   * database, needs a client of yours.
   */
  readonly client: Client;
  /** The server's, with the job's kind, id and attempt added. */
  readonly logger: Logger;
}

/**
 * Does the job. What it returns is the job's output: JSON of at most 1 MiB, undefined = none. When it throws, the job is
 * retried; `snooze`, `PermanentError` and `CancelledError` say otherwise.
 */
export type HandlerFunction<Args, Output> = (job: Job<Args>, context: HandlerContext) => Output | Promise<Output>;

/** Runs around every handler; calls `next` once and returns what comes of it. The first given is the outermost. */
export type HandlerInterceptor = (
  job: Job<unknown>,
  context: HandlerContext,
  next: () => Promise<unknown>,
) => Promise<unknown>;

/** A handler together with the kind of job that it is for. Made by `JobDefinition.handler`. */
export class Handler<Input = unknown, Args = Input, Output = unknown> {
  readonly definition: JobDefinition<Input, Args, Output>;
  readonly #run: (job: Job<never>, context: HandlerContext) => unknown;

  constructor(
    definition: JobDefinition<Input, Args, Output>,
    run: (job: Job<never>, context: HandlerContext) => unknown,
  ) {
    this.definition = definition;
    this.#run = run;
    Object.freeze(this);
  }

  static is(value: unknown): value is Handler {
    return typeof value === "object" && value !== null && #run in value;
  }

  /** Calls the handler's function. `job.args` must come from `decodeArgs` of `schema.ts`. */
  async run(job: Job<unknown>, context: HandlerContext): Promise<unknown> {
    return this.#run(job as Job<never>, context);
  }
}

/** One job to enqueue, with args that fit its kind. Made by `JobDefinition.spec`. */
export class JobSpec {
  readonly definition: AnyJobDefinition;
  readonly args: unknown;
  readonly options: SpecOptions | undefined;
  readonly #genuine = true;

  constructor(definition: AnyJobDefinition, args: unknown, options: SpecOptions | undefined) {
    this.definition = definition;
    this.args = args;
    this.options = options;
  }

  static is(value: unknown): value is JobSpec {
    return typeof value === "object" && value !== null && #genuine in value;
  }
}

/** One recurring job for `Client.syncRecurring`. Made by `JobDefinition.recurring`. */
export class RecurringSpec {
  readonly id: string;
  readonly definition: AnyJobDefinition;
  readonly args: unknown;
  readonly options: RecurringOptions;
  readonly #genuine = true;

  constructor(id: string, definition: AnyJobDefinition, args: unknown, options: RecurringOptions) {
    this.id = id;
    this.definition = definition;
    this.args = args;
    this.options = options;
  }

  static is(value: unknown): value is RecurringSpec {
    return typeof value === "object" && value !== null && #genuine in value;
  }
}

/**
 * A kind of job: its name, the type of its args and how it behaves. `Input` is what `enqueue` takes, `Args` what the
 * handler gets (with a schema: after its transforms and defaults), `Output` what the handler returns.
 */
export class JobDefinition<Input, Args = Input, Output = unknown> implements AnyJobDefinition {
  readonly kind: string;
  readonly options: ResolvedJobOptions;
  readonly schema: StandardSchemaV1 | null;
  readonly #genuine = true;

  /** Use `defineJob`. */
  constructor(kind: string, options: ResolvedJobOptions, schema: StandardSchemaV1 | null) {
    this.kind = kind;
    this.options = Object.freeze(options);
    this.schema = schema;
    Object.freeze(this);
  }

  static is(value: unknown): value is AnyJobDefinition {
    return typeof value === "object" && value !== null && #genuine in value;
  }

  /** Says what to do with jobs of this kind; goes into `ServerConfig.handlers`. @throws InvalidError */
  handler(run: HandlerFunction<Args, Output>): Handler<Input, Args, Output> {
    if (typeof run !== "function") {
      throw invalid(`bad handler of ${this.kind}`, "handler", run, "must be a function");
    }
    return new Handler(this, run);
  }

  /** One job for `Client.enqueueMany`, which also checks it. */
  spec(args: Input, options?: SpecOptions): JobSpec {
    return new JobSpec(this, args, options);
  }

  /** One recurring job for `Client.syncRecurring`, which also checks it. */
  recurring(id: string, args: Input, options: RecurringOptions): RecurringSpec {
    return new RecurringSpec(id, this, args, options);
  }
}

/** What `enqueue` takes, for the type parameter of `defineJob`. */
export type InputOf<Args> = Args extends StandardSchemaV1 ? StandardSchemaV1.InferInput<Args> : Args;

/** What the handler gets, for the type parameter of `defineJob`. */
export type ArgsOf<Args> = Args extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<Args> : Decoded<Args>;

/**
 * Defines a kind of job. `options.args` is a schema for its args (zod, valibot, arktype: anything that speaks Standard
 * Schema), and all types follow from it. Without a schema, `defineJob<Args>("kind")` says what the args are; they are not
 * checked then, apart from being JSON, and the handler gets them as they come back from it: a `Date`, for example, as a
 * string. A job without args takes `{}`.
 * @throws InvalidError naming every bad option
 */
export function defineJob<Args = Record<string, never>, Output = unknown>(
  kind: string,
  options?: JobOptions<InputOf<Args>> & { readonly args?: Args extends StandardSchemaV1 ? Args : never },
): JobDefinition<InputOf<Args>, ArgsOf<Args>, Output> {
  const problems = new Problems();
  readName(problems, "kind", kind, KIND, KIND_RULE);
  const check = new Checker(`can't define job ${shown(kind)}`, options, JOB_OPTIONS, { path: "", problems });
  const resolved: ResolvedJobOptions = {
    queue: check.name("queue", QUEUE, QUEUE_RULE, { default: DEFAULT_QUEUE }),
    priority: check.integer("priority", { ...PRIORITY, default: 0 }),
    maxAttempts: check.integer("maxAttempts", { ...ATTEMPTS, default: DEFAULT_MAX_ATTEMPTS }),
    backoff: check.function<Backoff>("backoff") ?? null,
    timeout: check.duration("timeout", { min: 1, max: LONGEST_DURATION, off: 0, default: null }),
    stallTimeout: check.duration("stallTimeout", { min: 1, max: LONGEST_DURATION, default: null }),
    limit: readLimit(check.record("limit", LIMIT_OPTIONS), kind),
    title: readTitle(check),
  };
  const schema = check.value("args");
  if (schema !== undefined && !isSchema(schema))
    check.refuse("args", "must be a Standard Schema (zod, valibot, arktype)");
  check.end();
  return new JobDefinition(kind, resolved, isSchema(schema) ? schema : null);
}

const JOB_OPTIONS = [
  "args",
  "queue",
  "priority",
  "maxAttempts",
  "backoff",
  "timeout",
  "stallTimeout",
  "limit",
  "title",
] as const;

function readTitle(check: Checker<(typeof JOB_OPTIONS)[number]>): ResolvedJobOptions["title"] {
  const title = check.value("title");
  if (title === undefined) return null;
  if (typeof title === "string" || typeof title === "function") return title as ResolvedJobOptions["title"];
  check.refuse("title", "must be a string or a function of the args");
  return null;
}
