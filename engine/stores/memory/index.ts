/** `kiln/memory`: jobs in the memory of this process, for tests and for work that may be lost with the process. */
import { StoreError } from "../../errors.ts";
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
import * as maintain from "./maintain.ts";
import * as recurring from "./recurring.ts";
import { Wake } from "./wake.ts";

export interface MemoryStoreOptions {
  /** Where the store gets its clock. Default: the real one. */
  readonly runtime?: Runtime;
}

/** A store that keeps everything in memory. Each call does its work at once and wholly before anything else runs. */
export class MemoryStore implements Store {
  readonly capabilities: StoreCapabilities = { durable: false, crossProcessEvents: false };
  readonly #wake = new Wake();
  /** Null once closed. */
  #data: Data | null;

  /** An empty store. */
  constructor(options: MemoryStoreOptions = {}) {
    this.#data = emptyData(options.runtime ?? systemRuntime, this.#wake);
  }

  /** The same as the constructor, in the form that all stores share. */
  static async open(options: MemoryStoreOptions = {}): Promise<MemoryStore> {
    return new MemoryStore(options);
  }

  get #open(): Data {
    if (this.#data === null) throw new StoreError("store_closed", "the store is closed");
    return this.#data;
  }

  async now(): Promise<Date> {
    return new Date(this.#open.runtime.now());
  }

  async insert(jobs: readonly NewJob[]): Promise<InsertedJob[]> {
    return insert(this.#open, jobs);
  }

  async openBatch(batch: NewBatch): Promise<BatchId> {
    return batching.openBatch(this.#open, batch);
  }

  async sealBatch(id: BatchId): Promise<void> {
    batching.sealBatch(this.#open, id);
  }

  async claim(query: ClaimQuery): Promise<ClaimReply> {
    return claim(this.#open, query);
  }

  async finish(server: string, outcomes: readonly Outcome[]): Promise<FinishResult[]> {
    return finishing.finish(this.#open, server, outcomes);
  }

  async setParams(ref: JobRef, params: Readonly<Record<string, JsonText>>): Promise<void> {
    finishing.setParams(this.#open, ref, params);
  }

  async writeConsole(ref: JobRef, entry: ConsoleEntry): Promise<void> {
    jobConsole.writeConsole(this.#open, ref, entry);
  }

  async register(server: ServerInfo): Promise<void> {
    coordinate.register(this.#open, server);
  }

  async heartbeat(beat: Beat): Promise<BeatReply> {
    return coordinate.heartbeat(this.#open, beat);
  }

  async unregister(server: string): Promise<void> {
    coordinate.unregister(this.#open, server);
  }

  async lead(query: LeadQuery): Promise<LeadReply> {
    return coordinate.lead(this.#open, query);
  }

  async resign(query: Omit<LeadQuery, "ttl">): Promise<void> {
    coordinate.resign(this.#open, query);
  }

  async orphans(limit: number): Promise<Orphan[]> {
    return coordinate.orphans(this.#open, limit);
  }

  async sweep(limit: number): Promise<number> {
    return maintain.sweep(this.#open, limit);
  }

  async prune(query: PruneQuery): Promise<number> {
    return maintain.prune(this.#open, query);
  }

  async putRecurring(put: PutRecurring): Promise<number> {
    return recurring.putRecurring(this.#open, put);
  }

  async removeRecurring(id: string): Promise<void> {
    recurring.removeRecurring(this.#open, id);
  }

  async recurring(): Promise<RecurringRecord[]> {
    return recurring.recurring(this.#open);
  }

  async recurringJob(id: string): Promise<RecurringRecord | null> {
    return recurring.recurringJob(this.#open, id);
  }

  async dueRecurring(limit: number): Promise<DueRecurring> {
    return recurring.dueRecurring(this.#open, limit);
  }

  async fireRecurring(firing: FireRecurring): Promise<InsertedJob[]> {
    return recurring.fireRecurring(this.#open, firing);
  }

  async delete(filter: JobFilter): Promise<number> {
    return admin.deleteJobs(this.#open, filter);
  }

  async requeue(filter: JobFilter): Promise<number> {
    return admin.requeue(this.#open, filter);
  }

  async pauseQueue(queue: string): Promise<void> {
    admin.pauseQueue(this.#open, queue);
  }

  async resumeQueue(queue: string): Promise<void> {
    admin.resumeQueue(this.#open, queue);
  }

  async job(id: JobId): Promise<JobRecord | null> {
    return inspect.job(this.#open, id);
  }

  async consoleLines(query: ConsoleQuery): Promise<ConsoleLine[]> {
    return jobConsole.consoleLines(this.#open, query);
  }

  async outputs(ids: readonly JobId[]): Promise<Map<JobId, JsonText>> {
    return inspect.outputs(this.#open, ids);
  }

  async jobs(query: JobQuery): Promise<JobPage> {
    return inspect.jobs(this.#open, query);
  }

  async counts(): Promise<Counts> {
    return inspect.counts(this.#open);
  }

  async batch(id: BatchId): Promise<BatchRecord | null> {
    return batching.batch(this.#open, id);
  }

  async batches(query: BatchQuery): Promise<BatchPage> {
    return batching.batches(this.#open, query);
  }

  async limits(query: LimitQuery): Promise<LimitRecord[]> {
    return inspect.limits(this.#open, query);
  }

  async series(query: SeriesQuery): Promise<SeriesPoint[]> {
    return inspect.series(this.#open, query);
  }

  async servers(): Promise<ServerRecord[]> {
    return inspect.servers(this.#open);
  }

  async queues(): Promise<QueueRecord[]> {
    return inspect.queues(this.#open);
  }

  subscribe(listener: StoreListener): () => Promise<void> {
    const { wake } = this.#open;
    return wake.subscribe(listener);
  }

  async close(): Promise<void> {
    this.#wake.close();
    this.#data = null;
  }
}
