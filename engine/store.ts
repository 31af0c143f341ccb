/**
 * The Store contract: what a database has to do for kiln, used alike by client, server, dashboard and simulator.
 *
 * Rules that hold for every method:
 * - **One call is one transaction.** It happens wholly or not at all. `finish` decides per outcome; `delete`, `requeue`,
 *   `sweep` and `prune` may take many rows in several transactions, each of which leaves the store consistent.
 * - **Time is the store's.** Only durations cross this interface, in milliseconds, apart from a user's own `runAt` and
 *   `deadline`. Instants that come back are the store's, with millisecond resolution.
 * - **Every write for a running job is fenced** by (id, claim) and applies only while that claim holds the job. So are the
 *   jobs that it adds (`InsertOptions.whileHeld`).
 * - **Errors** are those of `errors.ts`: `InvalidError`, `NotFoundError`, `ClosedError`, `ConflictError`, `ClaimLostError`,
 *   `StoreError`.
 *   A driver's own errors never leave the store.
 * - JSON crosses as text (`JsonText`), so that values come back exactly as they were encoded.
 *
 * `test/conformance` (exported as `kiln/conformance`) proves these promises for any store.
 */
import type {
  BatchId,
  BatchRecord,
  ConsoleLine,
  Counts,
  JobId,
  JobRecord,
  JobRef,
  JsonText,
  LimitRecord,
  QueueRecord,
  RecurringRecord,
  SeriesPoint,
  ServerInfo,
  ServerRecord,
} from "./records.ts";
import type {
  BatchPage,
  BatchQuery,
  Beat,
  BeatReply,
  ClaimQuery,
  ClaimReply,
  ConsoleEntry,
  ConsoleQuery,
  DueRecurring,
  FinishResult,
  FireRecurring,
  InsertedJob,
  InsertOptions,
  JobFilter,
  JobPage,
  JobQuery,
  LeadQuery,
  LeadReply,
  LimitQuery,
  NewBatch,
  NewJob,
  Orphan,
  Outcome,
  PruneQuery,
  PutRecurring,
  SeriesQuery,
} from "./requests.ts";

export * from "./records.ts";
export * from "./requests.ts";

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

// ---------------------------------------------------------------------------------------------------------- transactions

/**
 * What can be written: at once, when it is a store, or as part of a transaction of the application's. There each call
 * happens wholly or not at all, so that one which throws leaves nothing and the others may still be committed; and each
 * sees what those before it have written. Ids are final with the commit: after a rollback they may go to other jobs.
 */
export interface Writer {
  /**
   * Adds jobs, all or none apart from duplicates of unique jobs; ids of new jobs grow in the order given. Emits `ready` for
   * the queues concerned. Each field is read once, before anything is checked, so that what was checked is what is stored.
   *
   * With `whileHeld` that claim must hold its job, also when there are no jobs, and does until the transaction ends.
   * @throws InvalidError naming the position of each bad job, and jobs that would wait for each other for ever; naming
   * `options.whileHeld` when that is no such ref
   * @throws ClaimLostError when the claim does not hold its job, whatever else the store would refuse
   * @throws NotFoundError naming the position of a job with a parent or a batch that does not exist
   * @throws ClosedError naming the position of a job that would join a batch that has finished
   */
  insert(jobs: readonly NewJob[], options?: InsertOptions): Promise<InsertedJob[]>;

  /**
   * Makes a batch, which jobs can join until it has finished.
   * @throws InvalidError; NotFoundError when there is no such parent; ClosedError when the parent has finished
   */
  openBatch(batch: NewBatch): Promise<BatchId>;
  /**
   * Says that all is in the batch, so that it finishes once nothing in it is left to do, which may be at once. A batch that
   * finishes, by whatever call, may finish the one that it is nested in, and so on, and releases the jobs that wait for it,
   * in the same step. Emits `ready` for their queues. Twice is fine. @throws NotFoundError
   */
  sealBatch(id: BatchId): Promise<void>;

  /** Merges `params` into a running job's. @throws ClaimLostError; InvalidError when a value is not JSON or a key too long. */
  setParams(ref: JobRef, params: Readonly<Record<string, JsonText>>): Promise<void>;
}

/**
 * A writer for a transaction that the application has begun and ends itself, on a connection of its own. Other processes,
 * and in time this one, learn of the commit from the store.
 */
export interface TransactionWriter extends Writer {
  /** After the commit: wakes this process's servers at once. Harmless after a rollback, and never needed. */
  notify(): void;
}

// ----------------------------------------------------------------------------------------------------------------- store

export interface Store extends Writer {
  readonly capabilities: StoreCapabilities;

  /** The store's clock. */
  now(): Promise<Date>;

  /**
   * Calls `work` with a transaction open and commits when it has resolved; when it throws, everything is rolled back and
   * that very error thrown. Nobody sees any of it before the commit, and no event is emitted before, or at all after a
   * rollback. `writer` throws `ConflictError` once `work` has ended. Transactions of a store run one after the other, and a
   * store may let its other calls wait meanwhile, at most 10 s: so keep it short, and call only the writer inside; a call of
   * the store itself would wait for the transaction that waits for it, until it throws `store_busy`.
   * @throws StoreError `store_busy` when it could not begin within 10 s, `store_closed` when the store was closed meanwhile;
   * nothing was written then
   */
  transaction<T>(work: (writer: Writer) => T | Promise<T>): Promise<T>;

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
   * hour. A batch is kept for as long after it finished as a succeeded job, and longer while there still are members of it,
   * jobs that waited for it or batches nested in it. Returns rows removed; at `limit` or more there may be more.
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
  batch(id: BatchId): Promise<BatchRecord | null>;
  /** @throws InvalidError for a bad limit or cursor. */
  batches(query: BatchQuery): Promise<BatchPage>;
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
