/** The client: adds jobs, and looks after those that are there. */
import type { BatchWriter } from "./batch.ts";
import { ClientSettings } from "./client-settings.ts";
import type { Duration } from "./duration.ts";
import { type EnqueueInterceptor, Enqueuer, intercepted } from "./enqueuer.ts";
import type { JobDefinition, RecurringSpec } from "./job.ts";
import { checkId, IDS, invalid, Problems, readInteger, readName } from "./problems.ts";
import type { RecurringOptions } from "./recurring.ts";
import * as recurring from "./recurring.ts";
import { CONSOLE, LONGEST_DURATION, MINUTE, PAGE, QUEUE } from "./rules/limits.ts";
import { QUEUE_RULE } from "./rules/values.ts";
import { type Runtime, systemRuntime } from "./runtime.ts";
import { readQuery, readSelection } from "./selection.ts";
import type {
  BatchId,
  BatchPage,
  BatchQuery,
  BatchRecord,
  ConsoleLine,
  Counts,
  JobFilter,
  JobId,
  JobQuery,
  JobRef,
  LimitQuery,
  LimitRecord,
  QueueRecord,
  SeriesPoint,
  ServerRecord,
  Store,
  Writer,
} from "./store.ts";
import { Checker, hasMethods, WRITER } from "./validate.ts";
import { type JobView, type RecurringView, viewJob, viewRecurring } from "./view.ts";

export type { EnqueueOptions, SpecOptions } from "./enqueue.ts";
export type { EnqueueInterceptor, Enqueuer } from "./enqueuer.ts";
export type { RecurringOptions } from "./recurring.ts";
export type { UniqueOptions } from "./unique.ts";
export type { JobView, RecurringView } from "./view.ts";

export interface ClientOptions {
  readonly interceptors?: readonly EnqueueInterceptor[];
  /** Default: the real clock and timers. */
  readonly runtime?: Runtime;
}

/** Which jobs: one id, several, or all that match every field of a filter, which needs `ids` or `state`. */
export type JobSelection = JobId | readonly JobId[] | JobFilter;

export interface SeriesOptions {
  readonly from: Date;
  readonly to: Date;
  /** Width of a bucket: whole minutes, for example `"1h"`. */
  readonly step: Duration;
}

export interface ConsoleOptions {
  /** Only lines after the one of this `seq`. Default: from the first. */
  readonly after?: number;
  /** 1 to 500, default 100. */
  readonly limit?: number;
}

export interface JobViewPage {
  readonly jobs: readonly JobView[];
  /** Null = no more. With a tag a page may be short, or empty, while more follow. */
  readonly next: string | null;
}

/**
 * Any number of clients may use one store, and a server needs none. Every method throws `InvalidError` before anything is
 * done when its arguments are wrong, and `StoreError` when the database fails.
 */
export class Client extends Enqueuer {
  readonly #store: Store;
  readonly #settings: ClientSettings;

  /** @throws InvalidError */
  constructor(store: Store, options: ClientOptions = {}) {
    const settings = ClientSettings.is(options) ? options : checkOptions(store, options);
    const writing = (writer: BatchWriter): BatchWriter => settings.around(writer);
    super(writing(store), (work) => store.transaction((writer) => work(writing(writer))), settings.runtime);
    this.#store = store;
    this.#settings = settings;
  }

  /** True for what this very class has made; `whileHeld` can't copy what a subclass adds. */
  static is(value: unknown): value is Client {
    return typeof value === "object" && value !== null && #store in value && isPlain(value);
  }

  /** What handlers get: a copy that adds jobs and batches while this claim holds its job, else throws `ClaimLostError`. */
  static whileHeld(client: Client, { id, claim }: JobRef): Client {
    return new Client(client.#store, client.#settings.whileHeld({ id, claim }));
  }

  /**
   * Enqueues as part of a transaction: the jobs are there when it is committed, and never were when it is rolled back. The
   * writer is what `Store.transaction` gives to its callback, or `SqliteStore.within` for a transaction of your own.
   *
   *     await store.transaction(async (tx) => {
   *       tx.db.prepare("INSERT INTO orders (id, total) VALUES (?, ?)").run(7, 1200);
   *       await client.within(tx).enqueue(chargeCard, { orderId: 7 });
   *     });
   *
   * Unlike the client's own, its `startBatch` and `openBatch` leave what they had written when they throw half way, because
   * of a job or a batch that is not there; so let the transaction be rolled back then.
   * @throws InvalidError
   */
  within(writer: Writer): Enqueuer {
    if (!hasMethods(writer, WRITER)) {
      throw invalid("can't enqueue", "writer", writer, `must be an object with ${WRITER.join(", ")}`);
    }
    const writing = this.#settings.around(writer);
    return new Enqueuer(writing, (work) => work(writing), this.#settings.runtime);
  }

  /** Null when there is no such batch, or no longer. */
  async batch(id: BatchId): Promise<BatchRecord | null> {
    checkId("can't get the batch", id);
    return this.#store.batch(id);
  }

  /** One page of the batches, newest first; of those that are nested in `parent` when it is given. */
  async batches(query: BatchQuery = {}): Promise<BatchPage> {
    const check = new Checker("can't list batches", query, ["parent", "limit", "cursor"]);
    const parent = check.integer("parent", IDS);
    const limit = check.integer("limit", { min: 1, max: Number.MAX_SAFE_INTEGER, default: PAGE.default });
    const cursor = check.text("cursor");
    check.end();
    return this.#store.batches({
      limit,
      ...(parent !== undefined && { parent }),
      ...(cursor !== undefined && { cursor }),
    });
  }

  /** Null when there is no such job, or no longer. */
  async get(id: JobId): Promise<JobView | null> {
    checkId("can't get the job", id);
    const record = await this.#store.job(id);
    return record && viewJob(record);
  }

  /**
   * What a job's attempts have logged, oldest first, until the job is pruned; nothing for an unknown job. To follow a running
   * job, ask again with `after`.
   */
  async console(id: JobId, options: ConsoleOptions = {}): Promise<ConsoleLine[]> {
    const check = new Checker("can't read the console", options, ["after", "limit"]);
    readInteger(check.problems, "id", id, IDS);
    const after = check.integer("after", { min: 0, max: Number.MAX_SAFE_INTEGER, default: 0 });
    const limit = check.integer("limit", { min: 1, max: CONSOLE.page.max, default: CONSOLE.page.default });
    check.end();
    return this.#store.consoleLines({ id, after, limit });
  }

  /**
   * One page of the jobs of a state. Orders: scheduled by time due; enqueued and throttled by priority, then id; awaiting
   * and processing newest first; succeeded, failed and deleted by when they ended, latest first.
   */
  async list(query: JobQuery): Promise<JobViewPage> {
    const { jobs, next } = await this.#store.jobs(readQuery(query));
    return { jobs: jobs.map(viewJob), next };
  }

  /**
   * Deletes jobs that have not ended; running ones are asked to stop and end as deleted unless they succeed. Returns how
   * many it deleted or newly asked to stop; ids that don't exist count nothing, nor do jobs that are deleted with them because
   * they wait for their success.
   */
  async delete(jobs: JobSelection): Promise<number> {
    const filter = readSelection("can't delete jobs", jobs);
    return filter.ids?.length === 0 ? 0 : this.#store.delete(filter);
  }

  /**
   * Makes failed, scheduled, succeeded and deleted jobs ready to run now; others are passed over. All but scheduled ones
   * start over with all their attempts. Unique jobs whose key another holds now are passed over too. Returns how many.
   */
  async requeue(jobs: JobSelection): Promise<number> {
    const filter = readSelection("can't requeue jobs", jobs);
    return filter.ids?.length === 0 ? 0 : this.#store.requeue(filter);
  }

  /** No job of the queue is started from now on, on any server. Twice is fine. */
  async pauseQueue(queue: string): Promise<void> {
    checkQueue("can't pause the queue", queue);
    await this.#store.pauseQueue(queue);
  }

  /** Ends a pause. Twice is fine. */
  async resumeQueue(queue: string): Promise<void> {
    checkQueue("can't resume the queue", queue);
    await this.#store.resumeQueue(queue);
  }

  /**
   * Sets what runs again and again: a job of this kind with these args at each occurrence of `options.cron`. An id that is
   * set anew keeps its next run unless the cron expression or the time zone has changed, stays paused if it is, and leaves
   * its group; with nothing changed nothing is written.
   * @throws InvalidError, also when the cron expression never fires; ConflictError when others keep changing it
   */
  async setRecurring<Input, Args, Output>(
    id: string,
    definition: JobDefinition<Input, Args, Output>,
    args: NoInfer<Input>,
    options: RecurringOptions,
  ): Promise<void> {
    await recurring.setRecurring(this.#store, { id, definition, args, options });
  }

  /**
   * Makes the recurring jobs of a group, such as an application's name, be exactly these, made by
   * `JobDefinition.recurring`: all are checked before anything is written, then each is set, then others of the group are
   * removed. A recurring job of another group, or of none, with one of these ids comes to this group.
   * @throws InvalidError naming the position of everything that is wrong; ConflictError as `setRecurring`: what was set by
   * then stays and nothing is removed
   */
  async syncRecurring(group: string, specs: readonly RecurringSpec[]): Promise<void> {
    await recurring.syncRecurring(this.#store, group, specs);
  }

  /** Nothing more runs of it; jobs that it has made stay. @throws NotFoundError */
  async removeRecurring(id: string): Promise<void> {
    recurring.checkId("can't remove the recurring job", id);
    await this.#store.removeRecurring(id);
  }

  /** Its occurrences pass by from now on. Twice is fine. @throws NotFoundError, ConflictError */
  async pauseRecurring(id: string): Promise<void> {
    await recurring.pauseRecurring(this.#store, id);
  }

  /** Ends a pause: it goes on with the next occurrence from now. Twice is fine. @throws NotFoundError, ConflictError */
  async resumeRecurring(id: string): Promise<void> {
    await recurring.resumeRecurring(this.#store, id);
  }

  /**
   * Adds a job of it now, paused or not, and leaves its schedule. Without `overlap`, while its last job has not ended,
   * none is added and the id returned is that job's.
   * @throws NotFoundError, ConflictError
   */
  async triggerRecurring(id: string): Promise<JobId> {
    return recurring.triggerRecurring(this.#store, id, (insert) => intercepted(this.#settings.interceptors, insert));
  }

  /** All recurring jobs, by id. */
  async recurring(): Promise<RecurringView[]> {
    return (await this.#store.recurring()).map(viewRecurring);
  }

  /** Jobs by state. */
  async counts(): Promise<Counts> {
    return this.#store.counts();
  }

  /** Keys of limits that are in use, or were within the last hour, in order; the page after `after`. */
  async limits(query: LimitQuery = {}): Promise<LimitRecord[]> {
    const check = new Checker("can't list limits", query, ["after", "limit"]);
    const after = check.text("after", { empty: true });
    const limit = check.integer("limit", { min: 1, max: Number.MAX_SAFE_INTEGER, default: PAGE.default });
    check.end();
    return this.#store.limits({ limit, ...(after !== undefined && { after }) });
  }

  /** What ended when: non-empty buckets, ascending, from the one that holds `from` up to, and without, the minute of `to`. */
  async series(options: SeriesOptions): Promise<SeriesPoint[]> {
    const check = new Checker("can't read the series", options, ["from", "to", "step"]);
    check.required("from", "to", "step");
    const from = check.date("from");
    const to = check.date("to");
    const step = check.duration("step", { min: MINUTE, max: LONGEST_DURATION, default: MINUTE });
    if (step % MINUTE !== 0) check.refuse("step", "must be whole minutes");
    check.end();
    return this.#store.series({ from: from as Date, to: to as Date, step });
  }

  /** All servers that are, or were lately, registered, by id. */
  async servers(): Promise<ServerRecord[]> {
    return this.#store.servers();
  }

  /** By name: every queue that has jobs which have not ended, is paused or is served. */
  async queues(): Promise<QueueRecord[]> {
    return this.#store.queues();
  }
}

const isPlain = (client: object): boolean => Object.getPrototypeOf(client) === Client.prototype;

function checkOptions(store: Store, options: ClientOptions): ClientSettings {
  const check = new Checker("can't make a client", options, ["interceptors", "runtime"]);
  if (!hasMethods(store, ["insert", "job", "jobs"])) check.problems.add("store", store, "must be a store");
  const interceptors = check.array("interceptors") ?? [];
  for (const [index, interceptor] of interceptors.entries()) {
    if (typeof interceptor === "function") continue;
    check.problems.add(`interceptors[${index}]`, interceptor, "must be a function");
  }
  const runtime = check.object<Runtime>("runtime", ["turn"]) ?? systemRuntime;
  check.end();
  return new ClientSettings(interceptors as EnqueueInterceptor[], runtime);
}

function checkQueue(what: string, queue: unknown): void {
  const problems = new Problems();
  readName(problems, "queue", queue, QUEUE, QUEUE_RULE);
  problems.end(what);
}
