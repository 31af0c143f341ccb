/** Limits in SQLite, beyond the contract: what they write, what claims look at, clocks that step. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import type { Limit, Store } from "../../engine/store.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { claim, claimIds, claimReply, end, HOUR, newJobs, outcome, register, SECOND } from "../conformance/support.ts";
import { fileFor, openStore } from "./sqlite-support.ts";

const TABLES = ["kiln_jobs", "kiln_archive", "kiln_limits"] as const;
type Writes = Readonly<Record<(typeof TABLES)[number], number>>;

/** Counts the rows that are inserted, updated and deleted, by triggers. */
function countWrites(t: TestContext, path: string): () => Writes {
  const db = new DatabaseSync(path);
  t.after(() => db.close());
  db.exec("CREATE TABLE writes (name TEXT PRIMARY KEY, count INTEGER NOT NULL)");
  for (const table of TABLES) {
    db.exec(`INSERT INTO writes VALUES ('${table}', 0)`);
    for (const event of ["INSERT", "UPDATE", "DELETE"]) {
      db.exec(`CREATE TRIGGER ${table}_${event} AFTER ${event} ON ${table}
        BEGIN UPDATE writes SET count = count + 1 WHERE name = '${table}'; END`);
    }
  }
  const read = db.prepare("SELECT name, count FROM writes");
  let before: Record<string, number> = {};
  return () => {
    const now = Object.fromEntries(read.all().map((row) => [String(row["name"]), Number(row["count"])]));
    const writes = Object.fromEntries(TABLES.map((table) => [table, (now[table] ?? 0) - (before[table] ?? 0)]));
    before = now;
    return writes as Writes;
  };
}

/** Inserts, claims in batches of 10 and ends 100 jobs, twice. */
async function run(store: Store, limits: readonly (Limit | null)[], writes: () => Writes): Promise<Writes[]> {
  const steps: Writes[] = [];
  writes();
  for (const _ of [1, 2]) {
    await store.insert(limits.flatMap((limit) => newJobs(100 / limits.length, { limit })));
    steps.push(writes());
    for (let n = 0; n < 10; n++) {
      const jobs = await claim(store, { limit: 10 });
      assert.equal(jobs.length, 10);
      const keys = new Set(jobs.map(({ limitKey }) => limitKey));
      const step = writes();
      assert.ok(step.kiln_limits <= keys.size, "one row for each key that a claim takes from");
      steps.push(step);
      await store.finish(
        "s1",
        jobs.map((job) => outcome(job, "succeeded")),
      );
      steps.push(writes());
    }
  }
  return steps;
}

test("a limited job is written as often as any other, and its key once for each claim", async (t) => {
  const paths = [fileFor(t), `${fileFor(t)}-limited`] as const;
  const [plain, limited] = await Promise.all(paths.map((path) => openStore(t, { path, durability: "normal" })));
  assert.ok(plain && limited);
  await register(plain);
  await register(limited);
  const keys = Array.from({ length: 4 }, (_, n) => `key ${n}`);
  const rules = keys.map((key): Limit => ({ key, max: 20, rate: 1_000, per: 1_000, burst: 1_000 }));
  const ofPlain = await run(plain, [null], countWrites(t, paths[0]));
  const ofLimited = await run(limited, rules, countWrites(t, paths[1]));
  const jobs = (steps: readonly Writes[]): unknown => steps.map((step) => [step.kiln_jobs, step.kiln_archive]);
  assert.deepEqual(jobs(ofLimited), jobs(ofPlain));
  assert.ok(ofPlain.every((step) => step.kiln_limits === 0));
  const inserts = [ofLimited[0], ofLimited[21]].map((step) => step?.kiln_limits);
  assert.deepEqual(inserts, [4, 4], "an idle key is written when jobs come, once for all of them");
  const ends = ofLimited.filter((_, step) => step % 21 > 0 && step % 2 === (step < 21 ? 0 : 1));
  assert.ok(
    ends.every((step) => step.kiln_limits === 0),
    "the end of a job writes no key that was not full",
  );
});

test("a waiting or full key is not written by inserts, and claims that find it closed write nothing", async (t) => {
  const path = fileFor(t);
  const time = new VirtualTime();
  const store = await openStore(t, { path, durability: "normal", runtime: time.runtime() });
  await register(store);
  const writes = countWrites(t, path);
  const full: Limit = { key: "full", max: 1, rate: 0, per: 0, burst: 0 };
  const closed: Limit = { key: "closed", max: 0, rate: 1, per: HOUR, burst: 1 };
  await store.insert([...newJobs(2, { limit: full }), ...newJobs(2, { limit: closed })]);
  const jobs = await claim(store);
  assert.equal(jobs.length, 2);
  writes();
  await store.insert([...newJobs(5, { limit: full }), ...newJobs(5, { limit: closed })]);
  assert.equal(writes().kiln_limits, 0);
  const { nextIn } = await claimReply(store);
  assert.equal(nextIn, HOUR);
  assert.deepEqual(writes(), { kiln_jobs: 0, kiln_archive: 0, kiln_limits: 0 });
  const [first] = jobs;
  assert.ok(first);
  await end(store, first, "succeeded");
  assert.equal(writes().kiln_limits, 1, "a full key opens when a job of it ends");
});

test("a clock that stepped back blocks a key for one interval, not for the step", async (t) => {
  const time = new VirtualTime();
  const base = time.runtime();
  let step = 0;
  const runtime = new Proxy(base, {
    get: (target, name) => {
      if (name === "now") return () => target.now() + step;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const store = await openStore(t, { path: fileFor(t), durability: "normal", runtime });
  await register(store, "s1", { deadAfter: 99 * HOUR });
  const limit: Limit = { key: "k", max: 0, rate: 10, per: SECOND, burst: 1 };
  await store.insert(newJobs(10, { limit }));
  await claim(store);
  assert.equal(await store.sweep(100), 0);
  step = -HOUR;
  assert.deepEqual(await claimIds(store), [], "its opening lies an hour ahead");
  assert.equal(await store.sweep(100), 1, "and is repaired");
  assert.deepEqual(await claimIds(store), []);
  await time.advance(100);
  assert.equal((await claim(store)).length, 1);
  await time.advance(SECOND);
  assert.equal(await store.sweep(100), 0);
  step = 0;
  assert.equal((await claim(store)).length, 1, "a step forward adds no more than the burst");
});

test("several connections share a key", async (t) => {
  const path = fileFor(t);
  const time = new VirtualTime();
  const stores = await Promise.all(
    [1, 2, 3].map(() => openStore(t, { path, durability: "normal", runtime: time.runtime() })),
  );
  const [first] = stores;
  assert.ok(first);
  await register(first);
  const limit: Limit = { key: "k", max: 4, rate: 10, per: SECOND, burst: 3 };
  await first.insert(newJobs(200, { limit }));
  const starts: number[] = [];
  for (let n = 0; n < 150; n++) {
    const batches = await time.settled(Promise.all(stores.map((store) => claim(store, { limit: 2 }))), SECOND);
    const jobs = batches.flat();
    for (const _ of jobs) starts.push(time.now);
    assert.ok((await first.counts()).processing <= 4);
    for (const job of jobs) await time.settled(end(first, job, "succeeded"), SECOND);
    await time.advance(37);
  }
  let from = 0;
  starts.forEach((at, index) => {
    while (at - (starts[from] ?? 0) > SECOND) from += 1;
    assert.ok(index - from < 13);
  });
  assert.ok(starts.length >= 0.9 * (10 * 5.5 + 3), `${starts.length}`);
});
