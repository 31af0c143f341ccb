/**
 * Every error that kiln throws or hands to a handler. Each class has a stable `code`; test for the code or the class,
 * never for the message.
 */

/** Base of all errors of kiln. */
export abstract class KilnError extends Error {
  /** Stable across releases. */
  abstract readonly code: string;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** One thing that is wrong with a value that was passed in. */
export interface Problem {
  /** Where the value stands, for example `queues.mail` or `jobs[3].maxAttempts`. */
  readonly field: string;
  /** The value as short readable text. */
  readonly value: string;
  /** The rule that it breaks, for example `must be an integer from 1 to 32767`. */
  readonly rule: string;
}

/** A bad argument, option or configuration. Names every problem at once; nothing was changed. */
export class InvalidError extends KilnError {
  readonly code = "invalid";
  readonly problems: readonly Problem[];

  constructor(what: string, problems: readonly Problem[]) {
    const lines = problems.map((p) => `${p.field} ${p.rule}, got ${p.value}`);
    super(lines.length === 1 ? `${what}: ${lines[0]}` : `${what}:\n  ${lines.join("\n  ")}`);
    this.problems = problems;
  }
}

/** The thing named does not exist. */
export class NotFoundError extends KilnError {
  readonly code = "not_found";
}

/** The call does not fit what has happened before, for example a second `run()` or a server id in use. */
export class ConflictError extends KilnError {
  readonly code = "conflict";
}

/** A batch that has finished takes no more jobs and no nested batches. */
export class ClosedError extends KilnError {
  readonly code = "batch_closed";
}

/** A write for a running job was refused: the job is no longer held by this claim. */
export class ClaimLostError extends KilnError {
  readonly code = "claim_lost";
}

/** A call did not answer within its time limit. Whether it took effect is unknown. */
export class DeadlineError extends KilnError {
  readonly code = "deadline";
}

/** What went wrong inside a store. `retryable` tells a passing fault from one that will not go away by itself. */
export class StoreError extends KilnError {
  readonly code: StoreErrorCode;
  readonly retryable: boolean;

  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retryable = RETRYABLE.has(code);
  }
}

export type StoreErrorCode =
  /** Locked by someone else for longer than the call may wait. Retryable. */
  | "store_busy"
  /** The database can't be reached or lost the connection. Retryable. */
  | "store_unavailable"
  /** The disk or quota is full. Retryable: space may come back. */
  | "store_full"
  /** The database, file or directory may not be written. */
  | "store_read_only"
  /** The file is not a database, or is damaged. */
  | "store_corrupt"
  /** The schema was made by a newer version of kiln. */
  | "store_newer"
  /** The store was closed. */
  | "store_closed"
  /** Anything else; the cause says what. */
  | "store_failed";

const RETRYABLE: ReadonlySet<string> = new Set(["store_busy", "store_unavailable", "store_full"]);

/** Thrown by a handler: run the job again after `delay` without using up an attempt. */
export class SnoozeError extends KilnError {
  readonly code = "snooze";
  /** Milliseconds, at least 0. */
  readonly delay: number;

  constructor(delay: number) {
    super(`snoozed for ${delay} ms`);
    this.delay = delay;
  }
}

/** Thrown by a handler: the job can never succeed, fail it without further attempts. */
export class PermanentError extends KilnError {
  readonly code = "permanent";
}

/** The job was deleted while it ran (an abort reason), or a handler threw it to delete its own job. */
export class CancelledError extends KilnError {
  readonly code = "cancelled";
}

/** The attempt took longer than its timeout. */
export class TimeoutError extends KilnError {
  readonly code = "timeout";
}

/** The handler gave no sign of life for its stall timeout. */
export class StallError extends KilnError {
  readonly code = "stall";
}

/** The server is stopping and `shutdownTimeout` has passed. The job goes back without using up an attempt. */
export class ShutdownError extends KilnError {
  readonly code = "shutdown";
}

/** The server can't prove that it still holds the job; someone else may run it. */
export class FencedError extends KilnError {
  readonly code = "fenced";
}
