/** Unique jobs: who holds a key, for how long, and what duplicates do to the holder. */
import assert from "node:assert/strict";
import type { InsertedJob, JobId, JobState, NewJob, OutcomeState, Store, UniqueKey } from "../../engine/store.ts";
import {
  assertNear,
  at,
  claimIds,
  claimOne,
  clock,
  end,
  type Group,
  HOUR,
  insertOne,
  MINUTE,
  newJob,
  only,
  reasonsOf,
  record,
  refused,
  register,
  running,
  SECOND,
  snapshot,
  stateOf,
  subscribe,
} from "./support.ts";

const KEY = "a".repeat(32);
const OTHER = "b".repeat(32);

export const unique = (fields: Partial<UniqueKey> = {}): UniqueKey => ({
  key: KEY,
  window: null,
  onConflict: "keep",
  ...fields,
});

const uniqueJob = (fields: Partial<NewJob> = {}, key: Partial<UniqueKey> = {}): NewJob =>
  newJob({ queue: "running", unique: unique(key), ...fields });

async function insert(store: Store, ...jobs: readonly NewJob[]): Promise<InsertedJob[]> {
  return store.insert(jobs);
}

const added = (id: JobId, state: JobState): InsertedJob => ({ id, state, duplicate: false, replaced: false });
const duplicate = (id: JobId, state: JobState): InsertedJob => ({ id, state, duplicate: true, replaced: false });
const replaced = (id: JobId, state: JobState): InsertedJob => ({ id, state, duplicate: true, replaced: true });

/** Inserting a job with the key gives a duplicate of `holder` and changes nothing. */
async function assertHeld(store: Store, holder: JobId, state: JobState, key: Partial<UniqueKey> = {}): Promise<void> {
  const before = await snapshot(store);
  assert.deepEqual(await insert(store, uniqueJob({ args: '"new"', delay: HOUR }, key)), [duplicate(holder, state)]);
  assert.deepEqual(await snapshot(store), before, "a duplicate changes nothing");
}

/** Inserting a job with the key adds one. */
async function assertFree(store: Store, key: Partial<UniqueKey> = {}): Promise<JobId> {
  const job = only(await insert(store, uniqueJob({}, key)));
  assert.deepEqual(job, added(job.id, "enqueued"));
  return job.id;
}

export const uniqueCases: Group = {
  async Held({ store, advance }) {
    await register(store);
    const id = await assertFree(store);
    await assertHeld(store, id, "enqueued");
    const first = await claimOne(store, { queues: ["running"] });
    await assertHeld(store, id, "processing");
    await end(store, first, "scheduled", { delay: MINUTE, reason: "retry" });
    await assertHeld(store, id, "scheduled");
    await advance(MINUTE);
    const second = await claimOne(store, { queues: ["running"] });
    await end(store, second, "enqueued", { refund: true });
    await assertHeld(store, id, "enqueued");
    await insert(store, uniqueJob({}, { key: OTHER }), newJob());
    assert.equal((await store.counts()).enqueued, 3, "other keys and plain jobs are not concerned");
  },

  async Released({ store }) {
    await register(store);
    for (const state of ["succeeded", "failed", "deleted"] as const) {
      const job = await running(store, { unique: unique() });
      await end(store, job, state, { output: "1" });
      const next = await running(store, { unique: unique() });
      assert.notEqual(next.id, job.id, state);
      await end(store, next, "succeeded");
    }
    for (const fields of [{}, { delay: HOUR }]) {
      const id = await insertOne(store, { unique: unique(), ...fields });
      assert.equal(await store.delete({ ids: [id] }), 1);
      assert.equal(await store.delete({ ids: [await assertFree(store)] }), 1);
    }
    const cancelled = await running(store, { unique: unique() });
    await store.delete({ ids: [cancelled.id] });
    await assertHeld(store, cancelled.id, "processing");
    await end(store, cancelled, "scheduled", { delay: HOUR }, "deleted");
    const failed = await running(store, { unique: unique() });
    await end(store, failed, "failed");
    const holder = await assertFree(store);
    await store.delete({ ids: [failed.id] });
    await assertHeld(store, holder, "enqueued");
  },

  async Window({ store, advance }) {
    await register(store);
    const window = { window: HOUR };
    const ends: readonly OutcomeState[] = ["succeeded", "failed", "deleted"];
    for (const state of ends) {
      const job = await running(store, { unique: unique(window) });
      await assertHeld(store, job.id, "processing", window);
      await end(store, job, state);
      await assertHeld(store, job.id, state, window);
      await assertHeld(store, job.id, state);
      await advance(HOUR - MINUTE);
      await assertHeld(store, job.id, state, window);
      await advance(MINUTE);
      await store.delete({ ids: [await assertFree(store)] });
    }
    const deleted = await assertFree(store, window);
    await store.delete({ ids: [deleted] });
    await assertHeld(store, deleted, "deleted", window);
    await advance(HOUR);
    // The key becomes free while the job still waits.
    const waiting = await assertFree(store, window);
    await advance(HOUR);
    const next = await assertFree(store);
    await store.delete({ ids: [waiting] });
    await assertHeld(store, next, "enqueued");
  },

  async WindowOutlivesJob({ store, advance }) {
    await register(store);
    const job = await running(store, { unique: unique({ window: HOUR }) });
    await end(store, job, "succeeded");
    await advance(MINUTE);
    const keep = { failed: null, deleted: null, servers: HOUR, stats: HOUR, limit: 100 };
    assert.equal(await store.prune({ ...keep, succeeded: SECOND }), 1);
    assert.equal(await store.job(job.id), null);
    assert.deepEqual(await insert(store, uniqueJob({}, { onConflict: "replace" })), [duplicate(job.id, "deleted")]);
  },

  async InCall({ store }) {
    await register(store);
    const holder = await assertFree(store);
    const results = await insert(
      store,
      uniqueJob({ args: "1" }, { key: OTHER }),
      uniqueJob({ args: "2", delay: HOUR }, { key: OTHER, onConflict: "replace" }),
      newJob(),
      uniqueJob({ args: "3" }),
      uniqueJob({ args: "4", delay: HOUR }, { key: OTHER, onConflict: "debounce" }),
      uniqueJob({ delay: HOUR }, { key: "c".repeat(32) }),
      uniqueJob({ args: "5", delay: MINUTE }, { key: "c".repeat(32), onConflict: "debounce" }),
    );
    const [first, , plain, , , last] = results;
    assert.ok(first && plain && last && holder < first.id && first.id < plain.id && plain.id < last.id);
    assert.deepEqual(results, [
      added(first.id, "enqueued"),
      duplicate(first.id, "enqueued"),
      added(plain.id, "enqueued"),
      duplicate(holder, "enqueued"),
      duplicate(first.id, "enqueued"),
      added(last.id, "scheduled"),
      duplicate(last.id, "scheduled"),
    ]);
    assert.equal((await record(store, first.id)).args, "1");
    assert.equal((await record(store, last.id)).args, "{}");
    const replacing = (args: string): NewJob => uniqueJob({ args }, { onConflict: "replace" });
    assert.deepEqual(await insert(store, replacing("6"), replacing("7")), [
      replaced(holder, "enqueued"),
      duplicate(holder, "enqueued"),
    ]);
    assert.equal((await record(store, holder)).args, "6", "only the first of a call replaces");
  },

  async Requeue({ store, advance }) {
    await register(store);
    const failed = await running(store, { unique: unique() });
    await end(store, failed, "failed");
    const holder = await running(store, { unique: unique() });
    const before = await snapshot(store);
    assert.equal(await store.requeue({ ids: [failed.id] }), 0);
    assert.deepEqual(await snapshot(store), before);
    await end(store, holder, "succeeded");
    assert.equal(await store.requeue({ ids: [failed.id] }), 1);
    await assertHeld(store, failed.id, "enqueued");
    assert.equal(await store.requeue({ ids: [holder.id] }), 0);
    await store.delete({ ids: [failed.id] });
    assert.equal(await store.requeue({ ids: [failed.id, holder.id] }), 1, "of several only one can have it");
    const taker = (await stateOf(store, failed.id)) === "enqueued" ? failed.id : holder.id;
    await assertHeld(store, taker, "enqueued");
    assert.equal(await store.delete({ ids: [taker] }), 1);
    await assertFree(store);
    // A job that still holds its key keeps it.
    const scheduled = await insertOne(store, { unique: unique({ key: OTHER }), delay: HOUR });
    assert.equal(await store.requeue({ ids: [scheduled] }), 1);
    await assertHeld(store, scheduled, "enqueued", { key: OTHER });
    // A window runs from the insert: a requeued job neither needs its key nor takes it.
    const key = { key: "c".repeat(32), window: MINUTE };
    const windowed = await running(store, { kind: "windowed", unique: unique(key) });
    await end(store, windowed, "failed");
    await advance(MINUTE);
    const next = await assertFree(store, key);
    assert.equal(await store.requeue({ ids: [windowed.id] }), 1);
    await assertHeld(store, next, "enqueued", key);
  },

  async Replace({ store }) {
    await register(store);
    const now = await clock(store);
    const payload = { args: '{"new":1}', meta: { m: "2" }, tags: ["t2"], title: "new", priority: 7 };
    const old = { args: '{"old":1}', meta: { m: "1" }, tags: ["t1"], title: "old", priority: 1, maxAttempts: 3 };
    const replacing = (fields: Partial<NewJob> = {}, key: Partial<UniqueKey> = {}): NewJob =>
      uniqueJob({ ...payload, maxAttempts: 9, queue: "other", ...fields }, { onConflict: "replace", ...key });
    const check = async (id: JobId, state: JobState): Promise<void> => {
      const { args, meta, tags, title, priority, maxAttempts, queue, ...job } = await record(store, id);
      assert.deepEqual({ args, meta, tags, title, priority }, payload);
      assert.deepEqual({ state: job.state, maxAttempts, queue }, { state, maxAttempts: 3, queue: "running" });
    };
    const id = only(await insert(store, uniqueJob({ ...old, delay: HOUR }))).id;
    const runAt = new Date(now + 2 * HOUR + 1);
    assert.deepEqual(await insert(store, replacing({ runAt })), [replaced(id, "scheduled")]);
    await check(id, "scheduled");
    assert.deepEqual((await record(store, id)).runAt, runAt);
    assert.deepEqual(await insert(store, replacing()), [replaced(id, "scheduled")]);
    assertNear((await record(store, id)).runAt, now, "without a time it is due now");
    assert.deepEqual(await claimIds(store, { queues: ["running"] }), [id], "and a claim finds it");

    const second = only(await insert(store, uniqueJob(old, { key: OTHER }))).id;
    const before = (await record(store, second)).runAt;
    assert.deepEqual(await insert(store, replacing({ runAt: new Date(5) }, { key: OTHER })), [
      replaced(second, "enqueued"),
    ]);
    await check(second, "enqueued");
    assert.deepEqual((await record(store, second)).runAt, before, "an enqueued job keeps its run time");
    assert.deepEqual(await insert(store, replacing({ delay: HOUR }, { key: OTHER })), [replaced(second, "scheduled")]);
    await check(second, "scheduled");
    assertNear((await record(store, second)).runAt, now + HOUR, "unless the new one is in the future");
    assert.deepEqual(await claimIds(store, { queues: ["running"] }), []);
    assert.deepEqual(await reasonsOf(store, second), []);

    const key = { key: "c".repeat(32) };
    const ended = await running(store, { unique: unique({ ...key, window: HOUR }) });
    await end(store, ended, "succeeded");
    assert.deepEqual(await insert(store, replacing({}, key)), [duplicate(ended.id, "succeeded")]);
    assert.equal((await record(store, ended.id)).args, "{}");
  },

  async ReplacePriority({ store }) {
    await register(store);
    const late = only(await insert(store, uniqueJob({}))).id;
    const [middle] = await insert(store, newJob({ queue: "running", priority: 5 }));
    await insert(store, uniqueJob({ priority: 9 }, { onConflict: "replace" }));
    assert.deepEqual(await claimIds(store, { queues: ["running"] }), [late, middle?.id], "the order of claims follows");
  },

  async ReplaceStates({ store, advance }) {
    await register(store);
    const job = await running(store, { unique: unique() });
    const replacing = uniqueJob({ args: '"new"', delay: HOUR }, { onConflict: "replace" });
    const before = await snapshot(store);
    assert.deepEqual(await insert(store, replacing), [duplicate(job.id, "processing")]);
    assert.deepEqual(await snapshot(store), before);
    await end(store, job, "scheduled", { delay: MINUTE, reason: "retry" });
    assert.deepEqual(await insert(store, replacing), [replaced(job.id, "scheduled")]);
    await advance(MINUTE);
    assert.deepEqual(await claimIds(store, { queues: ["running"] }), []);
    await advance(HOUR);
    const again = await claimOne(store, { queues: ["running"] });
    assert.deepEqual([again.id, again.args, again.attempt], [job.id, '"new"', 2]);
  },

  async Debounce({ store, advance }) {
    await register(store);
    const start = await clock(store);
    const push = (args: string): NewJob =>
      uniqueJob({ args, delay: MINUTE, runAt: new Date(1) }, { onConflict: "debounce" });
    const { id } = only(await insert(store, push("1")));
    assert.equal(await stateOf(store, id), "scheduled", "a run time is not looked at");
    assertNear((await record(store, id)).runAt, start + MINUTE, "due");
    await advance(45 * SECOND);
    const pushed = await clock(store);
    assert.deepEqual(await insert(store, push("2")), [replaced(id, "scheduled")]);
    assertNear((await record(store, id)).runAt, pushed + MINUTE, "pushed");
    assert.equal((await record(store, id)).args, "2");
    await store.requeue({ ids: [id] });
    assert.deepEqual(await insert(store, push("3")), [duplicate(id, "enqueued")]);
    const job = await claimOne(store, { queues: ["running"] });
    assert.deepEqual(await insert(store, push("4")), [duplicate(id, "processing")]);
    assert.equal(job.args, "2");
    await end(store, job, "succeeded");
    const next = only(await insert(store, push("5")));
    assert.deepEqual(next, added(next.id, "scheduled"));
  },

  async Prune({ store, advance }) {
    const keep = { succeeded: null, deleted: null, failed: null, servers: HOUR, stats: HOUR, limit: 3 };
    await insert(store, uniqueJob());
    const windowed = (index: number): NewJob => uniqueJob({}, { key: `${index}`.repeat(32), window: MINUTE });
    await insert(store, ...Array.from({ length: 5 }, (_, index) => windowed(index)));
    assert.equal(await store.prune(keep), 0);
    await advance(MINUTE);
    assert.equal(await store.prune(keep), 3, "at most its limit");
    assert.equal(await store.prune(keep), 2);
    assert.equal(await store.prune(keep), 0);
    assert.equal((await store.counts()).enqueued, 6, "the jobs stay");
    assert.equal(at(await insert(store, uniqueJob()), 0).duplicate, true, "and so do the keys that are held");
  },

  async Ready(harness) {
    const { store } = harness;
    await insert(store, uniqueJob({ delay: HOUR }));
    const subscriber = await subscribe(harness);
    await insert(store, uniqueJob({}, { onConflict: "replace" }));
    const event = await subscriber.next(({ type }) => type === "ready");
    assert.deepEqual(event, { type: "ready", queue: "running", delay: 0 });
    await subscriber.stop();
  },

  async Invalid({ store }) {
    const before = await snapshot(store);
    await refused(insert(store, uniqueJob(), uniqueJob({}, { key: "A".repeat(32) })), "jobs[1].unique.key");
    await refused(insert(store, uniqueJob({}, { window: 0 })), "jobs[0].unique.window");
    await refused(insert(store, uniqueJob({}, { window: Number.NaN })), "jobs[0].unique.window");
    await refused(insert(store, uniqueJob({}, { onConflict: "fail" as "keep" })), "jobs[0].unique.onConflict");
    assert.deepEqual(await snapshot(store), before);
    await insert(store, uniqueJob());
  },
};
