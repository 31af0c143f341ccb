/** The job as its handler sees it. */
import { sleep, withDeadline } from "../async.ts";
import { StoreError } from "../errors.ts";
import type { Job } from "../job.ts";
import { decodeJson, encodeJson } from "../json.ts";
import type { Logger } from "../logger.ts";
import { pathStep, readText } from "../problems.ts";
import { PARAM_KEY_MAX_BYTES } from "../rules/limits.ts";
import { occurrenceOf } from "../rules/recurring.ts";
import type { Runtime } from "../runtime.ts";
import type { ClaimedJob, JobId, JsonText, Store, Writer } from "../store.ts";
import { Checker, WRITER } from "../validate.ts";
import type { JobConsole } from "./console.ts";

export interface RunningJobDeps {
  readonly runtime: Runtime;
  readonly store: Store;
  readonly signal: AbortSignal;
  /** The handler showed a sign of life. */
  readonly onSign: () => void;
  /** Null once the attempt has ended. */
  readonly console: () => JobConsole | null;
}

const SAVE = "can't save the checkpoint";
const DEADLINE = 15_000;
const RETRY_FIRST = 100;
const RETRY_LONGEST = 5_000;

export function runningJob(claimed: ClaimedJob, args: unknown, deps: RunningJobDeps): Job<unknown> {
  const {
    id,
    claim,
    kind,
    queue,
    priority,
    attempt,
    maxAttempts,
    createdAt,
    runAt,
    deadline,
    title,
    tags,
    meta,
    parents,
  } = claimed;
  const params = new Map<string, JsonText>(Object.entries(claimed.params));
  return {
    ...{ id, kind, queue, priority, attempt, maxAttempts, createdAt, runAt, deadline, title, tags, meta },
    ...{ args, parents },
    recurringId: claimed.recurringId,
    batch: claimed.batch,
    occurrence: occurrenceOf(claimed),
    parentOutputs: () => readOutputs(parents, deps),
    param<Value>(key: string) {
      const json = params.get(key);
      return json === undefined ? undefined : (decodeJson(json) as Value);
    },
    async setParam(key, value, options) {
      deps.onSign();
      const check = new Checker(SAVE, options, ["within"]);
      readText(check.problems, "key", key, { maxBytes: PARAM_KEY_MAX_BYTES, empty: true });
      const within = check.object<Writer>("within", WRITER);
      check.end();
      const json = encodeJson(value, SAVE, `params${pathStep(key)}`);
      // A computed key, so that a param may have any name.
      const save = (writer: Writer): Promise<void> => writer.setParams({ id, claim }, { [key]: json });
      // A transaction in which something has failed is not as it was: to try again is up to whoever has begun it.
      if (within !== undefined) return save(within);
      await answered("setParams", () => save(deps.store), deps);
      params.set(key, json);
    },
    log(message) {
      deps.onSign();
      deps.console()?.log(message);
    },
    progress(percent) {
      deps.onSign();
      deps.console()?.progress(percent);
    },
    heartbeat: deps.onSign,
  };
}

async function readOutputs(parents: readonly JobId[], deps: RunningJobDeps): Promise<Map<JobId, unknown>> {
  if (parents.length === 0) return new Map();
  const outputs = await answered("outputs", () => deps.store.outputs(parents), deps);
  return new Map([...outputs].map(([id, json]) => [id, decodeJson(json)]));
}

/**
 * Calls until the store has answered or the attempt is aborted: the call is safe to repeat, and a passing fault is no reason
 * to fail a job.
 */
async function answered<T>(name: string, call: () => Promise<T>, deps: RunningJobDeps): Promise<T> {
  const { runtime, signal } = deps;
  for (let delay = RETRY_FIRST; ; delay = Math.min(delay * 2, RETRY_LONGEST)) {
    try {
      // A handler that waits for this must be able to obey.
      return await withDeadline(runtime, name, DEADLINE, call, { signal });
    } catch (error) {
      const passing = error instanceof StoreError && error.retryable;
      if (!passing || signal.aborted) throw error;
    }
    await sleep(runtime, delay, signal);
  }
}

/** The server's logger, which says of each line which job it is about. */
export function jobLogger(logger: Logger, { id, kind, attempt }: ClaimedJob): Logger {
  const job = { job: id, kind, attempt };
  return {
    debug: (message, fields) => logger.debug(message, { ...job, ...fields }),
    info: (message, fields) => logger.info(message, { ...job, ...fields }),
    warn: (message, fields) => logger.warn(message, { ...job, ...fields }),
    error: (message, fields) => logger.error(message, { ...job, ...fields }),
  };
}
