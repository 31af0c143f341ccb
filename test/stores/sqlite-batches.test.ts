/** What batches cost in the SQLite store. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Connection } from "../../engine/stores/sqlite/connection.ts";
import { batchOf, openBatch } from "../conformance/batches-support.ts";
import { claim, newJobs, outcome, register } from "../conformance/support.ts";
import { fileFor, openStore } from "./sqlite-support.ts";

/** Statements about batches that run from now on. */
function watch(t: TestContext): string[] {
  const seen: string[] = [];
  for (const method of ["get", "all", "run"] as const) {
    const original = Connection.prototype[method] as (...args: unknown[]) => unknown;
    t.mock.method(Connection.prototype, method, function (this: Connection, sql: string, ...params: unknown[]) {
      if (sql.includes("kiln_batches")) seen.push(sql);
      return original.call(this, sql, ...params);
    });
  }
  return seen;
}

test("a call writes a batch once, however many members it adds or ends", async (t) => {
  const store = await openStore(t, { path: fileFor(t) });
  await register(store);
  const id = await openBatch(store);
  const statements = watch(t);
  const during = async (call: Promise<unknown>): Promise<number> => {
    await call;
    return statements.splice(0).length;
  };
  assert.equal(await during(store.insert(newJobs(100, { batch: id }))), 2, "a look and a write");
  const jobs = await claim(store);
  assert.equal(statements.length, 0);
  const outcomes = jobs.map((job) => outcome(job, "succeeded"));
  assert.equal(await during(store.finish("s1", outcomes)), 2, "a write, and a look whether it is done");
  assert.equal(await during(store.requeue({ state: "succeeded", batch: id })), 1);
  assert.equal(await during(store.delete({ state: "enqueued", batch: id })), 2);
  await store.sealBatch(id);
  assert.ok((await batchOf(store, id)).finishedAt);
});

test("jobs outside batches cost nothing for them", async (t) => {
  const store = await openStore(t, { path: fileFor(t) });
  await register(store);
  await openBatch(store);
  const statements = watch(t);
  await store.insert(newJobs(10));
  await store.insert(newJobs(10, { unique: { key: "a".repeat(32), window: null, onConflict: "keep" } }));
  const jobs = await claim(store);
  await store.finish(
    "s1",
    jobs.map((job, n) => outcome(job, n % 2 === 0 ? "succeeded" : "failed")),
  );
  await store.requeue({ state: "failed" });
  await store.delete({ state: "enqueued" });
  await store.sweep(100);
  assert.deepEqual(statements, []);
});
