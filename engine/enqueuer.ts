/** Adding jobs: to a store, or as part of a transaction of the application's. */
import { type EnqueueOptions, newJob, newJobs } from "./enqueue.ts";
import { StoreError } from "./errors.ts";
import type { JobDefinition, JobSpec } from "./job.ts";
import { invalid } from "./problems.ts";
import type { Runtime } from "./runtime.ts";
import type { InsertedJob, JobId, NewJob } from "./store.ts";
import { copyArray } from "./validate.ts";

/**
 * Runs around every insert: may look at the jobs, pass changed ones on to `next`, and look at the results, one for each
 * job. The first given is the outermost.
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

function oneResultEach(who: string, insert: Insert): Insert {
  return async (jobs) => {
    const inserted = await insert(jobs);
    if (inserted?.length === jobs.length) return inserted;
    throw new StoreError("store_failed", `${who} gave ${inserted?.length ?? "no"} results for ${jobs.length} jobs`);
  };
}

/** The part of a client that adds jobs. Made by `Client.within`. */
export class Enqueuer {
  readonly #insert: Insert;
  readonly #runtime: Runtime;

  constructor(insert: Insert, runtime: Runtime) {
    this.#insert = insert;
    this.#runtime = runtime;
  }

  /**
   * Adds a job; it runs as soon as a server with a handler for its kind is free. The args are stored as they are given
   * (as JSON, at most 1 MiB), after the definition's schema has accepted them. Returns its id; the holder's when the job is
   * a duplicate of a unique one.
   * @throws NotFoundError when there is no job of an id in `after` or `afterFinished`
   */
  async enqueue<Input, Args, Output>(
    definition: JobDefinition<Input, Args, Output>,
    args: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<JobId> {
    const job = await newJob("can't enqueue", definition, args, options);
    const [inserted] = await this.#insert([job]);
    return (inserted as InsertedJob).id;
  }

  /**
   * Adds jobs made by `JobDefinition.spec`, all or none, with ids that grow in the order given. The event loop is given
   * free while many are checked, so neither the array nor any args may be changed before this resolves. `needs` in the
   * options of a spec names others of the call by their position; a `Flow` keeps count of them.
   * @throws NotFoundError when there is no job of an id in `after` or `afterFinished`
   */
  async enqueueMany(specs: readonly JobSpec[]): Promise<InsertedJob[]> {
    const what = "can't enqueue";
    const list = copyArray(specs);
    if (list === null) throw invalid(what, "specs", specs, "must be an array");
    if (list.length === 0) return [];
    return this.#insert(await newJobs(what, list, this.#runtime));
  }
}
