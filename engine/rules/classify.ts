/** What becomes of a job when an attempt ends: the outcome that the server asks the store for. Pure. */
import {
  CancelledError,
  FencedError,
  PermanentError,
  ShutdownError,
  SnoozeError,
  StallError,
  TimeoutError,
} from "../errors.ts";
import { type Backoff, retryDelay } from "../retry.ts";
import type { ClaimedJob, JsonText, Outcome } from "../store.ts";
import { LONGEST_DURATION } from "./limits.ts";
import type { Reason } from "./reasons.ts";
import { serializeError } from "./serialize-error.ts";

/** How an attempt ended. */
export type AttemptEnd =
  /** The handler returned; `refusal` says why its output can't be stored. */
  | { readonly type: "returned"; readonly output: JsonText | null; readonly refusal: string | null }
  /** The handler threw, or was given up. `abortedBy` is the reason of its signal, if that was aborted before. */
  | { readonly type: "threw"; readonly error: unknown; readonly abortedBy: unknown }
  /** It was not started, for the job's deadline has passed. */
  | { readonly type: "expired" }
  /** It was not started, for it could not be within `startSlack` of its admission by a rate. */
  | { readonly type: "late" }
  /** It was not started, for there is no handler. */
  | { readonly type: "unhandled" };

export interface RetryPolicy {
  readonly backoff: Backoff;
  readonly random: () => number;
  /** Milliseconds since its creation after which a job without a handler fails. */
  readonly unknownKindTtl: number;
}

/** A job without a handler is looked at again after this, milliseconds. */
export const UNKNOWN_KIND_DELAY = 60_000;

/**
 * True when the attempt has no outcome, because the server had lost its hold on the job: who holds it is for the store to
 * say.
 */
export function endedByFence(end: AttemptEnd): boolean {
  return end.type === "threw" && end.abortedBy instanceof FencedError;
}

/**
 * In this order: no handler, deadline, success, cancelled, handed back (shutdown), permanent, snoozed, retry,
 * exhausted. A handler that returns has succeeded even if its signal was aborted.
 */
export function classify(job: ClaimedJob, end: AttemptEnd, policy: RetryPolicy): Outcome {
  switch (end.type) {
    case "unhandled": {
      const expired = job.attemptedAt.getTime() - job.createdAt.getTime() > policy.unknownKindTtl;
      const error = `no handler for kind ${job.kind}`;
      if (expired) return outcome(job, "failed", "unknown kind", { error });
      return outcome(job, "scheduled", "unknown kind", { error, delay: UNKNOWN_KIND_DELAY, refund: true });
    }
    case "expired":
      return outcome(job, "deleted", "deadline", {});
    case "late":
      return outcome(job, "enqueued", "late start", { refund: true });
    case "returned":
      if (end.refusal !== null) return outcome(job, "failed", "output rejected", { error: end.refusal });
      return outcome(job, "succeeded", null, { output: end.output });
    case "threw":
      return thrown(job, end.error, end.abortedBy, policy);
  }
}

function thrown(job: ClaimedJob, error: unknown, abortedBy: unknown, policy: RetryPolicy): Outcome {
  const shown = serializeError(explained(error, abortedBy));
  if (abortedBy instanceof CancelledError || caused(error, CancelledError))
    return outcome(job, "deleted", "cancelled", shown);
  if (abortedBy instanceof ShutdownError) return outcome(job, "enqueued", "shutdown", { ...shown, refund: true });
  if (caused(error, PermanentError)) return outcome(job, "failed", "permanent", shown);
  const snooze = caused(error, SnoozeError);
  if (snooze) return outcome(job, "scheduled", "snoozed", { delay: pause(snooze), refund: true });
  if (job.attempt >= job.maxAttempts) return outcome(job, "failed", "exhausted", shown);
  return outcome(job, "scheduled", "retry", {
    ...shown,
    delay: retryDelay(policy.backoff, job.attempt, error, policy.random),
  });
}

/** What a handler throws when it is timed out is often no more than "aborted": the history says what it was. */
function explained(error: unknown, abortedBy: unknown): unknown {
  const timedOut = abortedBy instanceof TimeoutError || abortedBy instanceof StallError;
  if (!timedOut || caused(error, TimeoutError) || caused(error, StallError)) return error;
  return new Error(abortedBy.message, { cause: error });
}

/** A `SnoozeError` made by hand may hold anything, or throw when it is read. */
function pause(snooze: SnoozeError): number {
  try {
    const delay: unknown = snooze.delay;
    return typeof delay === "number" && delay > 0 ? Math.ceil(Math.min(delay, LONGEST_DURATION)) : 0;
  } catch {
    return 0;
  }
}

function outcome(job: ClaimedJob, state: Outcome["state"], reason: Reason | null, rest: Partial<Outcome>): Outcome {
  const { id, claim } = job;
  return { id, claim, state, reason, delay: 0, refund: false, error: null, trace: null, output: null, ...rest };
}

/** The first of `type` among the error and its causes. A chain that is too long, or hostile, ends the search. */
function caused<E extends Error>(error: unknown, type: new (...args: never[]) => E): E | null {
  try {
    for (let depth = 0, at = error; depth < 16 && at instanceof Error; depth += 1, at = at.cause) {
      if (at instanceof type) return at;
    }
  } catch {
    // A getter or proxy that throws: nothing more to find.
  }
  return null;
}
