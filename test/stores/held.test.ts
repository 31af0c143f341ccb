/** What it costs that a claim must hold its job when jobs are inserted, and that a refusal leaves no trace at all. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Runtime } from "../../engine/runtime.ts";
import type { JobRef, NewJob, Store } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { Connection } from "../../engine/stores/sqlite/connection.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { insertOne, newJob, newJobs, register, running } from "../conformance/support.ts";
import { uniqueKey } from "../conformance/transaction-cases.ts";
import { fileFor, openStore } from "./sqlite-support.ts";

const OPEN: Readonly<Record<string, (runtime?: Runtime) => Promise<Store>>> = {
  memory: (runtime) => MemoryStore.open({ ...(runtime && { runtime }) }),
  SQLite: (runtime) => SqliteStore.open({ path: ":memory:", ...(runtime && { runtime }) }),
};

for (const [name, open] of Object.entries(OPEN)) {
  test(`${name}: a refused insert takes no ids`, async (t) => {
    const store = await open();
    t.after(() => store.close());
    await register(store);
    const job = await running(store);
    const lost: JobRef = { id: job.id, claim: job.claim + 1 };
    const before = await insertOne(store);
    for (const jobs of [newJobs(3), [newJob({ unique: uniqueKey() })]]) {
      await assert.rejects(store.insert(jobs, { whileHeld: lost }), { code: "claim_lost" });
    }
    assert.equal(await insertOne(store), before + 1);
  });

  test(`${name}: without its check of claims a store takes what is late, but not of a job that has ended`, async (t) => {
    const store = await open(new VirtualTime().runtime({ buggify: ["store.no-claim-check"] }));
    t.after(() => store.close());
    await register(store);
    const job = await running(store);
    const late: JobRef = { id: job.id, claim: job.claim - 1 };
    assert.equal((await store.insert([newJob()], { whileHeld: late })).length, 1);
    await assert.rejects(store.insert([newJob()], { whileHeld: { id: job.id + 1, claim: 1 } }), { code: "claim_lost" });
  });
}

/** Statements that run from now on. */
function watch(t: TestContext): string[] {
  const seen: string[] = [];
  for (const method of ["get", "all", "run"] as const) {
    const original = Connection.prototype[method] as (...args: unknown[]) => unknown;
    t.mock.method(Connection.prototype, method, function (this: Connection, sql: string, ...params: unknown[]) {
      seen.push(sql);
      return original.call(this, sql, ...params);
    });
  }
  return seen;
}

test("SQLite: a claim that must hold its job costs one read more, however many jobs; other inserts cost what they did", async (t) => {
  const store = await openStore(t, { path: fileFor(t) });
  await register(store);
  const whileHeld = await running(store);
  const seen = watch(t);
  const during = async (call: Promise<unknown>): Promise<readonly string[]> => {
    await call;
    return seen.splice(0);
  };
  const unique = (key: string): NewJob[] => [newJob({ unique: uniqueKey({ key: key.repeat(32) }) })];
  for (const make of [() => newJobs(1), () => newJobs(20), unique]) {
    const plain = await during(store.insert(make("a")));
    const held = await during(store.insert(make("b"), { whileHeld }));
    const more = held.filter((sql) => sql.startsWith("SELECT claim FROM kiln_jobs"));
    assert.deepEqual([held.length, more.length], [plain.length + 1, 1]);
    assert.ok(!plain.some((sql) => sql.startsWith("SELECT claim FROM kiln_jobs")));
  }
});
