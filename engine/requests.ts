/** What a store is asked for, and what it answers. All durations are in milliseconds. `store.ts` has the promises. */
import type {
  BatchId,
  BatchRecord,
  ClaimedJob,
  JobId,
  JobRecord,
  JobRef,
  JobState,
  JsonText,
  Limit,
  OutcomeState,
  ParentState,
  RecurringDefinition,
  RecurringRecord,
} from "./records.ts";

// ---------------------------------------------------------------------------------------------------- insert

export interface NewJob {
  readonly kind: string;
  readonly queue: string;
  readonly args: JsonText;
  /** Higher runs first; -32768 to 32767. */
  readonly priority: number;
  /** At least 1. */
  readonly maxAttempts: number;
  /** Per attempt; 0 = none; null = the kind's or the server's. */
  readonly timeout: number | null;
  /** From the store's now; used when `runAt` is null. At most 0 = at once. */
  readonly delay: number;
  readonly runAt: Date | null;
  /** An attempt that would start after this instant deletes the job instead. */
  readonly deadline: Date | null;
  readonly title: string | null;
  /** At most 32, each of 1 to 64 bytes. */
  readonly tags: readonly string[];
  /** At most 64 keys and 16 KiB, keys and values together; of keys that begin with `kiln.` as much again. */
  readonly meta: Readonly<Record<string, string>>;
  /** Null = none. A job that has one waits in `throttled`, never in `enqueued`. */
  readonly limit: Limit | null;
  /** The recurring job that it is a run of. */
  readonly recurringId: string | null;
  /** Null = any number of such jobs. */
  readonly unique: UniqueKey | null;
  /**
   * Jobs whose end it waits for, in state `awaiting`. Several entries for one job must all be met. It goes on when all
   * parents have reached a state that is asked for, with `delay` counted from the insert, and is deleted, for the reason
   * `parent <id> <state>`, as soon as one has succeeded or was deleted and that is not asked for. A failed parent may be
   * requeued, so it is waited for unless `failed` is asked for. A parent that retention removes counts as deleted.
   */
  readonly parents: readonly Parent[];
  /** The batch that it joins; null = none. A duplicate does not join. */
  readonly batch: BatchId | null;
  /**
   * A batch that has to finish before it goes on, besides its parents: not the one that it joins, nor one that holds that.
   * Null = none.
   */
  readonly afterBatch: BatchId | null;
}

export type Parent = {
  /** At least one. */
  readonly on: readonly ParentState[];
} & (
  | { readonly id: JobId }
  /** Position in the same call, before or after the child. A duplicate there stands for the holder of its key. */
  | { readonly index: number }
);

/**
 * While a job holds a key, inserting another with it gives a duplicate: nothing is added. Within one call a repeated key is
 * always a plain duplicate of the first job that has it. `rules/unique.ts` has the decisions.
 */
export interface UniqueKey {
  /** 32 lowercase hex digits; the client makes them of the job's kind and of the user's key. */
  readonly key: string;
  /**
   * How long the key is held, counted from the insert, whatever becomes of the job; more than 0. Null = until the job
   * succeeds, fails or is deleted; when it is requeued it takes the key again. A job that is deleted at its insert, because
   * of a parent, never holds the key, with a window or without.
   */
  readonly window: number | null;
  /**
   * What a duplicate does to the holder. `keep`: nothing. `replace`: while the holder waits it takes the newcomer's args,
   * meta, tags, title, priority and run time; an enqueued one takes a run time only when that is in the future, and is
   * scheduled again. `debounce`: the job runs `delay` after it was inserted last, whatever `runAt` says, and a duplicate
   * pushes and replaces the holder while that is scheduled.
   */
  readonly onConflict: "keep" | "replace" | "debounce";
}

export interface InsertedJob {
  /** Of a duplicate: the holder's. */
  readonly id: JobId;
  /** Of a duplicate: the holder's; `deleted` when the key's window outlived the holder and retention has removed it. */
  readonly state: JobState;
  /** Nothing was added, because another job holds the unique key. */
  readonly duplicate: boolean;
  /** A duplicate that the holder has taken its payload from. */
  readonly replaced: boolean;
}

export interface InsertOptions {
  /**
   * Nothing is inserted unless this claim holds its job. For jobs that a running one adds: a handler whose job has been
   * taken away must not add them, because the next run of its job does.
   */
  readonly whileHeld?: JobRef;
}

// ---------------------------------------------------------------------------------------------------- batches

export interface NewBatch {
  readonly description: string | null;
  readonly meta: Readonly<Record<string, string>>;
  /** The batch that it is nested in; null = none. */
  readonly parent: BatchId | null;
}

export interface BatchQuery {
  /** Only batches that are nested in this one, not deeper. Default: all. */
  readonly parent?: BatchId;
  /** 1 to 500, default 20; larger counts as 500. */
  readonly limit?: number;
  /** `next` of the page before. */
  readonly cursor?: string;
}

export interface BatchPage {
  /** Newest first. */
  readonly batches: readonly BatchRecord[];
  /** Null = no more. */
  readonly next: string | null;
}

// ----------------------------------------------------------------------------------------------------- claim

export interface ClaimQuery {
  /** Id of the claiming server; a server that is not registered, or was declared dead, gets `known: false` and no jobs. */
  readonly server: string;
  /** The server's own count of its claim calls. Stored with each job and given back in its lease. */
  readonly sequence: number;
  /** In strict order: all ready jobs of the first before any of the second. Names may repeat or be unknown. */
  readonly queues: readonly string[];
  /** Only these kinds. Empty = any kind. */
  readonly kinds: readonly string[];
  /** At most this many jobs, at least 1. */
  readonly limit: number;
}

export interface ClaimReply {
  readonly known: boolean;
  /** In order of queue, priority (higher first), id. May be fewer than are ready; never the same job twice. */
  readonly jobs: readonly ClaimedJob[];
  /**
   * Milliseconds until something else could become ready for this query: 0 = there may be more now, null = nothing is
   * scheduled. Only meaningful until the next write to the store.
   */
  readonly nextIn: number | null;
}

// ---------------------------------------------------------------------------------------------------- finish

/** What a server says of an attempt that ended. `rules/outcome.ts` says how a store applies it. */
export interface Outcome extends JobRef {
  readonly state: OutcomeState;
  /** For `scheduled`: from the store's now. At most 0 = enqueued. */
  readonly delay: number;
  /** The attempt does not count. */
  readonly refund: boolean;
  /** Why, for the history: one of `rules/reasons.ts` or, from users of the store, any short text. Null adds no entry. */
  readonly reason: string | null;
  readonly error: string | null;
  readonly trace: string | null;
  /** Kept only when the job ends succeeded or deleted. */
  readonly output: JsonText | null;
}

export type FinishResult =
  /** Stored; `state` is where the job is now, which a cancel request may have changed to `deleted`. */
  | { readonly status: "applied"; readonly state: JobState }
  /** The job is not processing under this claim (finished before, rescued, requeued, unknown). Nothing was changed. */
  | { readonly status: "stale" }
  /** Locked by another transaction; send it again. */
  | { readonly status: "busy" }
  /** Can never be stored as it is, for example because its output is not JSON. Nothing was changed. */
  | { readonly status: "rejected"; readonly rule: string };

// --------------------------------------------------------------------------------------------------- console

/** What a running job reports of itself. */
export interface ConsoleEntry {
  /** Oldest first; each at most 4 KiB, without NUL and without lone surrogates. */
  readonly lines: readonly string[];
  /** Percent, 0 to 100; null = unchanged. */
  readonly progress: number | null;
}

export interface ConsoleQuery {
  readonly id: JobId;
  /** Only lines with a greater `seq`; at least 0, default 0. */
  readonly after?: number;
  /** 1 to 500, default 100. */
  readonly limit?: number;
}

// ------------------------------------------------------------------------------------------------ coordinate

export interface Beat {
  readonly server: string;
  /** Handlers running now. */
  readonly running: number;
}

export interface BeatReply {
  /** False: never registered, unregistered or declared dead. Nothing was written; all its jobs are, or will be, rescued. */
  readonly known: boolean;
  /** Every job that is processing under this server. */
  readonly leases: readonly Lease[];
  /** Sorted. */
  readonly pausedQueues: readonly string[];
}

export interface Lease extends JobRef {
  /** `ClaimQuery.sequence` of the call that claimed it. */
  readonly sequence: number;
  readonly cancelRequested: boolean;
}

export interface LeadQuery {
  readonly name: string;
  readonly holder: string;
  /** How long the lease lasts without renewal. */
  readonly ttl: number;
}

export interface LeadReply {
  readonly held: boolean;
  /** For how long without a break; 0 when just acquired or not held. */
  readonly heldFor: number;
}

/** A job that is processing but that no living server holds. */
export interface Orphan extends JobRef {
  readonly kind: string;
  readonly queue: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Who claimed it. */
  readonly server: string;
  readonly cancelRequested: boolean;
  /** Reason of the latest history entry. */
  readonly lastReason: string | null;
}

// ------------------------------------------------------------------------------------------------- recurring

export interface PutRecurring extends RecurringDefinition {
  /** Of the row as it was read; 0 = there is none yet. */
  readonly version: number;
  readonly paused: boolean;
  readonly nextRunAt: Date | null;
}

export interface DueRecurring {
  /** The store's clock. */
  readonly now: Date;
  /** Not paused and due at `now` or before; the longest due first. */
  readonly rows: readonly RecurringRecord[];
  /** Milliseconds until the next row is due, whichever that is; 0 = there are due ones; null = none will be. */
  readonly nextIn: number | null;
}

export interface FireRecurring {
  readonly id: string;
  /** Of the row as it was read. */
  readonly version: number;
  readonly nextRunAt: Date | null;
  readonly lastRunAt: Date | null;
  /** May be none: then only the schedule moves. */
  readonly jobs: readonly NewJob[];
}

// -------------------------------------------------------------------------------------------------- maintain

export interface Retention {
  /** Milliseconds that jobs of this state are kept; null = forever. */
  readonly succeeded: number | null;
  readonly deleted: number | null;
  readonly failed: number | null;
}

export interface PruneQuery extends Retention {
  /** Rows of servers silent for longer than this and than their own `deadAfter`. */
  readonly servers: number;
  /** Per-minute statistics older than this are folded into the all-time row. */
  readonly stats: number;
  /** At most this many rows of each kind in one call. */
  readonly limit: number;
}

// ----------------------------------------------------------------------------------------------------- admin

/** All fields that are set must match. Needs `ids` or `state`. */
export interface JobFilter {
  readonly ids?: readonly JobId[];
  readonly state?: JobState;
  readonly queue?: string;
  readonly kind?: string;
  readonly batch?: BatchId;
  readonly recurringId?: string;
}

// --------------------------------------------------------------------------------------------------- inspect

/**
 * Orders: scheduled by (runAt, id); enqueued and throttled by (priority high to low, id); awaiting and processing by id,
 * newest first;
 * succeeded, failed and deleted by (finalizedAt, id), newest first.
 */
export interface JobQuery {
  readonly state: JobState;
  readonly queue?: string;
  readonly kind?: string;
  readonly batch?: BatchId;
  readonly recurringId?: string;
  readonly tag?: string;
  /** 1 to 500, default 20; larger counts as 500. */
  readonly limit?: number;
  /** `next` of the page before. */
  readonly cursor?: string;
}

export interface JobPage {
  readonly jobs: readonly JobRecord[];
  /** Null = no more. With a tag a page may be short, or empty, while more follow. */
  readonly next: string | null;
}

export interface LimitQuery {
  /** Only keys after this one. Default: from the first. */
  readonly after?: string;
  /** 1 to 500, default 20; larger counts as 500. */
  readonly limit?: number;
}

export interface SeriesQuery {
  readonly from: Date;
  readonly to: Date;
  /** A positive multiple of 60,000 ms; buckets are aligned to 1970. */
  readonly step: number;
}
