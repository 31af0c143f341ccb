/** Takes one job from its claim to its outcome, and says so to counters, observers and subscribers. */
import { callUser } from "../async.ts";
import { type AttemptEnd, classify, endedByFence, type RetryPolicy } from "../rules/classify.ts";
import { reasonOf } from "../rules/outcome.ts";
import type { Reason } from "../rules/reasons.ts";
import type { ClaimedJob, JobRef, JobState, Orphan, Outcome } from "../store.ts";
import { Attempt, type AttemptDeps } from "./attempt.ts";
import type { Attempts } from "./attempts.ts";
import type { Completer, Decision } from "./completer.ts";
import type { ResolvedConfig } from "./config.ts";
import type { Events } from "./events.ts";
import type { Faults } from "./faults.ts";
import type { Heartbeat } from "./heartbeat.ts";
import type { Counters } from "./stats.ts";

export interface RunnerDeps {
  readonly config: ResolvedConfig;
  readonly attempt: AttemptDeps;
  readonly attempts: Attempts;
  readonly completer: Completer;
  readonly heartbeat: Heartbeat;
  readonly events: Events;
  readonly counters: Counters;
  readonly faults: Faults;
}

export class Runner {
  readonly #deps: RunnerDeps;

  constructor(deps: RunnerDeps) {
    this.#deps = deps;
  }

  /** Resolves once the outcome was taken by the completer; then the worker is free. */
  async run(job: ClaimedJob, claimSent: number): Promise<void> {
    const { config, attempts, completer, counters, heartbeat } = this.#deps;
    const { runtime, handlers } = config;
    const attempt = new Attempt(this.#deps.attempt, handlers.get(job.kind), {
      job,
      claimSent,
      knownSince: heartbeat.beats,
    });
    attempts.add(attempt);
    counters.claimed += 1;
    this.#publish(job, job.limitKey === null ? "enqueued" : "throttled", "processing", null);
    const started = runtime.monotonic();
    const end = await attempt.run();
    this.#observe(job, end, runtime.monotonic() - started);
    if (attempt.abandoned) this.#abandoned(job);
    // While the claim still holds the job: after the outcome the store would refuse it.
    if (attempt.console !== null) await attempt.console.close();
    if (endedByFence(end)) {
      // The job is rescued, or the next heartbeat shows that it is still ours and hands it back as lost.
      attempts.remove(attempt);
      return;
    }
    if (end.type === "late") this.#late(job, runtime.monotonic() - claimSent);
    const outcome = classify(job, end, retryPolicy(config, job.kind));
    counters.ended(end, outcome);
    await completer.submit({
      outcome,
      done: (decision, sent) => {
        attempts.remove(attempt);
        this.#decided(job, sent, decision);
      },
    });
  }

  /** Jobs of a claim that was answered when they could no longer be run. */
  handBack(jobs: readonly ClaimedJob[], reason: Reason): void {
    for (const job of jobs) {
      const done = (decision: Decision, sent: Outcome): void => this.#decided(job, sent, decision);
      void this.#deps.completer.submit({ outcome: handedBack(job, reason), done });
    }
  }

  /** A job that the store says is ours but that nobody here runs: a claim without a reply, or one that a fence ended. */
  handBackLost(ref: JobRef): void {
    const { config, counters, completer } = this.#deps;
    config.runtime.mark("lost job handed back");
    counters.lost += 1;
    const done = (decision: Decision, sent: Outcome): void => counters.decided(decision, sent);
    void completer.submit({ outcome: handedBack(ref, "lost"), done });
  }

  /** As the leader, a job of a dead server was sent on its way. */
  rescued(orphan: Orphan, outcome: Outcome, state: JobState): void {
    this.#deps.counters.rescued += 1;
    this.#publish(orphan, "processing", state, outcome.reason);
  }

  /** Where every claim takes as long as that, jobs with a rate would never start, and nothing else would say so. */
  #late({ id, kind, attempt, limitKey }: ClaimedJob, after: number): void {
    const what = "a job with a rate was handed back because it could not start in time after its claim was sent";
    this.#deps.faults.warn(what, { job: id, kind, attempt, limit: limitKey, after: Math.round(after) });
  }

  #abandoned({ id, kind, attempt }: ClaimedJob): void {
    this.#deps.counters.abandoned += 1;
    const what = "abandoned a handler that ignored its abort signal";
    this.#deps.faults.log("warn", what, { job: id, kind, attempt });
  }

  #observe(job: ClaimedJob, end: AttemptEnd, duration: number): void {
    if (end.type !== "returned" && end.type !== "threw") return;
    const { config, faults } = this.#deps;
    const { kind, queue } = job;
    callUser(
      () => config.onDuration({ kind, queue, succeeded: end.type === "returned", duration }),
      (error) => faults.report("onDuration", error),
    );
  }

  #decided(job: ClaimedJob, outcome: Outcome, decision: Decision): void {
    this.#deps.counters.decided(decision, outcome);
    if (decision === "stale" || decision === "dropped") return;
    this.#publish(job, "processing", decision, reasonOf(outcome, decision));
  }

  #publish(
    { id, kind, queue, attempt }: Pick<ClaimedJob, "id" | "kind" | "queue" | "attempt">,
    from: JobState,
    to: JobState,
    reason: string | null,
  ): void {
    const { events, heartbeat } = this.#deps;
    events.publish({ type: "transition", id, kind, queue, attempt, from, to, reason, server: heartbeat.id });
  }
}

/** What decides on the next attempt of a job of this kind. */
export function retryPolicy(config: ResolvedConfig, kind: string): RetryPolicy {
  const { runtime, handlers, backoff, unknownKindTtl } = config;
  const own = handlers.get(kind)?.definition.options.backoff;
  return { backoff: own ?? backoff, random: () => runtime.random(), unknownKindTtl };
}

function handedBack({ id, claim }: JobRef, reason: Reason): Outcome {
  return { id, claim, state: "enqueued", delay: 0, refund: true, reason, error: null, trace: null, output: null };
}
