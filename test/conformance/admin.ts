import assert from "node:assert/strict";
import type { JobFilter, JobState } from "../../engine/store.ts";
import {
  assertNear,
  at,
  claimIds,
  claimOne,
  clock,
  end,
  ended,
  finish,
  type Group,
  HOUR,
  insertMany,
  newJob,
  newJobs,
  oneOfEach,
  reasonsOf,
  record,
  refused,
  register,
  running,
  snapshot,
  stateOf,
} from "./support.ts";

export const adminCases: Group = {
  async Filter({ store }) {
    await register(store);
    await oneOfEach(store);
    const before = await snapshot(store);
    const bad: unknown[] = [
      {},
      { queue: "default" },
      { kind: "task" },
      { queue: "default", kind: "task" },
      ...["done", "", "Failed", "__proto__", null, 1].map((state) => ({ state })),
      { ids: [1], state: "done" },
    ];
    for (const filter of bad) {
      await refused(store.delete(filter as JobFilter));
      await refused(store.requeue(filter as JobFilter));
    }
    const unknown = [0, -1, 1e9, Number.MAX_SAFE_INTEGER, 1.5, Number.NaN, Number.POSITIVE_INFINITY];
    for (const ids of [[], unknown]) {
      assert.equal(await store.delete({ ids }), 0);
      assert.equal(await store.requeue({ ids }), 0);
    }
    assert.deepEqual(await snapshot(store), before);
  },

  async FilterFields({ store }) {
    await register(store);
    const fields = ["a", "b"].flatMap((queue) => ["x", "y"].map((kind) => ({ queue, kind })));
    const failed: number[] = [];
    for (const each of fields) failed.push(await ended(store, "failed", each));
    const waiting = await insertMany(store, fields.map(newJob));
    assert.equal(await store.requeue({ state: "failed", queue: "a", kind: "y" }), 1);
    assert.equal(await store.delete({ state: "enqueued", queue: "b", kind: "x" }), 1);
    assert.equal(await store.delete({ state: "enqueued", kind: "none" }), 0);
    assert.equal(await store.delete({ ids: [at(waiting, 0), at(waiting, 1)], kind: "y", queue: "a" }), 1);
    assert.equal(await store.requeue({ ids: failed, state: "failed", queue: "b" }), 2);
    const states = async (ids: number[]): Promise<JobState[]> => Promise.all(ids.map((id) => stateOf(store, id)));
    assert.deepEqual(await states(failed), ["failed", "enqueued", "enqueued", "enqueued"]);
    assert.deepEqual(await states(waiting), ["enqueued", "deleted", "deleted", "enqueued"]);
  },

  async Delete({ store }) {
    await register(store);
    const before = await clock(store);
    const jobs = await oneOfEach(store);
    const { attempt } = await record(store, jobs.failed);
    const ends = [jobs.awaiting, jobs.scheduled, jobs.throttled, jobs.enqueued, jobs.failed];
    assert.equal(await store.delete({ ids: [...ends, ...ends, jobs.succeeded, jobs.deleted] }), 5);
    for (const id of ends) {
      const done = await record(store, id);
      assert.equal(done.state, "deleted");
      assertNear(done.finalizedAt, before, "finalizedAt");
      const { at: when, ...entry } = at(done.history, -1);
      assertNear(when, before, "at");
      const none = { error: null, trace: null, server: null };
      assert.deepEqual(entry, { state: "deleted", attempt: done.attempt, reason: "deleted", ...none });
    }
    assert.equal((await record(store, jobs.failed)).attempt, attempt);
    assert.equal(await stateOf(store, jobs.succeeded), "succeeded");
    assert.deepEqual(await reasonsOf(store, jobs.deleted), []);
    assert.equal(await store.delete({ ids: ends }), 0, "not twice");
    assert.deepEqual(await claimIds(store), []);
  },

  async DeleteProcessing({ store }) {
    await register(store);
    const job = await running(store);
    const second = await running(store);
    assert.equal(await store.delete({ ids: [job.id, job.id] }), 1);
    assert.equal(await store.delete({ ids: [job.id] }), 0);
    assert.equal(await store.delete({ state: "processing" }), 1, "only the other one is newly marked");
    assert.equal(await store.delete({ state: "processing" }), 0);
    const marked = await record(store, job.id);
    assert.deepEqual([marked.state, marked.cancelRequested, marked.finalizedAt], ["processing", true, null]);
    assert.deepEqual(marked.history, []);
    assert.equal((await store.counts()).deleted, 0);
    await end(store, job, "succeeded");
    await end(store, second, "failed", {}, "deleted");
  },

  async DeleteByState({ store }) {
    await register(store);
    const first = await oneOfEach(store, { queue: "a", kind: "x" });
    const second = await oneOfEach(store, { queue: "a", kind: "y" });
    assert.equal(await store.delete({ ids: [first.failed, first.enqueued], state: "failed" }), 1, "both must match");
    assert.equal(await stateOf(store, first.enqueued), "enqueued");
    for (const state of ["awaiting", "scheduled", "throttled", "enqueued", "failed", "processing"] as const) {
      assert.equal(await store.delete({ state, queue: "b" }), 0);
      assert.equal(await store.delete({ state, queue: "a", kind: "y" }), 1);
      assert.equal(await store.delete({ state, queue: "a" }), state === "failed" ? 0 : 1);
    }
    for (const state of ["succeeded", "deleted"] as const) {
      assert.equal(await store.delete({ state }), 0, "what has ended stays as it is");
      assert.equal(await stateOf(store, second[state]), state);
    }
  },

  async DeleteBulk({ store }) {
    await insertMany(store, newJobs(2_500));
    assert.equal(await store.delete({ state: "enqueued" }), 2_500);
    const { enqueued, deleted } = await store.counts();
    assert.deepEqual([enqueued, deleted], [0, 2_500]);
  },

  async HugeFilter({ store }) {
    const ids = await insertMany(store, newJobs(2_500));
    const many = [...Array.from({ length: 100_000 }, (_, n) => n - 50_000), ...ids, ...ids];
    assert.equal(await store.delete({ ids: many, queue: "other" }), 0);
    assert.equal(await store.delete({ ids: many }), 2_500);
    assert.equal(await store.requeue({ ids: many, state: "deleted" }), 2_500);
    const { enqueued, deleted } = await store.counts();
    assert.deepEqual([enqueued, deleted], [2_500, 2_500], "all-time totals do not go down");
  },

  async Requeue({ store }) {
    await register(store);
    const jobs = await oneOfEach(store);
    const totals = await store.counts();
    const before = await clock(store);
    const states = ["failed", "succeeded", "deleted", "scheduled"] as const;
    const ids = states.map((state) => jobs[state]);
    assert.equal(await store.requeue({ ids: [...ids, ...ids] }), 4);
    for (const id of ids) {
      const ready = await record(store, id);
      assert.deepEqual([ready.state, ready.finalizedAt, ready.output], ["enqueued", null, null]);
      assertNear(ready.runAt, before, "runAt");
      const { at: when, ...entry } = at(ready.history, -1);
      assertNear(when, before, "at");
      assert.deepEqual([entry.state, entry.reason, entry.server], ["enqueued", "requeued", null]);
    }
    const { succeeded, deleted } = await store.counts();
    assert.deepEqual([succeeded, deleted], [totals.succeeded, totals.deleted]);
    assert.deepEqual((await claimIds(store, { queues: ["running"] })).length, 3);
    assert.deepEqual((await claimIds(store)).length, 2);
  },

  async RequeueSkips({ store }) {
    await register(store);
    const { enqueued, processing } = await oneOfEach(store);
    const before = await snapshot(store);
    assert.equal(await store.requeue({ ids: [enqueued, processing, 1e9] }), 0);
    assert.equal(await store.requeue({ state: "enqueued" }), 0);
    assert.equal(await store.requeue({ state: "processing" }), 0);
    assert.deepEqual(await snapshot(store), before);
  },

  // The reference's older text keeps the attempts; its newer rule, which is ours, starts over.
  async RequeueAttempts({ store }) {
    await register(store);
    for (const state of ["failed", "succeeded", "deleted"] as const) {
      const job = await running(store, { queue: state, maxAttempts: 3 });
      await end(store, job, "enqueued", { reason: "retry" });
      const second = await claimOne(store, { queues: [state] });
      await end(store, second, state, { reason: "x" });
      await store.requeue({ ids: [job.id] });
      const ready = await record(store, job.id);
      assert.deepEqual([ready.attempt, ready.maxAttempts], [0, 3]);
      assert.equal(at(ready.history, -1).attempt, 2, "the history names the attempt before");
      const third = await claimOne(store, { queues: [state] });
      assert.equal(third.attempt, 1);
      assert.ok(third.claim > second.claim, "the claim number never starts over");
      assert.deepEqual(await finish(store, second, "failed"), { status: "stale" });
    }
  },

  async RequeueScheduled({ store }) {
    await register(store);
    for (const maxAttempts of [2, 5]) {
      const queue = `q${maxAttempts}`;
      const job = await running(store, { queue, maxAttempts });
      await end(store, job, "enqueued");
      await end(store, await claimOne(store, { queues: [queue] }), "scheduled", { delay: HOUR, reason: "retry" });
      assert.equal(await store.requeue({ state: "scheduled" }), 1);
      const ready = await record(store, job.id);
      assert.equal(ready.attempt, 2);
      assert.equal(ready.maxAttempts, Math.max(maxAttempts, 3), "one more when there is none left");
      assert.equal((await claimOne(store, { queues: [queue] })).attempt, 3);
    }
  },

  /** A job that was asked to stop and requeued is not asked again. */
  async RequeueCancelled({ store }) {
    await register(store);
    const job = await running(store);
    await store.delete({ ids: [job.id] });
    await end(store, job, "failed", {}, "deleted");
    await store.requeue({ ids: [job.id] });
    assert.equal((await record(store, job.id)).cancelRequested, false);
    const again = await claimOne(store, { queues: [job.queue] });
    const { leases } = await store.heartbeat({ server: "s1", running: 1 });
    assert.equal(at(leases, 0).cancelRequested, false);
    await end(store, again, "failed");
  },

  async RequeueByState({ store }) {
    await register(store);
    const first = await oneOfEach(store, { queue: "a" });
    const second = await oneOfEach(store, { queue: "b" });
    for (const state of ["failed", "succeeded", "deleted", "scheduled"] as const) {
      assert.equal(await store.requeue({ state, queue: "b" }), 1);
      assert.equal(await stateOf(store, first[state]), state);
      assert.equal(await stateOf(store, second[state]), "enqueued");
      assert.equal(await store.requeue({ state }), 1);
      assert.equal(await store.requeue({ state }), 0);
    }
  },

  async RequeueOrder({ store }) {
    await register(store);
    const high = await ended(store, "failed", { priority: 1 });
    const low = await ended(store, "failed");
    await store.requeue({ ids: [low, high] });
    assert.deepEqual(await claimIds(store, { queues: ["running"] }), [high, low]);
  },

  async Pause({ store }) {
    const paused = async (): Promise<string[]> =>
      (await store.queues()).filter((queue) => queue.paused).map(({ name }) => name);
    await store.resumeQueue("never");
    await store.pauseQueue("b");
    await store.pauseQueue("a");
    await store.pauseQueue("b");
    assert.deepEqual(await paused(), ["a", "b"], "a queue that nobody uses yet can be paused");
    await store.resumeQueue("b");
    await store.resumeQueue("b");
    assert.deepEqual(await paused(), ["a"]);
  },
};
