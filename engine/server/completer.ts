/**
 * Takes outcomes and stores them in batches, one call in flight, back to back and without a timer. An outcome is kept
 * until the store has decided on it, however long that takes; while too many wait, `submit` makes the attempts wait, so
 * their slots stay taken and nothing more is claimed.
 */
import { sleep, withDeadline } from "../async.ts";
import type { Runtime } from "../runtime.ts";
import type { FinishResult, JobState, Outcome, Store } from "../store.ts";
import type { Faults } from "./faults.ts";

/** What became of an outcome: the state that the job is in now, refused because the claim was lost, or never stored. */
export type Decision = JobState | "stale" | "dropped";

/** An outcome on its way, and who wants to hear what became of it. */
export interface Submission {
  readonly outcome: Outcome;
  /** Called once, with the outcome as it was sent. */
  readonly done: (decision: Decision, outcome: Outcome) => void;
}

interface Pending extends Submission {
  readonly since: number;
}

export interface CompleterDeps {
  readonly runtime: Runtime;
  readonly store: Store;
  readonly faults: Faults;
  /** Id of the server, for history and statistics. */
  readonly server: () => string;
  /** Outcomes that may wait before `submit` blocks. */
  readonly capacity: number;
}

/** Outcomes in one call of `finish`. */
const BATCH = 500;
const FINISH_DEADLINE = 15_000;
const RETRY_FIRST = 10;
const RETRY_LONGEST = 5_000;
/** Until rows that others have locked are tried again. */
const BUSY_PAUSE = 10;

export class Completer {
  readonly #deps: CompleterDeps;
  readonly #waiting: Pending[] = [];
  #sending: Pending[] = [];
  readonly #blocked: { readonly submission: Submission; readonly resolve: () => void }[] = [];
  #flushing: Promise<void> | null = null;
  readonly #giveUp = new AbortController();
  #closed = false;

  constructor(deps: CompleterDeps) {
    this.#deps = deps;
  }

  /** Outcomes that the store has not decided on. */
  get pending(): number {
    return this.#waiting.length + this.#sending.length;
  }

  /** Milliseconds that the oldest of them has waited; 0 = none. */
  get oldest(): number {
    const first = this.#waiting[0]?.since ?? Number.POSITIVE_INFINITY;
    const since = this.#sending.reduce((least, p) => Math.min(least, p.since), first);
    return this.pending === 0 ? 0 : this.#deps.runtime.monotonic() - since;
  }

  /** Resolves once the outcome has been taken, not when it has been stored. After `drain` it is dropped. */
  submit(submission: Submission): Promise<void> {
    if (this.#closed) this.#drop([submission]);
    else if (this.pending < this.#deps.capacity) this.#take(submission);
    else return new Promise((resolve) => this.#blocked.push({ submission, resolve }));
    return Promise.resolve();
  }

  /** Waits at most `ms` milliseconds until all is stored; then what is left is dropped, logged, and never sent. */
  async drain(ms: number): Promise<void> {
    const cancel = this.#deps.runtime.timer(ms, () => this.#giveUp.abort());
    await this.#flushing;
    cancel();
    this.#closed = true;
    const blocked = this.#blocked.splice(0);
    this.#drop([...this.#sending.splice(0), ...this.#waiting.splice(0), ...blocked.map((b) => b.submission)]);
    for (const { resolve } of blocked) resolve();
  }

  #take(submission: Submission): void {
    this.#waiting.push({ ...submission, since: this.#deps.runtime.monotonic() });
    this.#flushing ??= this.#flush();
  }

  #drop(submissions: readonly Submission[]): void {
    if (submissions.length === 0) return;
    const jobs = submissions.slice(0, 20).map((s) => s.outcome.id);
    this.#deps.faults.log("error", "results dropped, their jobs will run again", { count: submissions.length, jobs });
    for (const { done, outcome } of submissions) done("dropped", outcome);
  }

  async #flush(): Promise<void> {
    const { runtime } = this.#deps;
    const { signal } = this.#giveUp;
    let delay = RETRY_FIRST;
    // Lets handlers that end in the same turn share the first call.
    await runtime.turn();
    while (this.pending > 0 && !signal.aborted) {
      this.#fill();
      const answer = await this.#send();
      if (answer === "failed") {
        await sleep(runtime, delay, signal);
        delay = Math.min(delay * 2, RETRY_LONGEST);
      } else {
        delay = RETRY_FIRST;
        this.#release();
        if (answer === "busy") await sleep(runtime, BUSY_PAUSE, signal);
      }
    }
    this.#flushing = null;
  }

  #fill(): void {
    this.#sending.push(...this.#waiting.splice(0, BATCH - this.#sending.length));
    // One order for all servers, so that stores that lock rows do not deadlock.
    this.#sending.sort((a, b) => a.outcome.id - b.outcome.id);
  }

  /** One call: what is not decided stays. Busy = nothing was. */
  async #send(): Promise<"decided" | "busy" | "failed"> {
    const { runtime, store, faults, server } = this.#deps;
    const sent = this.#sending;
    const outcomes = sent.map((p) => p.outcome);
    const call = (): Promise<FinishResult[]> => store.finish(server(), outcomes);
    try {
      const { signal } = this.#giveUp;
      const results = await withDeadline(runtime, "finish", FINISH_DEADLINE, call, { signal });
      const kept: Pending[] = [];
      sent.forEach((p, index) => {
        const result = results[index];
        if (result === undefined || result.status === "busy") kept.push(p);
        else if (result.status === "rejected") this.#rejected(p, result.rule, kept);
        else p.done(result.status === "applied" ? result.state : "stale", p.outcome);
      });
      this.#sending = kept;
      return kept.length < sent.length ? "decided" : "busy";
    } catch (error) {
      faults.report("finish", error);
      return "failed";
    }
  }

  /** What can't be stored as it is ends as failed, once; if even that is refused there is nothing left to try. */
  #rejected(p: Pending, rule: string, kept: Pending[]): void {
    if (p.outcome.reason === "rejected") {
      this.#deps.faults.report("finish", new Error(`outcome of job ${p.outcome.id} refused twice: ${rule}`));
      p.done("dropped", p.outcome);
      return;
    }
    const failed = { state: "failed", reason: "rejected", error: rule, trace: null, output: null } as const;
    kept.push({ ...p, outcome: { ...p.outcome, ...failed, delay: 0, refund: false } });
  }

  /** Those who waited longest come first. */
  #release(): void {
    while (this.pending < this.#deps.capacity) {
      const next = this.#blocked.shift();
      if (next === undefined) return;
      this.#take(next.submission);
      next.resolve();
    }
  }
}
