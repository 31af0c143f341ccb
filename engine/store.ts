/**
 * The Store contract: what a database has to do for kiln, used alike by client, server, dashboard and simulator.
 *
 * Rules that hold for every method:
 * - **One call is one transaction.** It happens wholly or not at all. `finish` decides per outcome; `delete`, `requeue`,
 *   `sweep` and `prune` may take many rows in several transactions, each of which leaves the store consistent.
 * - **Time is the store's.** Only durations cross this interface, in milliseconds, apart from a user's own `runAt` and
 *   `deadline`. Instants that come back are the store's, with millisecond resolution.
 * - **Every write for a running job is fenced** by (id, claim) and applies only while that claim holds the job.
 * - **Errors** are those of `errors.ts`: `InvalidError`, `NotFoundError`, `ConflictError`, `ClaimLostError`, `StoreError`.
 *   A driver's own errors never leave the store.
 * - JSON crosses as text (`JsonText`), so that values come back exactly as they were encoded.
 *
 * `test/conformance` (exported as `kiln/conformance`) proves these promises for any store.
 */
import type {
  ClaimedJob,
  ConsoleLine,
  Counts,
  JobId,
  JobRecord,
  JobRef,
  JobState,
  JsonText,
  Limit,
  LimitRecord,
  OutcomeState,
  ParentState,
  QueueRecord,
  RecurringDefinition,
  RecurringRecord,
  SeriesPoint,
  ServerInfo,
  ServerRecord,
} from "./records.ts";

export * from "./records.ts";

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
  readonly tags: readonly string[];
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
   * succeeds, fails or is deleted; when it is requeued it takes the key again.
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

// -------------------------------------------------------------------------------------------------- subscribe

/** Hints: events may be lost, repeated or reordered. */
export type StoreEvent =
  /** The channel has just been (re)connected: anything may have happened before. */
  | { readonly type: "connected" }
  /** The channel is down; poll until it is connected again. */
  | { readonly type: "disconnected" }
  /** Jobs of `queue` (null = any) are ready, or become ready in `delay` milliseconds. */
  | { readonly type: "ready"; readonly queue: string | null; readonly delay: number }
  /** A recurring job was set: it may be due sooner than was known. */
  | { readonly type: "recurring" }
  /** A running job was asked to stop. */
  | { readonly type: "cancel"; readonly id: JobId }
  /** A queue was paused or resumed. */
  | { readonly type: "queue"; readonly queue: string };

export type StoreListener = (event: StoreEvent) => void;

/** What a store can do beyond the contract's minimum. */
export interface StoreCapabilities {
  /** Jobs survive the end of the process. Default false. */
  readonly durable: boolean;
  /** Events of one process reach subscribers in others. Default false: other processes find work by polling. */
  readonly crossProcessEvents: boolean;
}

export interface Store {
  readonly capabilities: StoreCapabilities;

  /** The store's clock. */
  now(): Promise<Date>;

  /**
   * Adds jobs, all or none apart from duplicates of unique jobs; ids of new jobs grow in the order given. Emits `ready` for
   * the queues concerned.
   * @throws InvalidError naming the position of each bad job, and jobs that would wait for each other for ever
   * @throws NotFoundError naming the position of a job with a parent that does not exist
   */
  insert(jobs: readonly NewJob[]): Promise<InsertedJob[]>;

  /**
   * All that an idle server needs in one call: moves due jobs of the queried lanes to `enqueued`, claims, and says when
   * to look again. A job's `attempt` and `claim` go up by one; paused queues are passed over. Finding nothing writes nothing.
   *
   * For jobs with a limit this is the admission too, in one step: with the key locked and the clock read after that, it
   * takes from what the key's rate and `max` still allow, the most urgent of a key first, and merges them with the other
   * jobs by priority, then id. (Where more keys are open than the claim has room for, those open for longest may come
   * first.) An admission is never given back to the rate, also if the job is handed back. `nextIn` counts the next opening
   * of a key; when a running job of a full key ends, `ready` is emitted for the queues whose jobs wait for it.
   */
  claim(query: ClaimQuery): Promise<ClaimReply>;

  /**
   * Applies outcomes, one result each in the order given. Several for one job: the first wins, the rest are stale. May be
   * sent again safely after any error. `server` is who the statistics and the history name. Emits `ready` for the queues of
   * jobs that run again, with the delay of the first.
   */
  finish(server: string, outcomes: readonly Outcome[]): Promise<FinishResult[]>;

  /** Merges `params` into a running job's. @throws ClaimLostError; InvalidError when a value is not JSON or a key too long. */
  setParams(ref: JobRef, params: Readonly<Record<string, JsonText>>): Promise<void>;

  /**
   * Adds lines to a running job's console, and sets its progress. Kept until the job is pruned. Not safe to send again: the
   * lines would be there twice. @throws ClaimLostError, also for an empty entry; InvalidError naming `lines[position]` or
   * `progress`
   */
  writeConsole(ref: JobRef, entry: ConsoleEntry): Promise<void>;

  /** Makes the server known, as alive from now. @throws ConflictError while the id is registered, dead or alive. */
  register(server: ServerInfo): Promise<void>;
  /** Says that the server is alive. An update, never an insert: it can't bring back a server that was declared dead. */
  heartbeat(beat: Beat): Promise<BeatReply>;
  /** Forgets the server; jobs it still holds are orphans at once. Unknown ids are fine. */
  unregister(server: string): Promise<void>;
  /** Acquires or renews a lease. */
  lead(query: LeadQuery): Promise<LeadReply>;
  /** Gives the lease up if `holder` has it. */
  resign(query: Omit<LeadQuery, "ttl">): Promise<void>;
  /**
   * Declares dead each server that has been silent for longer than its `deadAfter`, then lists jobs that are processing
   * under no living server, oldest id first. From then on a dead server can neither claim nor beat.
   */
  orphans(limit: number): Promise<Orphan[]>;

  /**
   * Repairs: moves overdue jobs that no server has asked for to where they wait (`enqueued`, `throttled`), opens keys of
   * limits that a clock which stepped back would keep closed, and completes what other calls have left to it: when a job
   * ends, its children, theirs and so on are dealt with in the same call, but only up to a number that the store sets. Emits
   * `ready` for the queues concerned. Returns rows changed; 0 when all is well.
   */
  sweep(limit: number): Promise<number>;
  /**
   * Removes what retention has outlived, unique keys whose window is over, and keys of limits that nobody has used for an
   * hour. Returns rows removed; at `limit` or more there may be more.
   */
  prune(query: PruneQuery): Promise<number>;

  /**
   * Writes a recurring job if its row still has the version that it was read with. An update leaves `lastRunAt` and
   * `lastJobId`. Returns the new version. Emits `recurring`.
   * @throws ConflictError when there is another version, for version 0 any; InvalidError
   */
  putRecurring(recurring: PutRecurring): Promise<number>;
  /** Jobs that it has made stay. @throws NotFoundError */
  removeRecurring(id: string): Promise<void>;
  /** By id. */
  recurring(): Promise<RecurringRecord[]>;
  recurringJob(id: string): Promise<RecurringRecord | null>;
  /** At most `limit` rows, at least 1. Finding none is one cheap read. */
  dueRecurring(limit: number): Promise<DueRecurring>;
  /**
   * Adds jobs of a recurring job and moves its schedule, in one step, if its row still has the version that it was read
   * with. Without `overlap` no job is added while the last one is scheduled, enqueued or processing, and never more than the
   * first; the schedule moves all the same. Returns the jobs that were added.
   * @throws NotFoundError; ConflictError when there is another version; InvalidError naming the position of each bad job
   */
  fireRecurring(firing: FireRecurring): Promise<InsertedJob[]>;

  /** Deletes live jobs; running ones are asked to stop. Returns how many it deleted or newly marked. @throws InvalidError */
  delete(filter: JobFilter): Promise<number>;
  /**
   * Makes failed, scheduled, succeeded and deleted jobs ready now; others are passed over. All but scheduled ones start
   * over with attempt 0; a scheduled one keeps its attempt and gets one more if it has none left. A job whose unique key
   * another job holds now is passed over. Returns how many.
   * @throws InvalidError
   */
  requeue(filter: JobFilter): Promise<number>;
  /** Claims skip the queue from now on. Twice is fine. */
  pauseQueue(queue: string): Promise<void>;
  resumeQueue(queue: string): Promise<void>;

  job(id: JobId): Promise<JobRecord | null>;
  /** Lines in order of `seq`, of all attempts. None for an unknown job. @throws InvalidError for a bad `after` or limit. */
  consoleLines(query: ConsoleQuery): Promise<ConsoleLine[]>;
  /** The outputs of those of the jobs that have succeeded and have one. */
  outputs(ids: readonly JobId[]): Promise<Map<JobId, JsonText>>;
  /** @throws InvalidError for a bad state, limit or cursor. */
  jobs(query: JobQuery): Promise<JobPage>;
  counts(): Promise<Counts>;
  /** Keys of limits by their order as text (by UTF-16 or UTF-8, as the store has it). @throws InvalidError for a bad limit */
  limits(query: LimitQuery): Promise<LimitRecord[]>;
  /** Buckets from the one that holds `from` up to, and without, the minute of `to`, ascending. @throws InvalidError */
  series(query: SeriesQuery): Promise<SeriesPoint[]>;
  /** By id. */
  servers(): Promise<ServerRecord[]>;
  /** By name: every queue that has live jobs, is paused or is served by a living server. */
  queues(): Promise<QueueRecord[]>;

  /**
   * Calls `listener` for each event, never before this returns; the first is `connected`. Reconnects by itself. The
   * listener must not block or throw. Returns how to stop, after which no more events come and nothing stays behind.
   */
  subscribe(listener: StoreListener): () => Promise<void>;

  /** Ends all subscriptions and frees everything. Twice is fine; other calls then throw `store_closed`. */
  close(): Promise<void>;
}
