import assert from "node:assert/strict";
import type { JobId, JobQuery, JobRecord, JobState } from "../../engine/store.ts";
import {
  ALL_STATES,
  allPages,
  at,
  claim,
  claimIds,
  claimOne,
  clock,
  DAY,
  end,
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
    const limit = { key: "a", max: 1, rate: 0, per: 0, burst: 0 };
    const throttled = await insertMany(
      store,
      [0, 9, -9, 9, 0].map((priority) => newJob({ priority, limit, queue: `q${priority}` })),
    );
    assert.deepEqual(
      await page({ state: "throttled" }),
      [1, 3, 0, 4, 2].map((index) => at(throttled, index)),
    );
    const parents = [{ id: later.id, on: ["succeeded"] as const }];
    const awaiting = await insertMany(
      store,
      [0, 9, -9].map((priority) => newJob({ priority, parents })),
    );
    assert.deepEqual(await page({ state: "awaiting" }), awaiting.toReversed());
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
    const limit = { key: "a", max: 1, rate: 0, per: 0, burst: 0 };
    await insertMany(
      store,
      priorities.map((priority) => newJob({ priority, limit })),
    );
    const now = await clock(store);
    await insertMany(
      store,
      priorities.map((hours) => newJob({ runAt: new Date(now + DAY + hours * HOUR) })),
    );
    const parent = at((await store.jobs({ state: "processing" })).jobs, 0).id;
    await insertMany(store, newJobs(25, { parents: [{ id: parent, on: ["succeeded"] }] }));
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
