/**
 * One run of one claimed job:
 *
 *     running ──handler returns or throws──────────────────→ ended
 *        └──abort(reason)──→ aborted ──returns or throws───→ ended
 *                               └──killGrace passes────────→ ended (abandoned: what the handler still does is ignored)
 *
 * Only `abort` and `#end` move it. Whatever a handler does, `run` resolves.
 */
import type { Client } from "../client.ts";
import { type InvalidError, type KilnError, StallError, TimeoutError } from "../errors.ts";
import type { Handler, HandlerContext, HandlerInterceptor } from "../job.ts";
import { encodeJson } from "../json.ts";
import type { Logger } from "../logger.ts";
import type { AttemptEnd } from "../rules/classify.ts";
import type { CancelTimer, Runtime } from "../runtime.ts";
import { decodeArgs } from "../schema.ts";
import type { ClaimedJob, JobRef, Store } from "../store.ts";
import { JobConsole } from "./console.ts";
import type { Faults } from "./faults.ts";
import { jobLogger, runningJob } from "./running-job.ts";

export interface AttemptDeps {
  readonly runtime: Runtime;
  readonly store: Store;
  /** What handlers add jobs with, of which each gets a copy for its claim. */
  readonly clientFor: (ref: JobRef) => Client;
  readonly logger: Logger;
  readonly faults: Faults;
  readonly interceptors: readonly HandlerInterceptor[];
  /** Milliseconds that an aborted handler gets to return. */
  readonly killGrace: number;
  /** Milliseconds for jobs and kinds that name no timeout; 0 = none. */
  readonly timeout: number;
}

/** A job's claim as this server knows it. */
export interface Claim {
  readonly job: ClaimedJob;
  /** When the claim was sent, and so not after the job's admission; monotonic milliseconds. */
  readonly claimSent: number;
  /** Number of the last heartbeat that was sent before the job was known here. */
  readonly knownSince: number;
}

/** How long after its admission by a rate a job may still start, milliseconds. */
export const START_SLACK = 500;

export class Attempt {
  readonly job: ClaimedJob;
  /** Number of the last heartbeat that was sent before this attempt was known here. */
  readonly knownSince: number;
  readonly #deps: AttemptDeps;
  readonly #handler: Handler | undefined;
  readonly #abort = new AbortController();
  readonly #timers = new Map<"timeout" | "stall" | "grace", CancelTimer>();
  /** The handler must have been called by then, so that starts keep to the rate as admissions do; monotonic milliseconds. */
  readonly #startBy: number;
  #late = false;
  #resolve: ((end: AttemptEnd) => void) | null = null;
  #ended = false;
  #abandoned = false;
  #console: JobConsole | null = null;
  #lastSign = 0;

  constructor(deps: AttemptDeps, handler: Handler | undefined, { job, claimSent, knownSince }: Claim) {
    this.#deps = deps;
    this.#handler = handler;
    this.job = job;
    this.knownSince = knownSince;
    this.#startBy = job.limited ? claimSent + START_SLACK : Number.POSITIVE_INFINITY;
  }

  /** `run` has, or is about to have, its result. */
  get ended(): boolean {
    return this.#ended;
  }

  /** The handler ignored its abort signal and was given up. */
  get abandoned(): boolean {
    return this.#abandoned;
  }

  /** Why the signal was aborted, or undefined. */
  get abortedBy(): unknown {
    return this.#abort.signal.reason;
  }

  /** What the handler has logged; null when it never did. Its owner closes it once `run` has resolved. */
  get console(): JobConsole | null {
    return this.#console;
  }

  /** Runs the handler and resolves with how that ended. Once. */
  async run(): Promise<AttemptEnd> {
    const { job } = this;
    const handler = this.#handler;
    if (handler === undefined) return this.#skip({ type: "unhandled" });
    if (job.deadline !== null && job.attemptedAt > job.deadline) return this.#skip({ type: "expired" });
    if (this.#isLate()) return this.#skip({ type: "late" });
    const end = new Promise<AttemptEnd>((resolve) => {
      this.#resolve = resolve;
    });
    const { timeout, stallTimeout } = handler.definition.options;
    this.#armTimeout(job.timeout ?? timeout ?? this.#deps.timeout);
    if (stallTimeout !== null) this.#watchForStall(stallTimeout);
    this.#call(handler).then(
      (output) => this.#settle(returned(output)),
      (error: unknown) => this.#settle({ type: "threw", error, abortedBy: this.abortedBy }),
    );
    return end;
  }

  /** Asks the handler to stop: its signal is aborted with `reason`. False = it has ended or was asked before. */
  abort(reason: KilnError): boolean {
    if (this.#ended || this.#abort.signal.aborted) return false;
    const { killGrace, runtime } = this.#deps;
    // Set first: a listener of the signal may end the attempt at once.
    this.#timers.set(
      "grace",
      runtime.timer(killGrace, () => this.#abandon(reason)),
    );
    this.#abort.abort(reason);
    return true;
  }

  #skip(end: AttemptEnd): AttemptEnd {
    this.#ended = true;
    return end;
  }

  async #call(handler: Handler): Promise<unknown> {
    const { runtime, store, clientFor, logger, interceptors } = this.#deps;
    const { signal } = this.#abort;
    const args = await decodeArgs(handler.definition, this.job.args);
    const onSign = (): void => this.#sign();
    const job = runningJob(this.job, args, { runtime, store, signal, onSign, console: () => this.#openConsole() });
    const context: HandlerContext = { signal, client: clientFor(this.job), logger: jobLogger(logger, this.job) };
    const call = (index: number): Promise<unknown> => {
      const interceptor = interceptors[index];
      if (interceptor === undefined) return this.#start(() => handler.run(job, context));
      return interceptor(job, context, () => call(index + 1));
    };
    return call(0);
  }

  /** Null after the end: what an abandoned handler, or work that a handler did not wait for, still says is ignored. */
  #openConsole(): JobConsole | null {
    if (this.#ended) return null;
    this.#console ??= new JobConsole(this.#deps, this.job);
    return this.#console;
  }

  #isLate(): boolean {
    return this.#deps.runtime.monotonic() > this.#startBy && !this.#deps.runtime.buggify("attempt.no-start-slack");
  }

  /** Checked again right before the handler: a schema and interceptors may have taken their time. */
  async #start(run: () => Promise<unknown>): Promise<unknown> {
    this.#late = this.#isLate();
    if (this.#late) throw new Error(`could not start within ${START_SLACK} ms of its admission`);
    return run();
  }

  #settle(given: AttemptEnd): void {
    // Whatever interceptors made of it: the handler was not called.
    const end: AttemptEnd = this.#late ? { type: "late" } : given;
    this.#ended = true;
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
    this.#resolve?.(end);
  }

  #abandon(reason: KilnError): void {
    this.#abandoned = true;
    const error = new Error(`the handler ignored its abort signal for ${this.#deps.killGrace} ms and was abandoned`, {
      cause: reason,
    });
    this.#settle({ type: "threw", error, abortedBy: reason });
  }

  #armTimeout(ms: number): void {
    if (ms === 0) return;
    const fire = (): void => {
      this.abort(new TimeoutError(`timed out after ${ms} ms`));
    };
    this.#timers.set("timeout", this.#deps.runtime.timer(ms, fire));
  }

  #sign(): void {
    this.#lastSign = this.#deps.runtime.monotonic();
  }

  /** One timer for the whole attempt: when it fires it is set again for what is left since the last sign of life. */
  #watchForStall(ms: number): void {
    const { runtime } = this.#deps;
    this.#sign();
    const look = (): void => {
      const left = this.#lastSign + ms - runtime.monotonic();
      if (left > 0) this.#timers.set("stall", runtime.timer(left, look));
      else this.abort(new StallError(`no sign of life for ${ms} ms`));
    };
    this.#timers.set("stall", runtime.timer(ms, look));
  }
}

function returned(output: unknown): AttemptEnd {
  if (output === undefined) return { type: "returned", output: null, refusal: null };
  try {
    return { type: "returned", output: encodeJson(output, "can't store the output", "output"), refusal: null };
  } catch (error) {
    return { type: "returned", output: null, refusal: (error as InvalidError).message };
  }
}
