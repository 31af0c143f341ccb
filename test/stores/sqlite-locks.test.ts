import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { systemRuntime } from "../../engine/runtime.ts";
import { Connection } from "../../engine/stores/sqlite/connection.ts";
import { insert } from "../../engine/stores/sqlite/insert.ts";
import { migrate } from "../../engine/stores/sqlite/schema.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { claim, claimOne, end, insertOne, newJob, newJobs, outcome, register } from "../conformance/support.ts";
import { fileFor, openStore } from "./sqlite-support.ts";

/** Another connection that has the write lock until it is told to let go. */
function lock(t: TestContext, path: string): () => void {
  const db = new DatabaseSync(path);
  t.after(() => db.close());
  db.exec("BEGIN IMMEDIATE");
  return () => db.exec("COMMIT");
}

test("calls wait for another's lock without blocking the event loop", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  await register(store);
  await insertOne(store);
  const release = lock(t, path);
  let done = 0;
  const calls = [
    store.insert([newJob()]),
    store.claim({ server: "s1", sequence: 1, queues: ["default"], kinds: [], limit: 1 }),
    store.heartbeat({ server: "s1", running: 0 }),
    store.pauseQueue("other"),
  ].map((call) => call.finally(() => (done += 1)));
  for (let turns = 0; turns < 100; turns += 1) await systemRuntime.turn();
  assert.equal(done, 0);

  // Who only reads need not wait.
  assert.equal((await store.counts()).enqueued, 1);
  assert.deepEqual((await claim(store, { kinds: ["absent"] })).length, 0);
  assert.equal(await store.sweep(10), 0);
  assert.equal(done, 0);
  release();
  await Promise.all(calls);
  assert.equal((await store.counts()).enqueued, 1);
  assert.equal((await store.counts()).processing, 1);
});

test("a lock that is held for 10 s makes a call fail, and the next one works", async (t) => {
  const path = fileFor(t);
  const time = new VirtualTime();
  const store = await openStore(t, { path, runtime: time.runtime() });
  const release = lock(t, path);
  const start = time.now;
  const failure = await time.settled(
    store.insert([newJob()]).then(
      () => null,
      (error: unknown) => error,
    ),
    20_000,
  );
  assert.equal((failure as { code?: string }).code, "store_busy");
  assert.equal((failure as { retryable?: boolean }).retryable, true);
  assert.ok(time.now - start >= 10_000 && time.now - start < 10_100, `${time.now - start} ms`);
  release();
  await insertOne(store);
  assert.equal((await store.counts()).enqueued, 1);
  assert.equal(time.armed, 0);
});

test("closing ends calls that wait for a lock", async (t) => {
  const path = fileFor(t);
  const warnings: unknown[] = [];
  const onWarning = (warning: unknown): void => void warnings.push(warning);
  process.on("warning", onWarning);
  t.after(() => process.off("warning", onWarning));
  const time = new VirtualTime();
  const store = await openStore(t, { path, runtime: time.runtime() });
  lock(t, path);
  const calls = Array.from({ length: 50 }, () => assert.rejects(store.insert([newJob()]), { code: "store_closed" }));
  await systemRuntime.turn();
  assert.equal(time.armed, 1, "one of them tries for all");
  await store.close();
  await Promise.all(calls);
  assert.equal(time.armed, 0);
  assert.deepEqual(warnings, [], "no warning of a leak");
});

test("opening does not wait for a writer when the tables are there", async (t) => {
  const path = fileFor(t);
  await (await openStore(t, { path })).close();
  lock(t, path);
  // In time that never passes: a single wait would never end.
  const store = await openStore(t, { path, runtime: new VirtualTime().runtime() });
  assert.equal((await store.counts()).enqueued, 0);
});

test("a full disk is a typed error, changes nothing, and passes", async (t) => {
  const db = new Connection(fileFor(t), systemRuntime);
  t.after(() => db.close());
  await db.configure("full");
  await migrate(db);
  await insert(db, newJobs(10));
  const pages = db.get<[number]>("PRAGMA page_count")?.[0] ?? 0;
  db.get(`PRAGMA max_page_count = ${pages + 1}`);
  await assert.rejects(insert(db, newJobs(5_000)), { code: "store_full", retryable: true });
  const count = (): Promise<unknown> => db.read(() => db.get("SELECT count(*), max(id) FROM kiln_jobs"));
  assert.deepEqual(await count(), [10, 10]);
  db.get("PRAGMA max_page_count = 1000000");
  await insert(db, newJobs(5_000));
  assert.deepEqual(await count(), [5_010, 5_010]);
});

test("deleting and requeueing many jobs leaves the event loop free in between", async (t) => {
  let turns = 0;
  const runtime = {
    ...systemRuntime,
    turn: (): Promise<void> => {
      turns += 1;
      return systemRuntime.turn();
    },
  };
  const store = await openStore(t, { path: fileFor(t), durability: "normal", runtime });
  const ids = (await store.insert(newJobs(2_500))).map(({ id }) => id);
  assert.equal(await store.delete({ state: "enqueued" }), 2_500);
  assert.ok(turns >= 2, `${turns} turns`);
  turns = 0;
  assert.equal(await store.requeue({ ids }), 2_500);
  assert.ok(turns >= 2, `${turns} turns`);
  assert.equal(await store.delete({ ids, kind: "other" }), 0);
  assert.equal((await store.counts()).enqueued, 2_500);
  turns = 0;
  assert.equal(await store.delete({ ids }), 2_500);
  const prune = { succeeded: null, failed: null, servers: 1e12, stats: 1e12 };
  assert.equal(await store.prune({ ...prune, deleted: 0, limit: 2_400 }), 2_400);
  assert.ok(turns >= 6, `${turns} turns`);
  assert.equal(await store.prune({ ...prune, deleted: 0, limit: 2_400 }), 100);
});

test("two stores on one file share its jobs and never claim the same one", async (t) => {
  const path = fileFor(t);
  const stores = [await openStore(t, { path }), await openStore(t, { path })] as const;
  const [first, second] = stores;
  await register(first, "s1");
  await register(second, "s2");
  await first.insert(newJobs(400));
  const drain = async (store: typeof first, server: string): Promise<number[]> => {
    const ids: number[] = [];
    for (let sequence = 1; ; sequence += 1) {
      const { jobs } = await store.claim({ server, sequence, queues: ["default"], kinds: ["task"], limit: 7 });
      if (jobs.length === 0) return ids;
      ids.push(...jobs.map(({ id }) => id));
      const results = await store.finish(
        server,
        jobs.map((job) => outcome(job, "succeeded")),
      );
      assert.ok(results.every(({ status }) => status === "applied"));
    }
  };
  const claimed = (await Promise.all([drain(first, "s1"), drain(second, "s2")])).flat();
  assert.equal(claimed.length, 400);
  assert.equal(new Set(claimed).size, 400);
  assert.equal((await second.counts()).succeeded, 400);

  const id = await insertOne(second);
  const job = await claimOne(first);
  assert.equal(job.id, id);
  await end(second, job, "succeeded");
  assert.deepEqual(await first.finish("s1", [outcome(job, "succeeded")]), [{ status: "stale" }]);
});
