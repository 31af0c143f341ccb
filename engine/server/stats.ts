/** Counters of one server since it was made, and what it is doing now. */
import type { AttemptEnd } from "../rules/classify.ts";
import type { Outcome } from "../store.ts";
import type { Decision } from "./completer.ts";

export interface ServerStats {
  /** Jobs handed to a handler. */
  readonly claimed: number;
  /** Handler runs that threw, timed out, stalled or were abandoned; not snoozes, cancellations and hand-backs. */
  readonly failed: number;
  /** The following count what the store has applied. */
  readonly succeeded: number;
  /** Failures that will be repeated. */
  readonly retried: number;
  /** Failures that will not: the job is in `failed`. */
  readonly dead: number;
  readonly snoozed: number;
  /** Ended as deleted: cancelled, or past the deadline. */
  readonly cancelled: number;
  /** Given back without using an attempt: at shutdown, or lost. */
  readonly handedBack: number;
  /** Jobs of dead servers that this server, as leader, sent on their way. */
  readonly rescued: number;
  /** Outcomes that came too late: the claim was lost. */
  readonly stale: number;
  /** Outcomes that could not be stored before the server had to stop: their jobs are rescued and run again. */
  readonly dropped: number;
  /** Handlers aborted because the server could not prove that it held their jobs. */
  readonly fencedHandlers: number;
  /** Handlers given up because they ignored their abort signal. */
  readonly abandoned: number;
  /** Jobs that a heartbeat found to be held by this server though nobody here ran them. */
  readonly lost: number;
  /** Failed calls of the store. */
  readonly faults: number;
  /** Times that something blocked the event loop for longer than `heartbeatInterval`. */
  readonly loopBlocks: number;

  /** Handlers running. */
  readonly inFlight: number;
  /** Workers of all pools. */
  readonly capacity: number;
  /** Outcomes that the store has not decided on. */
  readonly pending: number;
  /** Milliseconds since the latest successful beat was sent; null = none yet. */
  readonly heartbeatAge: number | null;
  readonly leader: boolean;
  readonly fenced: boolean;
  /** The store's wake-ups reach this server. */
  readonly listening: boolean;
}

export class Counters {
  claimed = 0;
  failed = 0;
  succeeded = 0;
  retried = 0;
  dead = 0;
  snoozed = 0;
  cancelled = 0;
  handedBack = 0;
  rescued = 0;
  stale = 0;
  dropped = 0;
  fencedHandlers = 0;
  abandoned = 0;
  lost = 0;

  /** A handler run came to an end, of which `outcome` was made. */
  ended(end: AttemptEnd, outcome: Outcome): void {
    if (end.type === "threw" && (outcome.reason === "retry" || outcome.state === "failed")) this.failed += 1;
  }

  decided(decision: Decision, outcome: Outcome): void {
    if (decision === "stale") this.stale += 1;
    else if (decision === "dropped") this.dropped += 1;
    else if (decision === "succeeded") this.succeeded += 1;
    else if (decision === "failed") this.dead += 1;
    else if (decision === "deleted") this.cancelled += 1;
    else if (!outcome.refund) this.retried += 1;
    else if (outcome.reason === "snoozed" || outcome.reason === "unknown kind") this.snoozed += 1;
    else this.handedBack += 1;
  }
}
