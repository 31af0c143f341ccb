/** A hundred thousand jobs in one call, on both stores, in real time. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Client } from "../../engine/client.ts";
import { InvalidError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import type { Store } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";

const JOBS = 100_000;
/**
 * For how long the event loop may stand still, in milliseconds of CPU time, which other processes do not change: the insert is
 * one transaction and with that one piece of work. A heartbeat that is so late does no harm at the default intervals.
 */
const LONGEST_BLOCK = 2_000;
const task = defineJob<{ n: number }>("task");

const STORES: Readonly<Record<string, (t: TestContext) => Promise<Store>>> = {
  memory: () => MemoryStore.open(),
  SQLite: async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "kiln-big-"));
    const store = await SqliteStore.open({ path: join(directory, "kiln.db") });
    t.after(async () => {
      await store.close();
      await rm(directory, { recursive: true });
    });
    return store;
  },
};

/** Milliseconds of CPU time of this thread. */
function cpu(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** The most that was done at one go while `work` was under way, so that nothing else could run. */
async function longestBlock(work: () => Promise<unknown>): Promise<number> {
  let [last, longest, done] = [cpu(), 0, false];
  const look = (): void => {
    const now = cpu();
    longest = Math.max(longest, now - last);
    last = now;
    if (!done) setImmediate(look);
  };
  setImmediate(look);
  await work();
  done = true;
  look();
  return longest;
}

for (const [name, open] of Object.entries(STORES)) {
  test(`${name}: ${JOBS} jobs go in one call`, async (t) => {
    const store = await open(t);
    const client = new Client(store);
    const specs = Array.from({ length: JOBS }, (_, n) => task.spec({ n }));
    let ids: number[] = [];
    const began = cpu();
    const block = await longestBlock(async () => {
      ids = (await client.enqueueMany(specs)).map(({ id }) => id);
    });
    const took = cpu() - began;
    t.diagnostic(`${Math.round(took)} ms of CPU time, at most ${Math.round(block)} ms at one go`);
    assert.ok(block < LONGEST_BLOCK);
    assert.equal(ids.length, JOBS);
    assert.ok(ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? 0)));
    assert.equal((await store.counts()).enqueued, JOBS);
    for (const n of [0, JOBS / 2, JOBS - 1]) assert.deepEqual((await client.get(ids[n] ?? 0))?.args, { n });
  });

  test(`${name}: one bad job among ${JOBS} is named by its position, and none is written`, async (t) => {
    const store = await open(t);
    const bad = JOBS - 2;
    const client = new Client(store);
    const specs = Array.from({ length: JOBS }, (_, n) => task.spec({ n: n === bad ? Number.NaN : n }));
    await assert.rejects(client.enqueueMany(specs), (error) => {
      assert.ok(error instanceof InvalidError);
      assert.deepEqual(
        error.problems.map(({ field }) => field),
        [`jobs[${bad}].args.n`],
      );
      return true;
    });
    // What an interceptor spoils only the store can see.
    const spoils = new Client(store, {
      interceptors: [(jobs, next) => next(jobs.map((job, index) => (index === bad ? { ...job, priority: 0.5 } : job)))],
    });
    await assert.rejects(spoils.enqueueMany(specs.fill(task.spec({ n: 1 }))), (error) => {
      assert.ok(error instanceof InvalidError);
      assert.deepEqual(
        error.problems.map(({ field }) => field),
        [`jobs[${bad}].priority`],
      );
      return true;
    });
    assert.equal((await store.counts()).enqueued, 0);
    assert.equal(await client.enqueue(task, { n: 1 }), 1, "not even ids were taken");
  });
}
