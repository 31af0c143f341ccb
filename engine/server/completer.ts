/**
 * Takes outcomes and stores them in batches, one call in flight, back to back and without a timer. An outcome is kept
 * until the store has decided on it, however long that takes; while too many wait, `submit` makes the attempts wait, so
 * their slots stay taken and nothing more is claimed.
 */
import { sleep, withDeadline } from "../async.ts";
import type { Runtime } from "../runtime.ts";
import type { JobState, Outcome, Store } from "../store.ts";
import type { Faults } from "./faults.ts";

/** An outcome on its way, and who wants to hear what became of it. */
export interface Submission {
  readonly outcome: Outcome;
  /** Called once: with the state that the job is in now, or null when the claim was lost or the outcome dropped. */
  readonly done: (state: JobState | null, outcome: Outcome) => void;
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

export class Completer {
  readonly #deps: CompleterDeps;
  #waiting: Pending[] = [];
  #sending: Pending[] = [];
  #blocked: (() => void)[] = [];
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
    const first = this.#sending[0] ?? this.#waiting[0];
    return first ? this.#deps.runtime.monotonic() - first.since : 0;
  }

  /** Resolves once the outcome has been taken, not when it has been stored. After `drain` it is dropped. */
  async submit(submission: Submission): Promise<void> {
    while (this.pending >= this.#deps.capacity && !this.#closed) {
      await new Promise<void>((resolve) => this.#blocked.push(resolve));
    }
    if (this.#closed) return submission.done(null, submission.outcome);
    this.#waiting.push({ ...submission, since: this.#deps.runtime.monotonic() });
    this.#flushing ??= this.#flush();
  }

  /** Waits at most `ms` milliseconds until all is stored; then what is left is dropped, logged, and never sent. */
  async drain(ms: number): Promise<void> {
    const cancel = this.#deps.runtime.timer(ms, () => this.#giveUp.abort());
    await this.#flushing;
    cancel();
    this.#closed = true;
    const dropped = [...this.#sending, ...this.#waiting];
    this.#sending = [];
    this.#waiting = [];
    this.#release();
    if (dropped.length === 0) return;
    const jobs = dropped.slice(0, 20).map((p) => p.outcome.id);
    this.#deps.faults.log("error", "outcomes dropped at shutdown", { count: dropped.length, jobs });
    for (const p of dropped) p.done(null, p.outcome);
  }

  async #flush(): Promise<void> {
    let delay = RETRY_FIRST;
    // Lets handlers that end in the same turn share the first call.
    await this.#deps.runtime.turn();
    while (this.pending > 0 && !this.#giveUp.signal.aborted) {
      this.#fill();
      const decided = await this.#send();
      if (decided) {
        delay = RETRY_FIRST;
        this.#release();
        continue;
      }
      await sleep(this.#deps.runtime, delay, this.#giveUp.signal);
      delay = Math.min(delay * 2, RETRY_LONGEST);
    }
    this.#flushing = null;
  }

  #fill(): void {
    this.#sending.push(...this.#waiting.splice(0, BATCH - this.#sending.length));
    // One order for all servers, so that stores that lock rows do not deadlock.
    this.#sending.sort((a, b) => a.outcome.id - b.outcome.id);
  }

  /** One call. True when the store decided on at least one outcome; the others stay. */
  async #send(): Promise<boolean> {
    const { runtime, store, faults, server } = this.#deps;
    const sent = this.#sending;
    try {
      const outcomes = sent.map((p) => p.outcome);
      const results = await withDeadline(runtime, "finish", FINISH_DEADLINE, () => store.finish(server(), outcomes));
      const kept: Pending[] = [];
      sent.forEach((p, index) => {
        const result = results[index];
        if (result === undefined || result.status === "busy") kept.push(p);
        else if (result.status === "rejected") this.#rejected(p, result.rule, kept);
        else p.done(result.status === "applied" ? result.state : null, p.outcome);
      });
      this.#sending = kept;
      return kept.length < sent.length;
    } catch (error) {
      faults.report("finish", error);
      return false;
    }
  }

  /** What can't be stored as it is ends as failed, once; if even that is refused there is nothing left to try. */
  #rejected(p: Pending, rule: string, kept: Pending[]): void {
    if (p.outcome.reason === "rejected") {
      this.#deps.faults.report("finish", new Error(`outcome of job ${p.outcome.id} refused twice: ${rule}`));
      p.done(null, p.outcome);
      return;
    }
    const failed = { state: "failed", reason: "rejected", error: rule, trace: null, output: null } as const;
    kept.push({ ...p, outcome: { ...p.outcome, ...failed, delay: 0, refund: false } });
  }

  #release(): void {
    for (const resolve of this.#blocked.splice(0)) resolve();
  }
}
