/** `kiln/memory`: jobs in the memory of this process, for tests and for work that may be lost with the process. */
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
  Writer,
} from "../../store.ts";
import * as admin from "./admin.ts";
import * as batching from "./batches.ts";
import { claim } from "./claim.ts";
import * as jobConsole from "./console.ts";
import * as coordinate from "./coordinate.ts";
import { type Data, emptyData } from "./data.ts";
import * as finishing from "./finish.ts";
import { insert } from "./insert.ts";
import * as inspect from "./inspect.ts";
import { dataOf } from "./internals.ts";
import * as maintain from "./maintain.ts";
import * as recurring from "./recurring.ts";
import { closed, Transactions } from "./transaction.ts";
import { Wake } from "./wake.ts";

export interface MemoryStoreOptions {
  /** Where the store gets its clock. Default: the real one. */
  readonly runtime?: Runtime;
}

/**
 * A store that keeps everything in memory. Each call does its work at once and wholly before anything else runs, unless a
 * transaction is open: then it waits for its end, at most 10 s.
 */
export class MemoryStore implements Store {
  readonly capabilities: StoreCapabilities = { durable: false, crossProcessEvents: false };
  readonly #wake = new Wake();
  readonly #transactions: Transactions;
  /** Null once closed. */
  #data: Data | null;

  /** An empty store. */
  constructor(options: MemoryStoreOptions = {}) {
    this.#data = emptyData(options.runtime ?? systemRuntime, this.#wake);
    this.#transactions = new Transactions(this.#data);
    dataOf.set(this, this.#data);
  }

  /** The same as the constructor, in the form that all stores share. */
  static async open(options: MemoryStoreOptions = {}): Promise<MemoryStore> {
    return new MemoryStore(options);
  }

  async now(): Promise<Date> {
    return new Date(this.#opened().runtime.now());
  }

  transaction<T>(work: (writer: Writer) => T | Promise<T>): Promise<T> {
    return this.#transactions.run(work);
  }

  async insert(jobs: readonly NewJob[], options?: InsertOptions): Promise<InsertedJob[]> {
    return this.#call((data) => insert(data, jobs, options));
  }

  async openBatch(batch: NewBatch): Promise<BatchId> {
    return this.#call((data) => batching.openBatch(data, batch));
  }

  async sealBatch(id: BatchId): Promise<void> {
    return this.#call((data) => batching.sealBatch(data, id));
  }

  async claim(query: ClaimQuery): Promise<ClaimReply> {
    return this.#call((data) => claim(data, query));
  }

  async finish(server: string, outcomes: readonly Outcome[]): Promise<FinishResult[]> {
    return this.#call((data) => finishing.finish(data, server, outcomes));
  }

  async setParams(ref: JobRef, params: Readonly<Record<string, JsonText>>): Promise<void> {
    return this.#call((data) => finishing.setParams(data, ref, params));
  }

  async writeConsole(ref: JobRef, entry: ConsoleEntry): Promise<void> {
    return this.#call((data) => jobConsole.writeConsole(data, ref, entry));
  }

  async register(server: ServerInfo): Promise<void> {
    return this.#call((data) => coordinate.register(data, server));
  }

  async heartbeat(beat: Beat): Promise<BeatReply> {
    return this.#call((data) => coordinate.heartbeat(data, beat));
  }

  async unregister(server: string): Promise<void> {
    return this.#call((data) => coordinate.unregister(data, server));
  }

  async lead(query: LeadQuery): Promise<LeadReply> {
    return this.#call((data) => coordinate.lead(data, query));
  }

  async resign(query: Omit<LeadQuery, "ttl">): Promise<void> {
    return this.#call((data) => coordinate.resign(data, query));
  }

  async orphans(limit: number): Promise<Orphan[]> {
    return this.#call((data) => coordinate.orphans(data, limit));
  }

  async sweep(limit: number): Promise<number> {
    return this.#call((data) => maintain.sweep(data, limit));
  }

  async prune(query: PruneQuery): Promise<number> {
    return this.#call((data) => maintain.prune(data, query));
  }

  async putRecurring(put: PutRecurring): Promise<number> {
    return this.#call((data) => recurring.putRecurring(data, put));
  }

  async removeRecurring(id: string): Promise<void> {
    return this.#call((data) => recurring.removeRecurring(data, id));
  }

  async recurring(): Promise<RecurringRecord[]> {
    return this.#call((data) => recurring.recurring(data));
  }

  async recurringJob(id: string): Promise<RecurringRecord | null> {
    return this.#call((data) => recurring.recurringJob(data, id));
  }

  async dueRecurring(limit: number): Promise<DueRecurring> {
    return this.#call((data) => recurring.dueRecurring(data, limit));
  }

  async fireRecurring(firing: FireRecurring): Promise<InsertedJob[]> {
    return this.#call((data) => recurring.fireRecurring(data, firing));
  }

  async delete(filter: JobFilter): Promise<number> {
    return this.#call((data) => admin.deleteJobs(data, filter));
  }

  async requeue(filter: JobFilter): Promise<number> {
    return this.#call((data) => admin.requeue(data, filter));
  }

  async pauseQueue(queue: string): Promise<void> {
    return this.#call((data) => admin.pauseQueue(data, queue));
  }

  async resumeQueue(queue: string): Promise<void> {
    return this.#call((data) => admin.resumeQueue(data, queue));
  }

  async job(id: JobId): Promise<JobRecord | null> {
    return this.#call((data) => inspect.job(data, id));
  }

  async consoleLines(query: ConsoleQuery): Promise<ConsoleLine[]> {
    return this.#call((data) => jobConsole.consoleLines(data, query));
  }

  async outputs(ids: readonly JobId[]): Promise<Map<JobId, JsonText>> {
    return this.#call((data) => inspect.outputs(data, ids));
  }

  async jobs(query: JobQuery): Promise<JobPage> {
    return this.#call((data) => inspect.jobs(data, query));
  }

  async counts(): Promise<Counts> {
    return this.#call((data) => inspect.counts(data));
  }

  async batch(id: BatchId): Promise<BatchRecord | null> {
    return this.#call((data) => batching.batch(data, id));
  }

  async batches(query: BatchQuery): Promise<BatchPage> {
    return this.#call((data) => batching.batches(data, query));
  }

  async limits(query: LimitQuery): Promise<LimitRecord[]> {
    return this.#call((data) => inspect.limits(data, query));
  }

  async series(query: SeriesQuery): Promise<SeriesPoint[]> {
    return this.#call((data) => inspect.series(data, query));
  }

  async servers(): Promise<ServerRecord[]> {
    return this.#call((data) => inspect.servers(data));
  }

  async queues(): Promise<QueueRecord[]> {
    return this.#call((data) => inspect.queues(data));
  }

  subscribe(listener: StoreListener): () => Promise<void> {
    const { wake } = this.#opened();
    return wake.subscribe(listener);
  }

  async close(): Promise<void> {
    this.#wake.close();
    this.#data = null;
    this.#transactions.close();
  }

  /** At once, or after the transaction that is open and the calls that wait for it. */
  async #call<T>(work: (data: Data) => T): Promise<T> {
    return this.#transactions.isFree ? work(this.#opened()) : this.#transactions.after(() => work(this.#opened()));
  }

  #opened(): Data {
    if (this.#data === null) throw closed();
    return this.#data;
  }
}
