/** Adding jobs and batches: to a store, or as part of a transaction of the application's. */
import { type Batch, type BatchWriter, prepareBatch, writeBatch } from "./batch.ts";
import { type EnqueueOptions, newJob, newJobs } from "./enqueue.ts";
import { StoreError } from "./errors.ts";
import type { JobDefinition, JobSpec } from "./job.ts";
import { checkId, invalid } from "./problems.ts";
import type { Runtime } from "./runtime.ts";
import type { BatchId, InsertedJob, JobId, NewJob } from "./store.ts";
import { copyArray } from "./validate.ts";

/**
 * Runs around every insert: may look at the jobs, pass changed ones on to `next`, and look at the results, one for each
 * job. The first given is the outermost. It must not call the store: a transaction of the store's may be open, which the
 * call would wait for.
 */
export type EnqueueInterceptor = (
  jobs: readonly NewJob[],
  next: (jobs: readonly NewJob[]) => Promise<InsertedJob[]>,
) => Promise<InsertedJob[]>;

export type Insert = (jobs: readonly NewJob[]) => Promise<InsertedJob[]>;

/** An insert with the interceptors around it. */
export function intercepted(interceptors: readonly EnqueueInterceptor[], insert: Insert): Insert {
  return interceptors.reduceRight<Insert>(
    (next, interceptor) => oneResultEach("an interceptor", (jobs) => interceptor(jobs, next)),
    oneResultEach("the store", insert),
  );
}

/** A writer whose inserts have the interceptors around them. */
export const interceptedWriter = (interceptors: readonly EnqueueInterceptor[], writer: BatchWriter): BatchWriter => ({
  insert: intercepted(interceptors, (jobs) => writer.insert(jobs)),
  openBatch: (batch) => writer.openBatch(batch),
  sealBatch: (id) => writer.sealBatch(id),
});

/** Calls `work` with what it is to write with, as one step. */
type Transact = <T>(work: (writer: BatchWriter) => Promise<T>) => Promise<T>;

function oneResultEach(who: string, insert: Insert): Insert {
  return async (jobs) => {
    const inserted = await insert(jobs);
    if (inserted?.length === jobs.length) return inserted;
    throw new StoreError("store_failed", `${who} gave ${inserted?.length ?? "no"} results for ${jobs.length} jobs`);
  };
}

/** The part of a client that adds jobs and batches. Made by `Client.within`. */
export class Enqueuer {
  readonly #writer: BatchWriter;
  readonly #transact: Transact;
  readonly #runtime: Runtime;

  constructor(writer: BatchWriter, transact: Transact, runtime: Runtime) {
    this.#writer = writer;
    this.#transact = transact;
    this.#runtime = runtime;
  }

  /**
   * Adds a job; it runs as soon as a server with a handler for its kind is free. The args are stored as they are given
   * (as JSON, at most 1 MiB), after the definition's schema has accepted them. Returns its id; the holder's when the job is
   * a duplicate of a unique one.
   * @throws NotFoundError when there is no job of an id in `after` or `afterFinished`, or no such batch; ClosedError when the
   * batch that it would join has finished
   */
  async enqueue<Input, Args, Output>(
    definition: JobDefinition<Input, Args, Output>,
    args: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<JobId> {
    const job = await newJob("can't enqueue", definition, args, options);
    const [inserted] = await this.#writer.insert([job]);
    return (inserted as InsertedJob).id;
  }

  /**
   * Adds jobs made by `JobDefinition.spec`, all or none, with ids that grow in the order given. The event loop is given
   * free while many are checked, so neither the array nor any args may be changed before this resolves. `needs` in the
   * options of a spec names others of the call by their position; a `Flow` keeps count of them.
   * @throws NotFoundError when there is no job of an id in `after` or `afterFinished`, or no such batch; ClosedError when the
   * batch that one would join has finished
   */
  async enqueueMany(specs: readonly JobSpec[]): Promise<InsertedJob[]> {
    const what = "can't enqueue";
    const list = copyArray(specs);
    if (list === null) throw invalid(what, "specs", specs, "must be an array");
    if (list.length === 0) return [];
    return this.#writer.insert(await newJobs(what, list, this.#runtime));
  }

  /**
   * Adds a batch with its jobs and those that go on after it, and the batches nested in it, and seals it: it finishes when
   * nothing in it is left to do. All is checked before anything is written, and written in one transaction.
   * @throws NotFoundError when there is no job or batch that it names; ClosedError when a batch that it would join has
   * finished
   */
  async startBatch(batch: Batch): Promise<BatchId> {
    return this.#writeBatch("can't start the batch", batch, true);
  }

  /**
   * The same without sealing the batch (those nested in it are sealed): it does not finish before `sealBatch`, and takes more
   * jobs meanwhile by their option `batch`, and more batches by `parent`.
   */
  async openBatch(batch: Batch): Promise<BatchId> {
    return this.#writeBatch("can't open the batch", batch, false);
  }

  async #writeBatch(what: string, batch: unknown, seal: boolean): Promise<BatchId> {
    const prepared = await prepareBatch(what, batch, this.#runtime);
    return this.#transact((writer) => writeBatch(writer, prepared, seal));
  }

  /** Says that all is in the batch. Jobs may join it until it has finished. Twice is fine. @throws NotFoundError */
  async sealBatch(id: BatchId): Promise<void> {
    checkId("can't seal the batch", id);
    await this.#writer.sealBatch(id);
  }
}
