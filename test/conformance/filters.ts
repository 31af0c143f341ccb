/** Filters by batch and by recurring job, alone and with others: of pages, and of what operators do. */
import assert from "node:assert/strict";
import type { BatchId, JobFilter, JobQuery, JobRecord, Store } from "../../engine/store.ts";
import { openBatch } from "./batches-support.ts";
import {
  ALL_STATES,
  allPages,
  at,
  claim,
  ended,
  type Group,
  HOUR,
  idsOf,
  insertMany,
  insertOne,
  MINUTE,
  newJob,
  oneOfEach,
  outcome,
  refused,
  register,
  running,
  snapshot,
} from "./support.ts";

type Fields = Pick<JobFilter, "batch" | "recurringId" | "queue" | "kind">;

const matches = (job: JobRecord, fields: Fields): boolean =>
  (Object.keys(fields) as (keyof Fields)[]).every((field) => job[field] === fields[field]);

/** Many jobs in each state, of two batches and of none, of two recurring jobs and of none; many are due or ended at once. */
async function fill(store: Store, advance: (ms: number) => Promise<void>): Promise<BatchId[]> {
  await register(store);
  const batches = [await openBatch(store), await openBatch(store)];
  const groups = [...batches, null].flatMap((batch) =>
    ["a", "b", null].map((recurringId) => ({ batch, recurringId, tags: ["t"] })),
  );
  for (const fields of groups) await oneOfEach(store, fields);
  await advance(MINUTE);
  for (const priority of [5, 0, -5]) {
    await insertMany(
      store,
      groups.flatMap((fields) => [
        newJob({ ...fields, priority }),
        newJob({ ...fields, priority, kind: "other" }),
        newJob({ ...fields, priority, queue: "other", delay: HOUR }),
      ]),
    );
  }
  for (const state of ["succeeded", "failed", "deleted"] as const) {
    await insertMany(
      store,
      groups.flatMap((fields) => [newJob({ ...fields, queue: state }), newJob({ ...fields, queue: state })]),
    );
    const jobs = await claim(store, { queues: [state] });
    await store.finish(
      "s1",
      jobs.map((job) => outcome(job, state)),
    );
  }
  return batches;
}

export const filtersCases: Group = {
  async Pages({ store, advance }) {
    const [batch = 0, other = 0] = await fill(store, advance);
    const combinations: Fields[] = [
      ...[{ batch }, { batch: other }, { recurringId: "a" }, { batch, recurringId: "b" }, { batch, kind: "other" }],
      ...[{ recurringId: "b", queue: "other" }, { batch: 99 }, { recurringId: "none" }],
    ];
    for (const state of ALL_STATES) {
      const all = await allPages(store, { state, limit: 500 });
      for (const fields of combinations) {
        const expected = idsOf(all.filter((job) => matches(job, fields)));
        if (fields.batch === batch && Object.keys(fields).length === 1) assert.ok(expected.length >= 3);
        for (const limit of [1, 3, 500]) {
          const found = idsOf(await allPages(store, { state, ...fields, limit }));
          assert.deepEqual(found, expected, `${state}, ${JSON.stringify(fields)}, limit ${limit}`);
        }
        const tagged = await allPages(store, { state, ...fields, tag: "t", limit: 3 });
        assert.deepEqual(idsOf(tagged), expected, "with a tag");
        assert.deepEqual(await allPages(store, { state, ...fields, tag: "u" }), []);
      }
    }
  },

  async Cursors({ store, advance }) {
    const [batch = 0] = await fill(store, advance);
    for (const state of ALL_STATES) {
      for (const fields of [{ batch }, { recurringId: "a" }] as const) {
        const query: JobQuery = { state, ...fields };
        for (const cursor of ["", "x", "e30", "WzEsMiwzXQ"]) await refused(store.jobs({ ...query, cursor }), "cursor");
      }
    }
  },

  async FilterFields({ store, advance }) {
    const [batch = 0, other = 0] = await fill(store, advance);
    const before = await snapshot(store);
    for (const filter of [{ batch }, { recurringId: "a" }, { batch, recurringId: "a", queue: "default" }, {}]) {
      await refused(store.delete(filter), "filter");
      await refused(store.requeue(filter), "filter");
    }
    assert.deepEqual(await snapshot(store), before);
    const count = async (filter: Fields & { state: JobRecord["state"] }): Promise<number> =>
      (await allPages(store, { ...filter, limit: 500 })).length;
    for (const [state, call] of [
      ["failed", "requeue"],
      ["enqueued", "delete"],
      ["scheduled", "delete"],
      ["throttled", "delete"],
      ["deleted", "requeue"],
      ["scheduled", "requeue"],
    ] as const) {
      for (const fields of [{ batch, recurringId: "a" }, { recurringId: "b" }, { batch: other }] as const) {
        const all = await count({ state });
        const matching = await count({ state, ...fields });
        assert.equal(await store[call]({ state, ...fields }), matching, `${call} ${state} ${JSON.stringify(fields)}`);
        assert.equal(await count({ state, ...fields }), 0);
        assert.equal(await count({ state }), all - matching, "and no others");
      }
    }
  },

  async FilterIds({ store }) {
    await register(store);
    const batch = await openBatch(store);
    const member = await ended(store, "failed", { batch, recurringId: "a" });
    const outside = await ended(store, "failed");
    const ids = [member, outside];
    assert.equal(await store.requeue({ ids, batch: batch + 1 }), 0);
    assert.equal(await store.requeue({ ids, batch, recurringId: "b" }), 0);
    assert.equal(await store.requeue({ ids, recurringId: "a", state: "failed" }), 1);
    assert.equal(await store.delete({ ids, batch }), 1);
    assert.equal(await store.delete({ ids }), 1);
    const job = await running(store, { batch });
    assert.equal(await store.delete({ state: "processing", batch: batch + 1 }), 0);
    assert.equal(await store.delete({ state: "processing", batch }), 1);
    assert.equal(job.batch, batch);
  },

  async Bulk({ store }) {
    const batch = await openBatch(store);
    const ids = await insertMany(
      store,
      Array.from({ length: 3_000 }, (_, n) => newJob({ batch: n % 2 === 0 ? batch : null, priority: n % 7 })),
    );
    assert.equal(await store.delete({ state: "enqueued", batch }), 1_500);
    assert.equal((await store.counts()).enqueued, 1_500);
    assert.equal(await store.requeue({ state: "deleted", batch, kind: "other" }), 0);
    assert.equal(await store.requeue({ state: "deleted", batch }), 1_500);
    const one = await insertOne(store, { batch });
    assert.ok(one > at(ids, -1));
  },
};
