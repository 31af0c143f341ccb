/**
 * Why a job moved, as its history says it. A plain success has no reason and leaves no entry. Jobs that were deleted because
 * of a parent name it: `parentReason` in `dependencies.ts`.
 */
export const REASONS = [
  /** An attempt failed and is repeated later. */
  "retry",
  /** The last allowed attempt failed. */
  "exhausted",
  /** The handler threw `PermanentError`, or the args do not fit the schema. */
  "permanent",
  "snoozed",
  /** Deleted while it ran. */
  "cancelled",
  /** An attempt would have started after the job's deadline. */
  "deadline",
  /** The output is not JSON or too large. */
  "output rejected",
  /** The store refused the outcome. */
  "rejected",
  /** Handed back by a stopping server. */
  "shutdown",
  /** Held by a living server that does not run it: the claim's reply was lost, or the server had fenced itself. Handed back. */
  "lost",
  /** Admitted by a rate, but its handler could not start soon enough after that. Handed back. */
  "late start",
  /** Its server was declared dead. */
  "orphaned",
  /** By an operator. */
  "requeued",
  /** By an operator. */
  "deleted",
  /** No handler for the kind. */
  "unknown kind",
] as const;
export type Reason = (typeof REASONS)[number];
