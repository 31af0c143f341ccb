/** Both stores, on a clock of their own, and what has to be true of every job that they took. */
import assert from "node:assert/strict";
import { InvalidError } from "../../engine/errors.ts";
import type { Handler } from "../../engine/job.ts";
import type { JobId, JobState, Store } from "../../engine/store.ts";
import { JOB_STATES } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { TestServer, VirtualTime } from "../../engine/testing/index.ts";
import type { JobView } from "../../engine/view.ts";

export type Open = (time: VirtualTime) => Promise<Store>;

export const STORES: Readonly<Record<string, Open>> = {
  memory: async (time) => new MemoryStore({ runtime: time.runtime() }),
  SQLite: (time) => SqliteStore.open({ path: ":memory:", runtime: time.runtime() }),
};

/** A server of these handlers on an empty store. Handlers are not waited for in real time: none here needs any. */
export async function serverOn(open: Open, handlers: readonly Handler[]): Promise<TestServer> {
  const time = new VirtualTime();
  return new TestServer({ handlers, time, store: await open(time), patience: 0, workers: 100 });
}

/** What a refusal is: an `InvalidError` whose text can be shown anywhere. Undefined when the call was not refused. */
export async function refusalOf(call: () => unknown): Promise<InvalidError | undefined> {
  try {
    await call();
    return undefined;
  } catch (error) {
    assertRefusal(error);
    return error;
  }
}

export function assertRefusal(error: unknown): asserts error is InvalidError {
  assert.ok(error instanceof InvalidError, `not an InvalidError: ${String((error as Error)?.stack ?? error)}`);
  assert.ok(error.problems.length > 0 && error.problems.every(({ field, rule }) => field !== "" && rule !== ""));
  assert.ok(error.message.isWellFormed() && !error.message.includes("\u0000") && error.message.length < 10_000);
}

/** All jobs, as lists show them, and all that else can be seen of a store. */
export async function everything({ client }: TestServer): Promise<unknown> {
  const jobs = await allJobs(client);
  const [counts, queues] = [await client.counts(), await client.queues()];
  const [limits, { batches }] = [await client.limits({ limit: 500 }), await client.batches({ limit: 500 })];
  return { jobs, counts, queues, limits, batches, recurring: await client.recurring() };
}

export async function allJobs(client: TestServer["client"]): Promise<JobView[]> {
  const jobs: JobView[] = [];
  for (const state of JOB_STATES) {
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof client.list>> = await client.list({
        ...{ state, limit: 500 },
        ...(cursor !== null && { cursor }),
      });
      jobs.push(...page.jobs);
      cursor = page.next;
    } while (cursor !== null);
  }
  return jobs.sort((a, b) => a.id - b.id);
}

/** Runs what there is, also what is due in a hundred years. Nothing is left that waits. */
export async function runAll(server: TestServer): Promise<void> {
  for (let rounds = 0; rounds < 20; rounds++) {
    await server.client.requeue({ state: "scheduled" });
    await server.drain({ limit: 0 }).catch((error: Error) => assert.match(error.message, /scheduled/));
    const { enqueued, throttled, scheduled, processing } = await server.client.counts();
    assert.deepEqual([enqueued, throttled, processing], [0, 0, 0], "every job can be claimed");
    if (scheduled === 0) return;
  }
  assert.fail("jobs are scheduled again and again");
}

/** Each can be shown alone and in lists, requeued, run again, requeued and deleted. Jobs have ended. */
export async function assertNotStuck(server: TestServer, ids: readonly JobId[]): Promise<void> {
  const { client } = server;
  await assertShown(server, ids, ["succeeded", "failed", "deleted"]);
  assert.equal(await client.requeue(ids), ids.length);
  await assertShown(server, ids, ["enqueued", "throttled"]);
  await runAll(server);
  await assertShown(server, ids, ["succeeded", "failed", "deleted"]);
  assert.equal(await client.requeue({ ids }), ids.length);
  assert.equal(await client.delete(ids), ids.length);
  await assertShown(server, ids, ["deleted"]);
}

async function assertShown({ client }: TestServer, ids: readonly JobId[], states: readonly JobState[]): Promise<void> {
  const listed = await allJobs(client);
  assert.deepEqual(
    listed.map(({ id }) => id),
    ids,
  );
  for (const job of listed) {
    assert.deepEqual(await client.get(job.id), job);
    assert.ok(states.includes(job.state), `job ${job.id} is ${job.state}`);
  }
}
