/**
 * What a store keeps and gives back: jobs, their history, servers, queues, counts. What it is asked for is in `store.ts`.
 * Durations are in milliseconds; instants are the store's, with millisecond resolution.
 */

import type { NewJob } from "./requests.ts";
import type { Misfire } from "./rules/misfire.ts";

/** Valid JSON, encoded. */
export type JsonText = string;

/**
 * The states of a job, and every legal move between them:
 *
 *     insert ─→ scheduled ──due──→ enqueued ──claim──→ processing ─→ succeeded
 *        └──────────────────────────↑  ↑                  │ ├──────→ deleted
 *                                   │  └─retry/hand back──┤ └──────→ failed
 *               scheduled ←─retry later / snooze──────────┘
 * A job with a limit is `throttled` wherever another would be `enqueued`: it waits until a claim takes it from its key's
 * budget, and moves straight to `processing`.
 *
 *     insert ─→ awaiting ──parents, batch──→ scheduled, enqueued; deleted when a parent ended as it must not
 *     requeue: failed, scheduled, succeeded, deleted ─→ enqueued
 *     delete:  awaiting, enqueued, throttled, scheduled, failed ─→ deleted; processing is marked and ends as deleted unless
 *              it succeeds
 *
 * `failed` is not an end: the job stays with the live ones until someone requeues or deletes it.
 */
export const JOB_STATES = [
  "awaiting",
  "scheduled",
  "throttled",
  "enqueued",
  "processing",
  "succeeded",
  "failed",
  "deleted",
] as const;
export type JobState = (typeof JOB_STATES)[number];

/** States whose jobs have moved to the archive. */
export const ARCHIVED_STATES = ["succeeded", "deleted"] as const;
export type ArchivedState = (typeof ARCHIVED_STATES)[number];

/** States that a server may ask for when an attempt ends. */
export const OUTCOME_STATES = ["succeeded", "failed", "deleted", "scheduled", "enqueued"] as const;
export type OutcomeState = (typeof OUTCOME_STATES)[number];

/** Ends of a job that others can wait for. */
export const PARENT_STATES = ["succeeded", "failed", "deleted"] as const;
export type ParentState = (typeof PARENT_STATES)[number];

/** Positive, increasing with insertion, never reused. */
export type JobId = number;

/** Positive, increasing, never reused. */
export type BatchId = number;

/** The fencing token of one claim. `claim` grows by one each time the job is claimed and never goes back. */
export interface JobRef {
  readonly id: JobId;
  readonly claim: number;
}

/**
 * How many jobs of a key may run at once, and how many may start in a time, over all servers. The numbers belong to the
 * key: those of the newest insert count for all its jobs, at once. Without a rate `per` and `burst` count nothing.
 */
export interface Limit {
  /** 1 to 200 bytes. Jobs of any kind and queue may share it. */
  readonly key: string;
  /** Running at once, 1 to 1,000,000; 0 = any number, which needs a rate. */
  readonly max: number;
  /** Starts in `per`, 1 to 1,000,000; 0 = no rate. No window of length `per` holds more than `rate + burst` admissions. */
  readonly rate: number;
  /** Whole milliseconds, at least 1. */
  readonly per: number;
  /** Starts that may follow each other at once, 1 to 1,000,000. */
  readonly burst: number;
}

/** What is written with a job at insertion and what running it adds. */
export interface JobFields extends JobRef {
  readonly kind: string;
  readonly queue: string;
  readonly args: JsonText;
  readonly priority: number;
  /** Number of the current or latest attempt; 0 before the first claim. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly timeout: number | null;
  /** When it is, or last became, due. */
  readonly runAt: Date;
  readonly deadline: Date | null;
  readonly createdAt: Date;
  readonly title: string | null;
  readonly tags: readonly string[];
  readonly meta: Readonly<Record<string, string>>;
  /** The recurring job that it is a run of. */
  readonly recurringId: string | null;
  /** Of the job's limit; null = none. */
  readonly limitKey: string | null;
  /** Checkpoints: what running attempts saved with `setParams`, kept from attempt to attempt. */
  readonly params: Readonly<Record<string, JsonText>>;
  /** Jobs that this one waits for, or waited for, each once; some may have been removed since. */
  readonly parents: readonly JobId[];
  /** The batch that it is a member of. */
  readonly batch: BatchId | null;
}

export interface ClaimedJob extends JobFields {
  /** It was admitted by a rate: it has to start at once or be handed back. */
  readonly limited: boolean;
  readonly attemptedAt: Date;
}

export interface HistoryEntry {
  readonly at: Date;
  /** State that the job moved to. */
  readonly state: JobState;
  readonly attempt: number;
  readonly reason: string;
  readonly error: string | null;
  readonly trace: string | null;
  /** Null for an operator's action. */
  readonly server: string | null;
}

export interface JobRecord extends JobFields {
  readonly state: JobState;
  readonly attemptedAt: Date | null;
  /** Set while succeeded, failed or deleted. */
  readonly finalizedAt: Date | null;
  /** Latest claimer. */
  readonly server: string | null;
  readonly cancelRequested: boolean;
  /** Oldest first, the latest 16. */
  readonly history: readonly HistoryEntry[];
  readonly output: JsonText | null;
  /** Percent, 0 to 100: what an attempt reported last, also after the job has ended or was requeued. Null = nothing yet. */
  readonly progress: number | null;
  /** The batch that it waits for, or has waited for. */
  readonly afterBatch: BatchId | null;
  /** How many parents it still waits for, the batch among them; 0 unless `awaiting`. */
  readonly pendingParents: number;
  /** Jobs that wait, or waited, for this one, by id; the first 1,000. */
  readonly children: readonly JobId[];
}

/**
 * Jobs that are one piece of work. A batch finishes once, for good: when it is sealed, each of its jobs has succeeded or was
 * deleted (or, having failed, was removed by retention), and every batch nested in it has finished.
 */
export interface BatchRecord {
  readonly id: BatchId;
  readonly description: string | null;
  readonly meta: Readonly<Record<string, string>>;
  /** The batch that it is nested in. */
  readonly parent: BatchId | null;
  /** Jobs that have ever joined, those that retention has removed included. */
  readonly total: number;
  /** Its makers have added all that they had. It still takes jobs until it has finished. */
  readonly sealed: boolean;
  /** Jobs that are there, by state. */
  readonly counts: Readonly<Record<JobState, number>>;
  readonly createdAt: Date;
  /** Null = not yet. Stays when a job of the batch is requeued later. */
  readonly finishedAt: Date | null;
  /** Batches that were ever nested in it, and how many of them have finished. */
  readonly nested: number;
  readonly nestedFinished: number;
}

/** A line that an attempt has logged. */
export interface ConsoleLine {
  /** At least 1; grows within the job, also from attempt to attempt. */
  readonly seq: number;
  readonly attempt: number;
  /** When the store got it. */
  readonly at: Date;
  readonly text: string;
}

/** A recurring job: what it runs, and when it has run and will run. */
export interface RecurringRecord extends RecurringDefinition {
  /** Grows with every change and is never given to another row or state again, also when the id is removed and set anew. */
  readonly version: number;
  readonly paused: boolean;
  /** When it is due next; null = never. */
  readonly nextRunAt: Date | null;
  /** Latest occurrence that was dealt with. */
  readonly lastRunAt: Date | null;
  /** Latest job that it made. */
  readonly lastJobId: JobId | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** What a recurring job is, apart from its state. */
export interface RecurringDefinition {
  readonly id: string;
  /** Whose set of recurring jobs it belongs to. */
  readonly group: string | null;
  /** For whoever fires it; to the store it is text. */
  readonly cron: string;
  readonly timeZone: string;
  readonly misfire: Misfire;
  /** False: it is passed over while the job that it made last is scheduled, enqueued or processing. */
  readonly overlap: boolean;
  readonly template: RecurringTemplate;
}

/** What its jobs are like. */
export type RecurringTemplate = Omit<NewJob, "delay" | "runAt" | "deadline" | "recurringId" | "batch" | "afterBatch">;

export interface ServerInfo {
  /** Unique per start. */
  readonly id: string;
  readonly hostname: string;
  readonly pid: number;
  readonly version: string;
  readonly queues: readonly string[];
  readonly kinds: readonly string[];
  /** Job slots over all pools. */
  readonly workers: number;
  /** Silence after which this server counts as dead. Its own promise, so that servers of different settings can share a store. */
  readonly deadAfter: number;
}

/** One non-empty bucket. */
export interface SeriesPoint {
  readonly at: Date;
  readonly succeeded: number;
  readonly failed: number;
  readonly deleted: number;
  /** Attempts that failed and will be repeated; snoozes and hand-backs are not among them. */
  readonly retried: number;
}

export interface ServerRecord extends ServerInfo {
  readonly running: number;
  readonly startedAt: Date;
  readonly heartbeatAt: Date;
  /** When it was declared dead. */
  readonly deadAt: Date | null;
}

export interface QueueRecord {
  readonly name: string;
  readonly paused: boolean;
  readonly awaiting: number;
  readonly scheduled: number;
  readonly throttled: number;
  readonly enqueued: number;
  readonly processing: number;
  readonly failed: number;
  /** Milliseconds that the longest-due enqueued job has been waiting; null = none is. */
  readonly latency: number | null;
}

export interface Counts {
  readonly awaiting: number;
  readonly scheduled: number;
  readonly throttled: number;
  readonly enqueued: number;
  readonly processing: number;
  readonly failed: number;
  /** Scheduled jobs that have had an attempt. */
  readonly retries: number;
  /** All-time totals, pruned jobs included. A requeued job that ends again counts again. */
  readonly succeeded: number;
  readonly deleted: number;
  /** A count of live jobs stopped at 100,000: read it as "at least". */
  readonly capped: boolean;
}

/** A key of limits that is in use, or was within the last hour. */
export interface LimitRecord extends Limit {
  /** Jobs running, at most 100,000 counted. */
  readonly active: number;
  /** Jobs waiting, at most 100,000 counted. */
  readonly throttled: number;
  /** When the next job may start, by what is known now; null while `max` jobs are running. */
  readonly opensAt: Date | null;
}
