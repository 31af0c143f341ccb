/** All that `import … from "kiln"` gives. */

// -------------------------------------------------------------------------------------------------------------- define

export type { Duration } from "./duration.ts";
export {
  type AnyJobDefinition,
  defineJob,
  type Handler,
  type HandlerContext,
  type HandlerFunction,
  type HandlerInterceptor,
  type Job,
  type JobDefinition,
  type JobOptions,
  type JobSpec,
  type RecurringSpec,
  type SetParamOptions,
} from "./job.ts";
export type { LimitOptions } from "./limit.ts";
export { type Backoff, constant, defaultBackoff, delays, exponential, snooze } from "./retry.ts";

// -------------------------------------------------------------------------------------------- enqueue and administrate

export { Batch, type BatchOptions } from "./batch.ts";
export {
  Client,
  type ClientOptions,
  type ConsoleOptions,
  type EnqueueInterceptor,
  type EnqueueOptions,
  type Enqueuer,
  type JobSelection,
  type JobView,
  type JobViewPage,
  type RecurringOptions,
  type RecurringView,
  type SeriesOptions,
  type SpecOptions,
  type UniqueOptions,
} from "./client.ts";
export { Flow } from "./flow.ts";

// ----------------------------------------------------------------------------------------------------------------- run

export type { Logger } from "./logger.ts";
export type { HandlerRun, PoolConfig, ServerConfig } from "./server/config.ts";
export type { DroppedEvent, ServerEvent, TransitionEvent } from "./server/events.ts";
export type { Health } from "./server/health.ts";
export { Server } from "./server/server.ts";
export type { ServerStats } from "./server/stats.ts";

// -------------------------------------------------------------------------------------------------------------- errors

export {
  CancelledError,
  ClaimLostError,
  ClosedError,
  ConflictError,
  DeadlineError,
  FencedError,
  InvalidError,
  KilnError,
  NotFoundError,
  PermanentError,
  type Problem,
  ShutdownError,
  SnoozeError,
  StallError,
  StoreError,
  type StoreErrorCode,
  TimeoutError,
} from "./errors.ts";

// ----------------------------------------------------------------------------------------------- read and write stores

export { MISFIRES, type Misfire } from "./rules/misfire.ts";
export { REASONS, type Reason } from "./rules/reasons.ts";
export type { Occurrence } from "./rules/recurring.ts";
export {
  ARCHIVED_STATES,
  type ArchivedState,
  type BatchId,
  type BatchPage,
  type BatchQuery,
  type BatchRecord,
  type Beat,
  type BeatReply,
  type ClaimedJob,
  type ClaimQuery,
  type ClaimReply,
  type ConsoleEntry,
  type ConsoleLine,
  type ConsoleQuery,
  type Counts,
  type DueRecurring,
  type FinishResult,
  type FireRecurring,
  type HistoryEntry,
  type InsertedJob,
  type InsertOptions,
  JOB_STATES,
  type JobFields,
  type JobFilter,
  type JobId,
  type JobPage,
  type JobQuery,
  type JobRecord,
  type JobRef,
  type JobState,
  type JsonText,
  type LeadQuery,
  type LeadReply,
  type Lease,
  type Limit,
  type LimitQuery,
  type LimitRecord,
  type NewBatch,
  type NewJob,
  type Orphan,
  OUTCOME_STATES,
  type Outcome,
  type OutcomeState,
  PARENT_STATES,
  type Parent,
  type ParentState,
  type PruneQuery,
  type PutRecurring,
  type QueueRecord,
  type RecurringDefinition,
  type RecurringRecord,
  type RecurringTemplate,
  type Retention,
  type SeriesPoint,
  type SeriesQuery,
  type ServerInfo,
  type ServerRecord,
  type Store,
  type StoreCapabilities,
  type StoreEvent,
  type StoreListener,
  type TransactionWriter,
  type UniqueKey,
  type Writer,
} from "./store.ts";

// --------------------------------------------------------------------------------------------------------- environment

export { type CancelTimer, type Host, type Runtime, type StopSignal, systemRuntime } from "./runtime.ts";
export { VERSION } from "./version.ts";
