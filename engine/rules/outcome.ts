/** How a store applies an outcome to the job that it is for. Pure; every store uses it. */

import { type HistoryEntry, type JobState, OUTCOME_STATES, type Outcome } from "../store.ts";
import { historyEntry } from "./history.ts";
import { JSON_MAX_BYTES, LONGEST_DURATION, MINUTE } from "./limits.ts";
import { waitingState } from "./state.ts";
import { shown } from "./text.ts";

/** What an outcome makes of a job. Instants are milliseconds since 1970. */
export interface Settled {
  readonly state: Exclude<JobState, "processing">;
  readonly attempt: number;
  readonly runAt: number;
  readonly finalizedAt: number | null;
  /** Null = history stays as it is. */
  readonly entry: HistoryEntry | null;
  readonly output: string | null;
  /** Which counter of the minute's statistics goes up. */
  readonly counter: Counter | null;
}

export const COUNTERS = ["succeeded", "failed", "deleted", "retried"] as const;
export type Counter = (typeof COUNTERS)[number];

/** The start of the minute in whose statistics an instant counts. */
export const minuteOf = (instant: number): number => instant - (instant % MINUTE);

/** The rule that an outcome breaks so that it can never be stored, or null. */
export function refusal(outcome: Outcome): string | null {
  if (!(OUTCOME_STATES as readonly string[]).includes(outcome.state)) {
    return `state must be one of ${OUTCOME_STATES.join(", ")}, got ${shown(outcome.state)}`;
  }
  if (outcome.state === "scheduled" && !(outcome.delay <= LONGEST_DURATION)) {
    return `delay must be at most a hundred years, got ${outcome.delay} ms`;
  }
  if (outcome.output !== null) {
    if (!isJson(outcome.output)) return "output must be JSON";
    if (Buffer.byteLength(outcome.output) > JSON_MAX_BYTES) return `output must be at most ${JSON_MAX_BYTES} bytes`;
  }
  return null;
}

/** True for JSON that every database gives back as it was: lone surrogates may stand in it only as escapes. */
export function isJson(text: unknown): text is string {
  if (typeof text !== "string" || !text.isWellFormed()) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Why a job moved to `state` by an outcome: a cancel request may have made `deleted` of it. */
export function reasonOf(outcome: Outcome, state: JobState): string | null {
  return state === "deleted" && outcome.state !== "deleted" ? "cancelled" : outcome.reason;
}

/**
 * The job after the outcome. A job with a limit waits in `throttled` instead of `enqueued`. A cancel request turns everything but success into `deleted`; `scheduled` without a delay is
 * `enqueued`; a refund takes the attempt back, the claim number is never given back.
 */
export function settle(
  job: {
    readonly attempt: number;
    readonly runAt: number;
    readonly cancelRequested: boolean;
    readonly limitKey: string | null;
  },
  outcome: Outcome,
  server: string,
  now: number,
): Settled {
  const cancelled = job.cancelRequested && outcome.state !== "succeeded";
  const asked = outcome.state === "scheduled" && !(outcome.delay > 0) ? "enqueued" : outcome.state;
  const state = cancelled ? "deleted" : asked === "enqueued" ? waitingState(job.limitKey !== null) : asked;
  const attempt = outcome.refund ? Math.max(job.attempt - 1, 0) : job.attempt;
  const reason = reasonOf(outcome, state);
  const waits = state === "scheduled" || state === "enqueued" || state === "throttled";
  return {
    state,
    attempt,
    runAt: waits ? now + (state === "scheduled" ? Math.ceil(outcome.delay) : 0) : job.runAt,
    finalizedAt: waits ? null : now,
    entry: reason === null ? null : historyEntry({ ...outcome, reason }, state, job.attempt, server, now),
    output: state === "succeeded" || state === "deleted" ? outcome.output : null,
    counter: waits ? (outcome.state === "scheduled" && !outcome.refund ? "retried" : null) : state,
  };
}
