/** The process in which jobs are enqueued and operators act. What it knows survives it, as in an application's database. */
import { sleep, withDeadline } from "../../engine/async.ts";
import { Batch } from "../../engine/batch.ts";
import { Client } from "../../engine/client.ts";
import type { SpecOptions } from "../../engine/enqueue.ts";
import { ClosedError, NotFoundError } from "../../engine/errors.ts";
import type { HandlerContext } from "../../engine/job.ts";
import type { BatchId, JobId } from "../../engine/store.ts";
import type { Database } from "../cluster/database.ts";
import type { Action, BatchPlan, JobPlan, Scenario } from "../scenario/scenario.ts";
import type { Incarnation } from "../world/process.ts";
import type { World } from "../world/world.ts";
import { planned, recurring } from "./handlers.ts";

const RETRY = 1_000;
/** One for each wait: a killed process never ends its own, and a signal for all would keep its whole world alive. */
const never = (): AbortSignal => new AbortController().signal;
const MS = 1_000;

export class Application {
  readonly #world: World;
  readonly #database: Database;
  readonly #scenario: Scenario;
  /** Ids by plan, of those that were confirmed. */
  readonly #ids = new Map<number, JobId>();
  /** Of batches that are known to be there. */
  readonly #batches = new Map<number, BatchId>();
  /** What has been done, by name. */
  readonly #done = new Set<string>();
  #healed = false;

  constructor(world: World, database: Database, scenario: Scenario) {
    this.#world = world;
    this.#database = database;
    this.#scenario = scenario;
  }

  /** All that was planned has been done. */
  get done(): boolean {
    const { jobs, batches, recurring, actions } = this.#scenario;
    return this.#done.size === jobs.length + 2 * batches.length + recurring.length + actions.length;
  }

  /** From now on what has failed is deleted, queues are not paused, and recurring jobs make no more jobs. */
  heal(): void {
    this.#healed = true;
  }

  /** A process has been started to do what is still to be done. */
  start(incarnation: Incarnation): void {
    const client = new Client(this.#database.connect(incarnation), { runtime: incarnation });
    const { jobs, batches, recurring: recurrences, actions } = this.#scenario;
    const tasks: Task[] = [];
    const begin = (name: string, at: number, work: () => Promise<unknown>): void => {
      if (!this.#done.has(name)) tasks.push({ name, at, work });
    };
    for (const [index, job] of jobs.entries()) begin(`job${index}`, job.at, () => this.#enqueue(client, index));
    for (const [index, { at, sealAt }] of batches.entries()) {
      begin(`batch${index}`, at, () => this.#open(client, index));
      begin(`seal${index}`, Math.max(at, sealAt), () => this.#seal(client, index));
    }
    for (const [index, plan] of recurrences.entries()) {
      const { cron, timeZone, misfire, overlap } = plan;
      const set = (): Promise<void> =>
        client.setRecurring(`r${index}`, recurring, { plan: index }, { cron, timeZone, misfire, overlap, queue: "a" });
      begin(`recurring${index}`, plan.at, set);
    }
    for (const [index, action] of actions.entries()) {
      begin(`action${index}`, action.at, () => this.#act(client, action));
    }
    void this.#beginAll(incarnation, tasks);
    void this.#tidy(incarnation, client);
  }

  /** One timer for all: thousands at once would make every other one of the world slower. */
  async #beginAll(incarnation: Incarnation, tasks: readonly Task[]): Promise<void> {
    for (const task of tasks.toSorted((a, b) => a.at - b.at)) {
      const wait = task.at - this.#world.now / MS;
      if (wait > 0) await sleep(incarnation, wait, never());
      void this.#task(incarnation, task);
    }
  }

  /** Through the client of a handler. */
  async enqueueFrom(plan: number, { client }: HandlerContext): Promise<void> {
    const job = this.#scenario.jobs[plan];
    if (job !== undefined) await client.enqueue(planned, { plan }, optionsOf(job, NO_TIES));
  }

  /** Again and again until it was confirmed. */
  async #task(incarnation: Incarnation, { name, work }: Task): Promise<void> {
    for (;;) {
      try {
        await withTimeout(incarnation, work);
        this.#done.add(name);
        return;
      } catch {
        await sleep(incarnation, RETRY, never());
      }
    }
  }

  async #enqueue(client: Client, index: number): Promise<void> {
    const job = this.#scenario.jobs[index] as JobPlan;
    const parents = job.after.map(({ job: parent, finished }) => ({ id: known(this.#ids, parent), finished }));
    const batch = job.batch === null ? null : known(this.#batches, job.batch);
    const afterBatch = job.afterBatch === null ? null : known(this.#batches, job.afterBatch);
    const full: Ties = { parents, batch, afterBatch };
    // Its batch may have finished before it comes, and retention may have removed what it waits for.
    for (const ties of [full, { ...full, batch: null }, NO_TIES]) {
      try {
        this.#ids.set(index, await client.enqueue(planned, { plan: index }, optionsOf(job, ties)));
        return;
      } catch (error) {
        const gone = error instanceof ClosedError || error instanceof NotFoundError;
        if (!gone || ties === NO_TIES) throw error;
      }
    }
  }

  async #open(client: Client, index: number): Promise<void> {
    const { parent, continuation } = this.#scenario.batches[index] as BatchPlan;
    const around = parent === null ? null : known(this.#batches, parent);
    const description = `b${index}`;
    // The answer to an earlier try may have been lost.
    const { batches } = await client.batches({ limit: 500 });
    const there = batches.find((one) => one.description === description);
    this.#batches.set(index, there?.id ?? (await this.#make(client, description, around, continuation)));
  }

  async #make(client: Client, description: string, parent: BatchId | null, next: number | null): Promise<BatchId> {
    const batch = new Batch({ description, ...(parent !== null && { parent }) });
    const job = next === null ? undefined : this.#scenario.jobs[next];
    if (job !== undefined && next !== null) {
      batch.continueWith(planned.spec({ plan: next }, optionsOf({ ...job, unique: null }, NO_TIES)));
    }
    try {
      return await client.openBatch(batch);
    } catch (error) {
      const gone = error instanceof ClosedError || error instanceof NotFoundError;
      if (!gone || parent === null) throw error;
      return this.#make(client, description, null, next);
    }
  }

  async #seal(client: Client, index: number): Promise<void> {
    const id = known(this.#batches, index);
    await client.sealBatch(id);
    await client.batch(id);
  }

  async #act(client: Client, action: Action): Promise<void> {
    switch (action.type) {
      case "delete":
      case "requeue": {
        const id = this.#ids.get(action.job);
        if (id !== undefined) await client[action.type](id);
        return;
      }
      case "deleteFailed":
        await client.delete({ state: "failed" });
        return;
      case "requeueFailed":
        await client.requeue({ state: "failed" });
        return;
      default:
        await client[action.type](action.queue);
    }
  }

  /** Once all is healed, nothing may stay behind for good: an operator looks after it. */
  async #tidy(incarnation: Incarnation, client: Client): Promise<void> {
    let removed = false;
    for (;;) {
      await sleep(incarnation, 5_000, never());
      if (!this.#healed) continue;
      try {
        await withTimeout(incarnation, async () => {
          // What is still to be done may pause a queue again.
          const all = this.done;
          if (!removed) {
            for (const queue of ["a", "b"]) await client.resumeQueue(queue);
            for (const { id } of await client.recurring()) await client.removeRecurring(id);
          }
          if (all) {
            removed = true;
            // Also those that were made twice, because nobody was told of the first.
            const { batches } = await client.batches({ limit: 500 });
            for (const { id, sealed } of batches) if (!sealed) await client.sealBatch(id);
          }
          await client.delete({ state: "failed" });
        });
      } catch {
        // Tried again.
      }
    }
  }
}

/** What is done once, at its time. */
interface Task {
  readonly name: string;
  readonly at: number;
  readonly work: () => Promise<unknown>;
}

/** What a job has to do with others. */
interface Ties {
  readonly parents: readonly { readonly id: JobId; readonly finished: boolean }[];
  readonly batch: BatchId | null;
  readonly afterBatch: BatchId | null;
}

const NO_TIES: Ties = { parents: [], batch: null, afterBatch: null };

/** One for all: it is thrown every second, and making an error costs more than all the rest. */
const NOT_YET = new Error("what it needs has not been made yet");

/** @throws Error while it has not been made */
function known(ids: ReadonlyMap<number, number>, index: number): number {
  const id = ids.get(index);
  if (id === undefined) throw NOT_YET;
  return id;
}

function optionsOf(job: JobPlan, { parents, batch, afterBatch }: Ties): SpecOptions {
  const { queue, priority, delay, maxAttempts, timeout, limit, unique } = job;
  return {
    ...{ queue, priority, delay, maxAttempts },
    ...(timeout !== null && { timeout }),
    ...(limit !== null && { limit: limitOf(limit) }),
    ...(unique !== null && { unique: uniqueOf(unique) }),
    ...(batch !== null && { batch }),
    ...(afterBatch !== null && { afterBatch }),
    after: parents.filter(({ finished }) => !finished).map(({ id }) => id),
    afterFinished: parents.filter(({ finished }) => finished).map(({ id }) => id),
  };
}

function limitOf({ key, max, rate, per, burst }: NonNullable<JobPlan["limit"]>): NonNullable<SpecOptions["limit"]> {
  return {
    key: `k${key}`,
    ...(max > 0 && { max }),
    ...(rate > 0 && { rate, per, burst }),
  };
}

function uniqueOf({ key, window, mode }: NonNullable<JobPlan["unique"]>): NonNullable<SpecOptions["unique"]> {
  return { key: `u${key}`, ...(window !== null && { for: window }), ...(mode === "replace" && { replace: true }) };
}

/** Rejects when it has not answered in time: a request or a reply may have been lost. */
function withTimeout(incarnation: Incarnation, work: () => Promise<unknown>): Promise<unknown> {
  return withDeadline(incarnation, "a call of the application", 5_000, work);
}
