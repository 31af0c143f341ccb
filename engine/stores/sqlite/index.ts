/** `kiln/sqlite`: jobs in one SQLite file, shared by any number of processes on the machine. No service, no package. */
import type { DatabaseSync } from "node:sqlite";
import { type Runtime, systemRuntime } from "../../runtime.ts";
import type {
  BatchId,
  BatchPage,
  BatchQuery,
  BatchRecord,
  Beat,
  BeatReply,
  ClaimQuery,
  ClaimReply,
  ConsoleEntry,
  ConsoleLine,
  ConsoleQuery,
  Counts,
  DueRecurring,
  FinishResult,
  FireRecurring,
  InsertedJob,
  InsertOptions,
  JobFilter,
  JobId,
  JobPage,
  JobQuery,
  JobRecord,
  JobRef,
  JsonText,
  LeadQuery,
  LeadReply,
  LimitQuery,
  LimitRecord,
  NewBatch,
  NewJob,
  Orphan,
  Outcome,
  PruneQuery,
  PutRecurring,
  QueueRecord,
  RecurringRecord,
  SeriesPoint,
  SeriesQuery,
  ServerInfo,
  ServerRecord,
  Store,
  StoreCapabilities,
  StoreListener,
  TransactionWriter,
} from "../../store.ts";
import { Checker } from "../../validate.ts";
import { Turns } from "../turns.ts";
import * as admin from "./admin.ts";
import * as batching from "./batches.ts";
import { claim } from "./claim.ts";
import { Connection, type Durability } from "./connection.ts";
import * as jobConsole from "./console.ts";
import * as coordinate from "./coordinate.ts";
import { checkFile, IN_MEMORY } from "./file.ts";
import * as finishing from "./finish.ts";
import { insert } from "./insert.ts";
import * as inspect from "./inspect.ts";
import { connectionOf } from "./internals.ts";
import * as limits from "./limits.ts";
import * as maintain from "./maintain.ts";
import * as recurring from "./recurring.ts";
import { migrate, refuseNewer } from "./schema.ts";
import { type SqliteTransaction, Transactions } from "./transaction.ts";
import { Wake } from "./wake.ts";

export type { SqliteTransaction } from "./transaction.ts";

export interface SqliteStoreOptions {
  /**
   * The file; it is made when there is none, in a directory that exists. May be the application's own database: all of
   * kiln's tables are named `kiln_…`. `:memory:` is a database of this store alone that ends with it.
   */
  readonly path: string;
  /** Where the store gets its clock, timers and randomness. Default: the real ones. */
  readonly runtime?: Runtime;
  /**
   * `full` (default): what was committed survives a loss of power; each commit waits for the disk. `normal`: it survives
   * the end of the process in whatever way, but a loss of power may take the last commits; several times faster.
   */
  readonly durability?: Durability;
}

const METHODS = ["now", "monotonic", "timer", "turn", "random"] as const;

/**
 * A store in a SQLite file. Calls never block the event loop to wait for another process: they try again for up to 10 s,
 * then throw `store_busy`.
 */
export class SqliteStore implements Store {
  readonly capabilities: StoreCapabilities;
  readonly #db: Connection;
  readonly #wake: Wake;
  readonly #transactions: Transactions;

  private constructor(db: Connection, turns: Turns, durability: Durability) {
    const isFile = db.path !== IN_MEMORY;
    this.capabilities = { durable: isFile, crossProcessEvents: isFile };
    this.#db = db;
    this.#wake = new Wake(db);
    this.#transactions = new Transactions(db, turns, durability);
    connectionOf.set(this, db);
  }

  /**
   * Opens the file and brings its tables up to date.
   * @throws InvalidError for options that are wrong
   * @throws StoreError `store_failed` when there can be no such file, `store_read_only`, `store_corrupt` when it is not a
   * database or damaged, `store_newer` when a newer kiln made its tables, `store_busy`, `store_full`, `store_unavailable`
   */
  static async open(options: SqliteStoreOptions): Promise<SqliteStore> {
    const { path, runtime, durability } = checkOptions(options);
    checkFile(path);
    const turns = new Turns();
    const db = new Connection(path, runtime, turns);
    try {
      // Before anything is changed.
      await refuseNewer(db);
      await db.configure(durability);
      await migrate(db);
    } catch (error) {
      db.close();
      throw error;
    }
    return new SqliteStore(db, turns, durability);
  }

  async now(): Promise<Date> {
    return new Date(this.#db.now());
  }

  /**
   * A transaction that the application's own statements share: they run on `tx.db`, the same file by a connection of the
   * store's for this. It has the file's write lock from the beginning, so that all other writers of the file wait.
   *
   *     await store.transaction(async (tx) => {
   *       tx.db.prepare("INSERT INTO orders (id, total) VALUES (?, ?)").run(7, 1200);
   *       await client.within(tx).enqueue(chargeCard, { orderId: 7 });
   *     });
   *
   * @throws whatever `work` throws, after everything was rolled back
   * @throws ConflictError when `work` has ended the transaction itself
   * @throws StoreError `store_busy` when it could not begin within 10 s; `store_closed` when the store was closed meanwhile
   */
  transaction<T>(work: (tx: SqliteTransaction) => T | Promise<T>): Promise<T> {
    return this.#transactions.run(work);
  }

  /**
   * Writes as part of a transaction that the application has begun on `db`, a connection of its own to the store's file. Each
   * call does its work at once, before its promise is returned. Begin with `BEGIN IMMEDIATE`: a transaction that has read
   * before it writes can't become a writer any more once another connection has written, however long it waits
   * (`store_busy`, and only beginning again helps). How long a statement waits for the file's lock, blocking the event loop,
   * is up to the `timeout` that `db` was opened with. May be kept and used for later transactions on `db`.
   *
   *     db.exec("BEGIN IMMEDIATE");
   *     await client.within(store.within(db)).enqueue(chargeCard, { orderId: 7 });
   *     db.exec("COMMIT");
   *
   * Its calls throw `ConflictError` while no transaction is open on `db`.
   * @throws InvalidError when `db` is not an open database of the store's file; StoreError `store_closed`
   */
  within(db: DatabaseSync): TransactionWriter {
    return this.#transactions.within(db);
  }

  insert(jobs: readonly NewJob[], options?: InsertOptions): Promise<InsertedJob[]> {
    return insert(this.#db, jobs, options);
  }

  openBatch(batch: NewBatch): Promise<BatchId> {
    return batching.openBatch(this.#db, batch);
  }

  sealBatch(id: BatchId): Promise<void> {
    return batching.sealBatch(this.#db, id);
  }

  claim(query: ClaimQuery): Promise<ClaimReply> {
    return claim(this.#db, query);
  }

  finish(server: string, outcomes: readonly Outcome[]): Promise<FinishResult[]> {
    return finishing.finish(this.#db, server, outcomes);
  }

  setParams(ref: JobRef, params: Readonly<Record<string, JsonText>>): Promise<void> {
    return finishing.setParams(this.#db, ref, params);
  }

  writeConsole(ref: JobRef, entry: ConsoleEntry): Promise<void> {
    return jobConsole.writeConsole(this.#db, ref, entry);
  }

  register(server: ServerInfo): Promise<void> {
    return coordinate.register(this.#db, server);
  }

  heartbeat(beat: Beat): Promise<BeatReply> {
    return coordinate.heartbeat(this.#db, beat);
  }

  unregister(server: string): Promise<void> {
    return coordinate.unregister(this.#db, server);
  }

  lead(query: LeadQuery): Promise<LeadReply> {
    return coordinate.lead(this.#db, query);
  }

  resign(query: Omit<LeadQuery, "ttl">): Promise<void> {
    return coordinate.resign(this.#db, query);
  }

  orphans(limit: number): Promise<Orphan[]> {
    return coordinate.orphans(this.#db, limit);
  }

  sweep(limit: number): Promise<number> {
    return maintain.sweep(this.#db, limit);
  }

  prune(query: PruneQuery): Promise<number> {
    return maintain.prune(this.#db, query);
  }

  putRecurring(put: PutRecurring): Promise<number> {
    return recurring.putRecurring(this.#db, put);
  }

  removeRecurring(id: string): Promise<void> {
    return recurring.removeRecurring(this.#db, id);
  }

  recurring(): Promise<RecurringRecord[]> {
    return recurring.recurring(this.#db);
  }

  recurringJob(id: string): Promise<RecurringRecord | null> {
    return recurring.recurringJob(this.#db, id);
  }

  dueRecurring(limit: number): Promise<DueRecurring> {
    return recurring.dueRecurring(this.#db, limit);
  }

  fireRecurring(firing: FireRecurring): Promise<InsertedJob[]> {
    return recurring.fireRecurring(this.#db, firing);
  }

  delete(filter: JobFilter): Promise<number> {
    return admin.deleteJobs(this.#db, filter);
  }

  requeue(filter: JobFilter): Promise<number> {
    return admin.requeue(this.#db, filter);
  }

  pauseQueue(queue: string): Promise<void> {
    return admin.pauseQueue(this.#db, queue);
  }

  resumeQueue(queue: string): Promise<void> {
    return admin.resumeQueue(this.#db, queue);
  }

  job(id: JobId): Promise<JobRecord | null> {
    return inspect.job(this.#db, id);
  }

  consoleLines(query: ConsoleQuery): Promise<ConsoleLine[]> {
    return jobConsole.consoleLines(this.#db, query);
  }

  outputs(ids: readonly JobId[]): Promise<Map<JobId, JsonText>> {
    return inspect.outputs(this.#db, ids);
  }

  jobs(query: JobQuery): Promise<JobPage> {
    return inspect.jobs(this.#db, query);
  }

  counts(): Promise<Counts> {
    return inspect.counts(this.#db);
  }

  batch(id: BatchId): Promise<BatchRecord | null> {
    return batching.batch(this.#db, id);
  }

  batches(query: BatchQuery): Promise<BatchPage> {
    return batching.batches(this.#db, query);
  }

  limits(query: LimitQuery): Promise<LimitRecord[]> {
    return limits.limits(this.#db, query);
  }

  series(query: SeriesQuery): Promise<SeriesPoint[]> {
    return inspect.series(this.#db, query);
  }

  servers(): Promise<ServerRecord[]> {
    return inspect.servers(this.#db);
  }

  queues(): Promise<QueueRecord[]> {
    return inspect.queues(this.#db);
  }

  subscribe(listener: StoreListener): () => Promise<void> {
    this.#db.assertOpen();
    return this.#wake.subscribe(listener);
  }

  async close(): Promise<void> {
    this.#wake.close();
    this.#transactions.close();
    this.#db.close();
  }
}

function checkOptions(options: unknown): Required<SqliteStoreOptions> {
  const check = new Checker("can't open SQLite store", options ?? null, ["path", "runtime", "durability"]);
  check.required("path");
  const path = check.text("path");
  if (path?.startsWith("file:")) check.refuse("path", "must be the path of a file, not a URL");
  const runtime = check.object<Runtime>("runtime", METHODS) ?? systemRuntime;
  const durability = check.oneOf<Durability>("durability", ["full", "normal"]) ?? "full";
  check.end();
  return { path: path ?? "", runtime, durability };
}
