import assert from "node:assert/strict";
import type { SeriesQuery } from "../../engine/store.ts";
import {
  assertBetween,
  at,
  claimOne,
  DAY,
  end,
  ended,
  type Group,
  HOUR,
  insertMany,
  insertOne,
  MINUTE,
  newJob,
  newJobs,
  oneOfEach,
  refused,
  register,
  running,
  SLACK,
  startMinute,
} from "./support.ts";

export const statisticsCases: Group = {
  async Counts({ store }) {
    const none = {
      awaiting: 0,
      scheduled: 0,
      throttled: 0,
      enqueued: 0,
      processing: 0,
      failed: 0,
      retries: 0,
      succeeded: 0,
      deleted: 0,
    };
    assert.deepEqual(await store.counts(), { ...none, capped: false });
    await register(store);
    await oneOfEach(store);
    await oneOfEach(store, { queue: "other", kind: "other" });
    await end(store, await running(store), "scheduled", { delay: HOUR, reason: "retry" });
    await end(store, await running(store), "scheduled", { delay: HOUR, refund: true, reason: "snoozed" });
    const expected = {
      awaiting: 2,
      scheduled: 4,
      throttled: 2,
      enqueued: 2,
      processing: 2,
      failed: 2,
      retries: 1,
      succeeded: 2,
      deleted: 2,
    };
    assert.deepEqual(await store.counts(), { ...expected, capped: false });
    await store.requeue({ state: "scheduled" });
    await store.requeue({ state: "succeeded" });
    const after = { ...expected, scheduled: 0, enqueued: 8, retries: 0 };
    assert.deepEqual(await store.counts(), { ...after, capped: false });
  },

  async CountsCapped({ store }) {
    for (let n = 0; n < 5; n++) await insertMany(store, newJobs(20_010));
    const { enqueued, capped, scheduled } = await store.counts();
    assert.deepEqual({ enqueued, capped, scheduled }, { enqueued: 100_000, capped: true, scheduled: 0 });
  },

  async Series(harness) {
    const { store, advance } = harness;
    await register(store, "s1", { deadAfter: 99 * DAY });
    const first = await startMinute(harness);
    const step = 5 * MINUTE;
    const retry = async (refund: boolean): Promise<void> => {
      const job = await running(store);
      await end(store, job, "scheduled", { delay: DAY, refund, reason: refund ? "snoozed" : "retry" });
    };
    await ended(store, "succeeded");
    await ended(store, "succeeded");
    await retry(false);
    await retry(true);
    await end(store, await running(store), "enqueued", { refund: true, reason: "shutdown" });
    assert.equal(await store.delete({ state: "enqueued" }), 1);
    await advance(MINUTE);
    await ended(store, "failed");
    await advance(HOUR);
    const later = first + HOUR + MINUTE;
    await ended(store, "deleted");
    // An immediate retry is one too.
    await end(store, await running(store), "scheduled", { reason: "retry" }, "enqueued");

    const none = { succeeded: 0, failed: 0, deleted: 0, retried: 0 };
    const query = { from: new Date(first - DAY), to: new Date(first + DAY) };
    assert.deepEqual(await store.series({ ...query, step: MINUTE }), [
      { at: new Date(first), ...none, succeeded: 2, retried: 1, deleted: 1 },
      { at: new Date(first + MINUTE), ...none, failed: 1 },
      { at: new Date(later), ...none, deleted: 1, retried: 1 },
    ]);
    const points = await store.series({ ...query, step });
    const sums = points.reduce(
      (sum, { succeeded, failed, deleted, retried }) => {
        return [at(sum, 0) + succeeded, at(sum, 1) + failed, at(sum, 2) + deleted, at(sum, 3) + retried];
      },
      [0, 0, 0, 0],
    );
    assert.deepEqual(sums, [2, 1, 2, 2], "a longer step only sums up");
    const starts = points.map((point) => point.at.getTime());
    assert.ok(
      starts.every((start) => start % step === 0),
      "aligned to 1970",
    );
    assert.deepEqual(
      starts,
      [...new Set(starts)].sort((a, b) => a - b),
      "ascending",
    );
    assert.ok(starts.includes(first - (first % step)) && starts.includes(later - (later % step)));
    const future = { from: new Date(later + HOUR), to: new Date(later + DAY), step };
    assert.deepEqual(await store.series(future), []);
    assert.deepEqual(await store.series({ from: query.to, to: query.from, step }), []);
  },

  async SeriesEnd(harness) {
    const { store, advance } = harness;
    await register(store, "s1", { deadAfter: 99 * DAY });
    const first = await startMinute(harness);
    await ended(store, "succeeded");
    await advance(2 * MINUTE);
    await ended(store, "succeeded");
    const second = first + 2 * MINUTE;
    const found = async (from: number, to: number, step = MINUTE): Promise<number[]> =>
      (await store.series({ from: new Date(from), to: new Date(to), step })).map((point) => point.at.getTime());
    assert.deepEqual(await found(first, second), [first], "with `from`, without `to`");
    assert.deepEqual(await found(first + MINUTE - 1, second), [first], "the bucket that holds `from`, whole");
    assert.deepEqual(await found(first, second + MINUTE - 1), [first], "without the minute of `to`");
    assert.deepEqual(await found(first, second + MINUTE), [first, second]);
    assert.deepEqual(await found(first + MINUTE, second + MINUTE), [second]);
    assert.deepEqual(await found(first, first), []);
    const day = first - (first % DAY);
    assert.equal(
      (await found(second, second + MINUTE, DAY))[0],
      day,
      "the bucket that holds `from` may start long before",
    );
  },

  async BadSeries({ store }) {
    const good: SeriesQuery = { from: new Date(0), to: new Date(DAY), step: MINUTE };
    assert.deepEqual(await store.series(good), []);
    for (const step of [0, -MINUTE, 1, 90_000, MINUTE + 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      await refused(store.series({ ...good, step }), "step");
    }
    await refused(store.series({ ...good, from: new Date(Number.NaN) }), "from");
    await refused(store.series({ ...good, to: new Date(8.64e15) }), "to");
  },

  async DeletedStats(harness) {
    const { store } = harness;
    await register(store);
    const minute = await startMinute(harness);
    await insertMany(store, [newJob(), newJob({ delay: HOUR })]);
    assert.equal(await store.delete({ state: "enqueued" }), 1);
    assert.equal(await store.delete({ state: "scheduled" }), 1);
    const failed = await ended(store, "failed");
    assert.equal(await store.delete({ ids: [failed] }), 1);
    await ended(store, "deleted");
    const cancelled = await running(store);
    await store.delete({ ids: [cancelled.id] });
    await end(store, cancelled, "enqueued", {}, "deleted");
    const survivor = await running(store);
    await store.delete({ ids: [survivor.id] });
    await end(store, survivor, "succeeded");
    assert.equal((await store.counts()).deleted, 5);
    const query = { from: new Date(minute), to: new Date(minute + 2 * MINUTE), step: MINUTE };
    const sum = (await store.series(query)).reduce((total, point) => total + point.deleted, 0);
    assert.equal(sum, 5, "each deletion once");
  },

  async Queues({ store, advance }) {
    assert.deepEqual(await store.queues(), []);
    await register(store, "s1", { queues: ["served", "jobs"], deadAfter: 99 * DAY });
    await register(store, "s2", { queues: ["dead"], deadAfter: MINUTE });
    await oneOfEach(store, { queue: "jobs" });
    await ended(store, "failed", { queue: "failed" });
    await ended(store, "succeeded", { queue: "archived" });
    const scheduled = await insertOne(store, { queue: "scheduled", delay: 9 * HOUR });
    await insertOne(store, { queue: "awaiting", parents: [{ id: scheduled, on: ["succeeded"] }] });
    await store.pauseQueue("paused");
    await advance(HOUR);
    await insertOne(store, { queue: "jobs", priority: 9 });
    await store.orphans(1);
    await advance(HOUR);
    const queues = await store.queues();
    const zero = { paused: false, awaiting: 0, scheduled: 0, throttled: 0, enqueued: 0, processing: 0, failed: 0 };
    assert.deepEqual(
      queues.map(({ latency: _latency, ...queue }) => queue),
      [
        { ...zero, name: "awaiting", awaiting: 1 },
        { ...zero, name: "failed", failed: 1 },
        { ...zero, name: "jobs", awaiting: 1, scheduled: 1, throttled: 1, enqueued: 2, processing: 1, failed: 1 },
        { ...zero, name: "paused", paused: true },
        { ...zero, name: "scheduled", scheduled: 1 },
        { ...zero, name: "served" },
      ],
      "neither what only the archive knows nor what only a dead server served",
    );
    for (const { name, latency } of queues) {
      if (name === "jobs") assertBetween(latency, 2 * HOUR, 2 * HOUR + SLACK, "of the longest waiting");
      else assert.equal(latency, null);
    }
  },

  /** The wait counts from when a job became due, not from when it was inserted. */
  async Latency({ store, advance }) {
    await register(store);
    await insertOne(store, { delay: HOUR });
    await advance(3 * HOUR);
    await store.sweep(10);
    assertBetween(at(await store.queues(), 0).latency, 2 * HOUR, 2 * HOUR + SLACK, "latency");
    const job = await claimOne(store);
    assert.equal(at(await store.queues(), 0).latency, null);
    await end(store, job, "enqueued");
    assertBetween(at(await store.queues(), 0).latency, 0, SLACK, "latency of a job handed back");
  },
};
