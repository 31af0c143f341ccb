import assert from "node:assert/strict";
import type { JobId, JobQuery, JobRecord, JobState, SeriesQuery } from "../../engine/store.ts";
import {
  ALL_STATES,
  allPages,
  assertBetween,
  at,
  claim,
  claimIds,
  claimOne,
  clock,
  DAY,
  end,
  ended,
  type Group,
  HOUR,
  idsOf,
  insertMany,
  insertOne,
  MINUTE,
  newJob,
  newJobs,
  oneOfEach,
  outcome,
  refused,
  register,
  running,
  SLACK,
  startMinute,
  stateOf,
} from "./support.ts";

export const inspectCases: Group = {
  async JobNotFound({ store }) {
    const id = await insertOne(store);
    for (const unknown of [id + 1, 0, -1, -id, id + 0.5, 2 ** 53, 1e300, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.equal(await store.job(unknown), null);
    }
  },

  async JobsOrder({ store, advance }) {
    await register(store);
    const page = async (query: JobQuery): Promise<JobId[]> => idsOf((await store.jobs(query)).jobs);
    const processing = [await running(store), await running(store), await running(store)];
    await end(store, at(processing, 1), "scheduled", { delay: 90 * MINUTE });
    const retried = at(processing, 1).id;
    const delays = [3 * HOUR, HOUR, 2 * HOUR];
    const scheduled = await insertMany(
      store,
      delays.map((delay) => newJob({ delay })),
    );
    const same = new Date((await clock(store)) + 3 * HOUR + DAY);
    const twins = await insertMany(store, newJobs(2, { runAt: same }));
    const byTime = [at(scheduled, 1), retried, at(scheduled, 2), at(scheduled, 0), ...twins];
    assert.deepEqual(await page({ state: "scheduled" }), byTime);
    const enqueued = await insertMany(
      store,
      [0, 9, -9, 9, 0].map((priority) => newJob({ priority })),
    );
    assert.deepEqual(
      await page({ state: "enqueued" }),
      [1, 3, 0, 4, 2].map((index) => at(enqueued, index)),
    );
    await advance(MINUTE);
    const later = await claimOne(store, { limit: 1 });
    assert.deepEqual(await page({ state: "processing" }), [later.id, at(processing, 2).id, at(processing, 0).id]);
  },

  async JobsFinalOrder({ store, advance }) {
    await register(store);
    for (const state of ["succeeded", "failed", "deleted"] as const) {
      const jobs = [];
      for (let n = 0; n < 6; n++) jobs.push(await running(store));
      const [a, b, c, d, e, f] = jobs;
      assert.ok(a && b && c && d && e && f);
      // Two end together, in either order, then the others one by one.
      await store.finish("s1", [outcome(d, state), outcome(b, state)]);
      for (const job of [f, a, e, c]) {
        await advance(MINUTE);
        await end(store, job, state);
      }
      assert.deepEqual(idsOf((await store.jobs({ state })).jobs), idsOf([c, e, a, f, d, b]));
    }
  },

  async JobsFilter({ store }) {
    await register(store);
    const first = await oneOfEach(store, { queue: "a", kind: "x" });
    const second = await oneOfEach(store, { queue: "a", kind: "y" });
    const third = await oneOfEach(store, { queue: "b", kind: "x" });
    for (const state of ALL_STATES) {
      const found = async (filter: Partial<JobQuery>): Promise<JobId[]> =>
        idsOf((await store.jobs({ state, ...filter })).jobs).sort((a, b) => a - b);
      assert.deepEqual(await found({}), [first[state], second[state], third[state]]);
      assert.deepEqual(await found({ queue: "a" }), [first[state], second[state]]);
      assert.deepEqual(await found({ kind: "x" }), [first[state], third[state]]);
      assert.deepEqual(await found({ queue: "a", kind: "x" }), [first[state]]);
      assert.deepEqual(await found({ queue: "b", kind: "y" }), []);
      assert.deepEqual(await found({ queue: "none" }), []);
    }
    for (const state of [undefined, null, "", "done", "Failed", "toString", 0]) {
      await refused(store.jobs({ state: state as JobState }), "state");
    }
  },

  async JobsTag({ store }) {
    await register(store);
    const noise = ["tag", "atag", "ta", "TAG", "a,tag", '"a"', "%"];
    const tags = Array.from({ length: 1_200 }, (_, n) => ["x", at(noise, n % noise.length), "y"]);
    // The ones looked for stand at the ends and far apart, with the tag in every position.
    tags.splice(0, 0, ["a"]);
    tags.splice(600, 0, ["x", "a"], ["a", "x"]);
    tags.push(["x", "a", "y"]);
    const ids = await insertMany(
      store,
      tags.map((each) => newJob({ tags: each })),
    );
    const expected = ids.filter((_, n) => at(tags, n).includes("a"));
    assert.equal(expected.length, 4);
    const other = await insertOne(store, { tags: ["a"], queue: "other" });
    for (const limit of [1, 3, 500]) {
      const found = async (query: Omit<JobQuery, "state">): Promise<JobId[]> =>
        idsOf(await allPages(store, { state: "enqueued", limit, ...query }));
      assert.deepEqual(await found({ tag: "a" }), [...expected, other]);
      assert.deepEqual(await found({ tag: "a", queue: "other" }), [other]);
      assert.deepEqual(await found({ tag: "a", queue: "default", kind: "task" }), expected);
      assert.deepEqual(await found({ tag: "", queue: "default" }), []);
    }
    const jobs = await claim(store, { limit: 2_000 });
    await store.finish(
      "s1",
      jobs.map((job) => outcome(job, "succeeded")),
    );
    for (const limit of [1, 3, 500]) {
      const found = await allPages(store, { state: "succeeded", tag: "a", limit });
      assert.deepEqual(idsOf(found), expected.toReversed());
    }
  },

  async JobsPages({ store, advance }) {
    await register(store);
    for (const state of ["succeeded", "failed", "deleted", "processing"] as const) {
      await insertMany(store, newJobs(25, { queue: state }));
      const jobs = await claim(store, { queues: [state] });
      if (state === "processing") continue;
      // Many end in the same moment.
      for (let n = 0; n < 25; n += 5) {
        await store.finish(
          "s1",
          jobs.slice(n, n + 5).map((job) => outcome(job, state)),
        );
        await advance(MINUTE);
      }
    }
    const priorities = Array.from({ length: 25 }, (_, n) => n % 3);
    await insertMany(
      store,
      priorities.map((priority) => newJob({ priority })),
    );
    const now = await clock(store);
    await insertMany(
      store,
      priorities.map((hours) => newJob({ runAt: new Date(now + DAY + hours * HOUR) })),
    );
    for (const state of ALL_STATES) {
      const whole = await store.jobs({ state, limit: 500 });
      assert.equal(whole.next, null, "all on one page");
      const ids = idsOf(whole.jobs);
      assert.equal(new Set(ids).size, 25);
      for (const limit of [1, 3, 7, 25, 100]) {
        assert.deepEqual(idsOf(await allPages(store, { state, limit })), ids, `${state} in pages of ${limit}`);
      }
    }
  },

  /** Jobs that come and go between two pages disturb no other. */
  async JobsPagesMoving({ store }) {
    await register(store);
    const ids = await insertMany(store, newJobs(10));
    const first = await store.jobs({ state: "enqueued", limit: 4 });
    assert.deepEqual(idsOf(first.jobs), ids.slice(0, 4));
    await claimIds(store, { limit: 6 });
    await insertOne(store, { priority: 1 });
    const last = await insertOne(store);
    const rest = await store.jobs({ state: "enqueued", limit: 100, cursor: first.next ?? "" });
    assert.deepEqual(idsOf(rest.jobs), [...ids.slice(6), last]);
  },

  async JobsLimit({ store }) {
    await insertMany(store, newJobs(600));
    const count = async (query: Partial<JobQuery>): Promise<number> =>
      (await store.jobs({ state: "enqueued", ...query })).jobs.length;
    assert.equal(await count({}), 20);
    assert.equal(await count({ limit: 0 }), 20);
    assert.equal(await count({ limit: 7 }), 7);
    assert.equal(await count({ limit: 500 }), 500);
    assert.equal(await count({ limit: 501 }), 500);
    assert.equal(await count({ limit: Number.MAX_SAFE_INTEGER }), 500);
    for (const limit of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      await refused(store.jobs({ state: "enqueued", limit }), "limit");
    }
  },

  async BadCursor({ store }) {
    await insertMany(store, newJobs(3));
    const { next } = await store.jobs({ state: "enqueued", limit: 1 });
    assert.ok(next);
    const encoded = (text: string): string => Buffer.from(text).toString("base64url");
    const bad = [
      "",
      "x",
      "null",
      "%",
      next.slice(0, 2),
      encoded("[]"),
      encoded("[1]"),
      encoded("[1,2,3]"),
      encoded("{}"),
    ];
    for (const cursor of [...bad, encoded('["a","b"]'), encoded("[null,null]"), encoded("[1e999,1]")]) {
      await refused(store.jobs({ state: "enqueued", cursor }), "cursor");
    }
    const end = await store.jobs({ state: "enqueued", limit: 2, cursor: next });
    assert.deepEqual([end.jobs.length, end.next], [2, null]);
  },

  async Counts({ store }) {
    const none = { scheduled: 0, enqueued: 0, processing: 0, failed: 0, retries: 0, succeeded: 0, deleted: 0 };
    assert.deepEqual(await store.counts(), { ...none, capped: false });
    await register(store);
    await oneOfEach(store);
    await oneOfEach(store, { queue: "other", kind: "other" });
    await end(store, await running(store), "scheduled", { delay: HOUR, reason: "retry" });
    await end(store, await running(store), "scheduled", { delay: HOUR, refund: true, reason: "snoozed" });
    const expected = { scheduled: 4, enqueued: 2, processing: 2, failed: 2, retries: 1, succeeded: 2, deleted: 2 };
    assert.deepEqual(await store.counts(), { ...expected, capped: false });
    await store.requeue({ state: "scheduled" });
    await store.requeue({ state: "succeeded" });
    const after = { ...expected, scheduled: 0, enqueued: 8, retries: 0 };
    assert.deepEqual(await store.counts(), { ...after, capped: false });
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
    await insertOne(store, { queue: "scheduled", delay: 9 * HOUR });
    await store.pauseQueue("paused");
    await advance(HOUR);
    await insertOne(store, { queue: "jobs", priority: 9 });
    await store.orphans(1);
    await advance(HOUR);
    const queues = await store.queues();
    const zero = { paused: false, scheduled: 0, enqueued: 0, processing: 0, failed: 0 };
    assert.deepEqual(
      queues.map(({ latency: _latency, ...queue }) => queue),
      [
        { ...zero, name: "failed", failed: 1 },
        { ...zero, name: "jobs", scheduled: 1, enqueued: 2, processing: 1, failed: 1 },
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

  /** What comes out is the caller's own. */
  async Copies({ store }) {
    await register(store);
    const id = await insertOne(store, { tags: ["a"], meta: { a: "1" } });
    const job = await claimOne(store);
    await store.setParams(job, { p: "1" });
    await end(store, job, "scheduled", { delay: HOUR, reason: "retry" });
    const spoil = (record: JobRecord | undefined): void => {
      record?.history[0]?.at.setTime(0);
      record?.runAt.setTime(0);
      record?.attemptedAt?.setTime(0);
    };
    const expected = structuredClone(await store.job(id));
    spoil((await store.job(id)) ?? undefined);
    spoil((await store.jobs({ state: "scheduled" })).jobs[0]);
    assert.deepEqual(await store.job(id), expected);
    (await store.servers())[0]?.heartbeatAt.setTime(0);
    assert.notEqual((await store.servers())[0]?.heartbeatAt.getTime(), 0);
    assert.equal(await stateOf(store, id), "scheduled");
  },
};
