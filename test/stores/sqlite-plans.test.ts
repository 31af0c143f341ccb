import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { JOB_STATES, type JobState } from "../../engine/store.ts";
import type { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { HOUR, MINUTE, newJob, newJobs, oneOfEach, outcome, register, running } from "../conformance/support.ts";
import { fileFor, openStore } from "./sqlite-support.ts";

/** Of a place in the pages of a state. */
const cursorOf = (state: JobState): string =>
  Buffer.from(state === "awaiting" || state === "processing" ? "[1]" : "[1,1]").toString("base64url");

/** Makes the store use each of its statements. */
async function callEverything(store: SqliteStore, time: VirtualTime): Promise<void> {
  const stop = store.subscribe(() => {});
  await stop();
  await register(store);
  await register(store, "silent", { deadAfter: 1 });
  await oneOfEach(store);
  await store.insert(["a", "b", "c"].flatMap((kind) => newJobs(30, { kind, tags: ["t"] })));
  await store.insert(newJobs(10, { delay: MINUTE }));
  const unique = { key: "a".repeat(32), window: null, onConflict: "replace" } as const;
  for (let time = 0; time < 2; time++) await store.insert([newJob({ kind: "unique", unique })]);
  const [parent] = await store.insert([newJob({ kind: "parent" })]);
  const on = ["succeeded"] as const;
  const parents = [{ id: parent?.id ?? 0, on }];
  const children = newJobs(3, { kind: "child", parents });
  await store.insert([...children, newJob({ kind: "child", parents: [{ index: 0, on }, ...parents] })]);
  await store.outputs([1]);
  const batch = await store.openBatch({ description: null, meta: {}, parent: null });
  const nested = await store.openBatch({ description: null, meta: {}, parent: batch });
  await store.insert([newJob({ kind: "parent", batch }), newJob({ kind: "child", afterBatch: batch })]);
  for (const id of [nested, batch]) await store.sealBatch(id);
  await store.batch(batch);
  for (const query of [{}, { parent: batch }]) await store.batches(query);
  for (const fields of [{ batch }, { recurringId: "a" }]) {
    for (const state of JOB_STATES) {
      const { next } = await store.jobs({ state, ...fields, limit: 1 });
      await store.jobs({ state, ...fields, limit: 1, cursor: next ?? cursorOf(state) });
    }
    await store.requeue({ ids: [1], ...fields });
  }
  await store.delete({ state: "enqueued", kind: "parent" });
  await store.requeue({ state: "deleted", kind: "child" });
  await time.advance(2 * MINUTE);
  await store.heartbeat({ server: "s1", running: 1 });
  await store.lead({ name: "leader", holder: "s1", ttl: 1 });
  await store.resign({ name: "leader", holder: "s1" });
  await store.orphans(10);
  await store.sweep(5);
  for (const kinds of [[], ["a"], ["a", "b", "c"]]) {
    const query = { server: "s1", sequence: 1, queues: ["default", "other"], kinds, limit: 20 };
    const { jobs } = await store.claim(query);
    const [first, ...others] = jobs.map((job) => outcome(job, "succeeded"));
    assert.ok(first);
    await store.setParams(first, { a: "1" });
    await store.insert([newJob({ kind: "x" })], { whileHeld: first });
    await store.writeConsole(first, { lines: ["a"], progress: 1 });
    await store.finish("s1", [{ ...first, output: "1", reason: "done" }, ...others]);
  }
  await store.finish("s1", [outcome(await running(store), "scheduled", { delay: HOUR, reason: "retry" })]);
  for (const state of JOB_STATES) {
    const { next } = await store.jobs({ state, limit: 1 });
    await store.jobs({ state, tag: "t", queue: "default", ...(next !== null && { cursor: next }) });
    await store.requeue({ state, kind: "a" });
    await store.delete({ state, kind: "b" });
  }
  await store.requeue({ ids: [1, 2, 3, 4, 5, 6] });
  await store.pauseQueue("default");
  await store.resumeQueue("default");
  await store.job(1);
  await store.consoleLines({ id: 1 });
  await store.counts();
  await store.series({ from: new Date(0), to: new Date(time.now), step: HOUR });
  await store.servers();
  await store.queues();
  await time.advance(HOUR);
  await store.prune({ succeeded: 0, deleted: 0, failed: 0, servers: 0, stats: 0, limit: 100 });
  await store.unregister("s1");
}

/** Walks over a table of jobs that are meant: over an index that holds only the running jobs, or over a capped count. */
const MEANT_SCANS = /^SCAN kiln_jobs USING (INDEX kiln_jobs_held|COVERING INDEX kiln_jobs_\w+)$/;
const MEANT_SORTS = /kiln_jobs_held|FROM kiln_stats|FROM kiln_servers|FROM json_each\(\?2\)/;

test("no statement walks over the tables of jobs, and none sorts more than the running jobs", async (t) => {
  const path = fileFor(t);
  const time = new VirtualTime();
  const prepare = t.mock.method(DatabaseSync.prototype, "prepare");
  const store = await openStore(t, { path, durability: "normal", runtime: time.runtime() });
  await callEverything(store, time);
  const statements = new Set(prepare.mock.calls.map(({ arguments: [sql] }) => sql));
  prepare.mock.restore();

  const used = new Set<string>();
  const db = new DatabaseSync(path);
  t.after(() => db.close());
  for (const sql of statements) {
    if (!/^\s*(SELECT|INSERT|UPDATE|DELETE)/.test(sql)) continue;
    for (const row of db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()) {
      const step = String(row["detail"]);
      const index = /INDEX (kiln_(?:jobs|archive)_\w+)/.exec(step)?.[1];
      if (index !== undefined) used.add(index);
      if (/^SCAN (kiln_jobs|kiln_archive|kiln_console|kiln_progress|kiln_batches|j)\b/.test(step))
        assert.match(step, MEANT_SCANS, sql);
      if (step.startsWith("USE TEMP B-TREE")) assert.match(sql, MEANT_SORTS, step);
    }
  }
  const indexes = db
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name IN ('kiln_jobs', 'kiln_archive')")
    .all();
  assert.deepEqual([...used].sort(), indexes.map(({ name }) => name).sort(), "each index is used");
});

test("a plain job is in one index while it waits, while it runs and when it has ended", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  await register(store);
  const db = new DatabaseSync(path);
  t.after(() => db.close());
  const entries = (): Record<string, number> => {
    const names = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND name LIKE 'kiln_%'").all();
    const counts = names.map(({ name }): [string, number] => {
      const count = db
        .prepare("SELECT sum(ncell) AS n FROM dbstat WHERE name = ? AND pagetype = 'leaf'")
        .get(String(name));
      return [String(name), Number(count?.["n"])];
    });
    return Object.fromEntries(counts.filter(([, count]) => count > 0));
  };
  await store.insert(newJobs(10));
  assert.deepEqual(entries(), { kiln_jobs_ready: 10 });
  const { jobs } = await store.claim({ server: "s1", sequence: 1, queues: ["default"], kinds: [], limit: 10 });
  assert.deepEqual(entries(), { kiln_jobs_held: 10 });
  await store.finish(
    "s1",
    jobs.map((job) => outcome(job, "succeeded")),
  );
  assert.deepEqual(entries(), { kiln_archive_ended: 10 });
});

test("an idle server writes nothing", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  const db = new DatabaseSync(path);
  t.after(() => db.close());
  await register(store);
  await store.lead({ name: "leader", holder: "other", ttl: HOUR });
  await store.insert([newJob({ delay: HOUR }), newJob({ queue: "foreign" }), newJob({ kind: "foreign" })]);
  const state = (): unknown => [db.prepare("PRAGMA data_version").get(), statSync(`${path}-wal`).size];
  const before = state();
  for (const kinds of [["task"], ["task", "absent"], ["absent"]]) {
    const query = { server: "s1", sequence: 1, queues: ["default", "absent"], kinds, limit: 10 };
    const { jobs, nextIn } = await store.claim(query);
    assert.deepEqual(jobs, []);
    assert.equal(nextIn === null, !kinds.includes("task"));
  }
  assert.deepEqual(await store.orphans(10), []);
  assert.equal(await store.sweep(10), 0);
  assert.equal(await store.prune({ succeeded: 0, deleted: 0, failed: 0, servers: HOUR, stats: HOUR, limit: 10 }), 0);
  assert.deepEqual(await store.lead({ name: "leader", holder: "s1", ttl: HOUR }), { held: false, heldFor: 0 });
  assert.deepEqual(state(), before);
  await store.heartbeat({ server: "s1", running: 0 });
  assert.notDeepEqual(state(), before, "a write is seen");
});
