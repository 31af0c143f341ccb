/** One attempt of one handler through the path that a server takes, without a server and without a store of yours. */
import { Client } from "../client.ts";
import { type EnqueueOptions, newJob } from "../enqueue.ts";
import { CancelledError, KilnError } from "../errors.ts";
import { Handler } from "../job.ts";
import { type Decoded, tryEncodeJson } from "../json.ts";
import { invalid, pathStep } from "../problems.ts";
import { type AttemptEnd, classify, endedByFence } from "../rules/classify.ts";
import { ATTEMPTS, LONGEST_DURATION } from "../rules/limits.ts";
import { systemRuntime } from "../runtime.ts";
import { Attempt } from "../server/attempt.ts";
import { Completer } from "../server/completer.ts";
import { type ResolvedConfig, resolveConfig, type ServerConfig } from "../server/config.ts";
import { Faults } from "../server/faults.ts";
import { retryPolicy } from "../server/runner.ts";
import type { ClaimedJob, JobId, JobRecord, JobRef, JobState, JsonText, NewJob, Store } from "../store.ts";
import { MemoryStore } from "../stores/memory/index.ts";
import { Checker, isAbortSignal } from "../validate.ts";
import { type JobView, viewJob } from "../view.ts";

type OfTheJob = Pick<
  EnqueueOptions,
  "queue" | "priority" | "maxAttempts" | "timeout" | "deadline" | "title" | "tags" | "meta"
>;
type OfTheServer = Pick<ServerConfig, "interceptors" | "backoff" | "killGrace" | "logger" | "runtime">;

/** What would have been said of the job when it was enqueued, and in the config of its server; with the same defaults. */
export interface RunJobOptions extends OfTheJob, OfTheServer {
  /** Which attempt this is, from 1 to the job's `maxAttempts`. Default 1. */
  readonly attempt?: number;
  /** Checkpoints that an earlier attempt has saved. */
  readonly params?: Readonly<Record<string, unknown>>;
  /**
   * What the handler gets to enqueue with, as it is: nothing is refused because the attempt has ended. Default: a client for
   * the job's claim, of the store that `JobResult.client` shows.
   */
  readonly client?: Client;
  /**
   * Aborts the handler's signal. An error of kiln as the reason, such as `ShutdownError`, is what the handler gets to see;
   * any other counts as `CancelledError`, as if the job was deleted.
   */
  readonly signal?: AbortSignal;
}

/** What became of the job. */
export interface JobResult<Output = unknown> {
  /**
   * Where the job is now: `succeeded`; `scheduled` for a retry or a snooze, or `enqueued` when its delay is 0 or the server
   * stops; `failed`; `deleted`. `processing` only when the reason to abort was a `FencedError`.
   */
  readonly state: JobState;
  /** As in the job's history, for example `retry`, `exhausted` or `snoozed`; null for a plain success. */
  readonly reason: string | null;
  /** What the handler threw, as it threw it; undefined when it did not throw. */
  readonly error: unknown;
  /** What went wrong, as the job's history says it; null when nothing did. */
  readonly message: string | null;
  /** Milliseconds until the next attempt; 0 when there is none or it is at once. */
  readonly delay: number;
  /** What the handler returned, as it comes back from JSON; undefined = nothing. */
  readonly output: Decoded<Output> | undefined;
  /** All checkpoints, those from before included. */
  readonly params: Readonly<Record<string, unknown>>;
  /** What the handler has logged, as the store keeps it. */
  readonly lines: readonly string[];
  /** The job as a client shows it. */
  readonly job: JobView;
  /** Shows what the handler has enqueued with its `client`, for example to `assertEnqueued`. */
  readonly client: Client;
}

const JOB_OPTIONS = [
  "queue",
  "priority",
  "maxAttempts",
  "timeout",
  "deadline",
  "title",
  "tags",
  "meta",
] as const satisfies readonly (keyof OfTheJob)[];

const SERVER_OPTIONS = [
  "interceptors",
  "backoff",
  "killGrace",
  "logger",
  "runtime",
] as const satisfies readonly (keyof OfTheServer)[];

const OPTIONS = [...JOB_OPTIONS, ...SERVER_OPTIONS, "attempt", "params", "client", "signal"] as const;
type OptionsChecker = Checker<(typeof OPTIONS)[number]>;

const WHAT = "can't run the job";
const SERVER = "test";

/**
 * Runs one attempt of a handler as a server would: args through JSON and the schema, interceptors, timeout and stall
 * timeout, classification, output through JSON. Resolves with what became of the job, whatever the handler does. Time is
 * real unless `runtime` says otherwise.
 *
 *     const result = await runJob(sendMail.handler(deliver), { to: "ada@example.com" }, { attempt: 2 });
 *     assert.equal(result.state, "scheduled");
 *     assert.match(result.message ?? "", /mailbox is full/);
 *
 * @throws InvalidError for args that do not fit the schema or JSON, as `enqueue` would, and for bad options
 */
export async function runJob<Input, Args, Output>(
  handler: Handler<Input, Args, Output>,
  args: NoInfer<Input>,
  options: RunJobOptions = {},
): Promise<JobResult<Output>> {
  if (!Handler.is(handler)) {
    throw invalid(WHAT, "handler", handler, "must be a handler, as made by `defineJob(…).handler(…)`");
  }
  const check: OptionsChecker = new Checker(WHAT, options, OPTIONS);
  const attempt = check.integer("attempt", { ...ATTEMPTS, default: 1 });
  const params = readParams(check);
  const given = check.object<Client>("client", ["enqueue", "enqueueMany"]);
  const signal = readSignal(check);
  check.end();
  const job = await newJob(WHAT, handler.definition, args, pick(check, JOB_OPTIONS));
  if (attempt > job.maxAttempts) check.refuse("attempt", `must be at most maxAttempts, which is ${job.maxAttempts}`);
  check.end();
  const config = resolveConfig({ ...pick(check, SERVER_OPTIONS), handlers: [handler], queues: { [job.queue]: 1 } });
  const store = new MemoryStore({ runtime: config.runtime });
  const client = given ?? new Client(store, { runtime: config.runtime });
  const claimed = await claimAttempt(store, job, attempt, params);
  // A client that was given is of another store, where nobody holds the job.
  const clientFor = (ref: JobRef): Client => given ?? Client.whileHeld(client, ref);
  const { end, delay } = await run(config, { store, clientFor, claimed, signal });
  const view = await viewOf(store, claimed.id);
  const entry = view.history.at(-1);
  return {
    state: view.state,
    reason: entry?.reason ?? null,
    error: end.type === "threw" ? end.error : undefined,
    message: entry?.error ?? null,
    delay: view.state === "scheduled" ? delay : 0,
    output: view.output as Decoded<Output> | undefined,
    params: view.params,
    lines: await linesOf(store, claimed.id),
    job: view,
    client,
  };
}

/** Those of the options that were given. */
function pick<Name extends (typeof OPTIONS)[number]>(
  check: OptionsChecker,
  names: readonly Name[],
): Pick<RunJobOptions, Name> {
  const given = names.filter((name) => check.has(name)).map((name) => [name, check.value(name)]);
  return Object.fromEntries(given) as Pick<RunJobOptions, Name>;
}

function readParams(check: OptionsChecker): Record<string, JsonText> {
  const given = check.record("params");
  const params: [string, JsonText][] = [];
  for (const key of given?.keys ?? []) {
    const { json, problem } = tryEncodeJson(given?.value(key), `${check.field("params")}${pathStep(key)}`);
    if (problem === null) params.push([key, json]);
    else check.problems.push(problem);
  }
  return Object.fromEntries(params);
}

function readSignal(check: OptionsChecker): AbortSignal | null {
  const signal = check.value("signal");
  if (signal === undefined) return null;
  if (isAbortSignal(signal)) return signal;
  check.refuse("signal", "must be an AbortSignal");
  return null;
}

/** The job, claimed for the `attempt`th time; what was before leaves no history. */
async function claimAttempt(
  store: Store,
  job: NewJob,
  attempt: number,
  params: Readonly<Record<string, JsonText>>,
): Promise<ClaimedJob> {
  const { host } = systemRuntime;
  const server = { id: SERVER, hostname: host.hostname, pid: host.pid, version: host.version };
  await store.register({ ...server, queues: [job.queue], kinds: [job.kind], workers: 1, deadAfter: LONGEST_DURATION });
  await store.insert([job]);
  const query = { server: SERVER, sequence: 1, queues: [job.queue], kinds: [job.kind], limit: 1 };
  const claim = async (): Promise<ClaimedJob> => (await store.claim(query)).jobs[0] as ClaimedJob;
  const giveBack = async ({ id, claim }: ClaimedJob, refund: boolean): Promise<void> => {
    const nothing = { reason: null, error: null, trace: null, output: null };
    await store.finish(SERVER, [{ id, claim, state: "enqueued", delay: 0, refund, ...nothing }]);
  };
  for (let before = 1; before < attempt; before++) await giveBack(await claim(), false);
  if (Object.keys(params).length > 0) {
    const earlier = await claim();
    await store.setParams(earlier, params);
    await giveBack(earlier, true);
  }
  return claim();
}

interface Run {
  readonly store: Store;
  readonly clientFor: (ref: JobRef) => Client;
  readonly claimed: ClaimedJob;
  readonly signal: AbortSignal | null;
}

/** Runs the handler and stores the outcome. */
async function run(
  config: ResolvedConfig,
  { store, clientFor, claimed, signal }: Run,
): Promise<{ readonly end: AttemptEnd; readonly delay: number }> {
  const { handlers, runtime, logger, interceptors, killGrace, timeout } = config;
  const faults = new Faults(runtime, logger);
  const deps = { runtime, store, clientFor, logger, faults, interceptors, killGrace, timeout };
  const attempt = new Attempt(deps, handlers.get(claimed.kind), {
    ...{ job: claimed, claimSent: runtime.monotonic(), knownSince: 0 },
  });
  const stop = (): void => {
    attempt.abort(abortReason(signal?.reason));
  };
  if (signal?.aborted) stop();
  else signal?.addEventListener("abort", stop);
  const end = await attempt.run();
  signal?.removeEventListener("abort", stop);
  await attempt.console?.close();
  if (endedByFence(end)) return { end, delay: 0 };
  const outcome = classify(claimed, end, retryPolicy(config, claimed.kind));
  const completer = new Completer({ runtime, store, faults, server: () => SERVER, capacity: 1 });
  await new Promise<void>((resolve) => void completer.submit({ outcome, done: () => resolve() }));
  return { end, delay: outcome.delay };
}

function abortReason(reason: unknown): KilnError {
  try {
    if (reason instanceof KilnError) return reason;
  } catch {
    // A proxy that does not say what it is: no error of kiln.
  }
  return new CancelledError("the test aborted the job", { cause: reason });
}

async function linesOf(store: Store, id: JobId): Promise<string[]> {
  const lines: string[] = [];
  for (let after = 0; ; ) {
    const page = await store.consoleLines({ id, after });
    lines.push(...page.map(({ text }) => text));
    const last = page.at(-1);
    if (last === undefined) return lines;
    after = last.seq;
  }
}

async function viewOf(store: Store, id: JobId): Promise<JobView> {
  return viewJob((await store.job(id)) as JobRecord);
}
