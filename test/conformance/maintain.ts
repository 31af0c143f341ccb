import assert from "node:assert/strict";
import type { PruneQuery } from "../../engine/store.ts";
import {
  allPages,
  claim,
  claimIds,
  clock,
  DAY,
  end,
  ended,
  type Group,
  HOUR,
  insertMany,
  insertOne,
  MINUTE,
  newJobs,
  oneOfEach,
  outcome,
  record,
  register,
  snapshot,
  stateOf,
} from "./support.ts";

const KEEP: PruneQuery = {
  succeeded: null,
  deleted: null,
  failed: null,
  servers: 999 * DAY,
  stats: 999 * DAY,
  limit: 1_000,
};

export const maintainCases: Group = {
  async Sweep({ store }) {
    assert.equal(await store.sweep(100), 0);
    await register(store);
    await oneOfEach(store);
    await oneOfEach(store, { queue: "other", tags: ["a"] });
    await store.pauseQueue("other");
    const before = await snapshot(store);
    for (let n = 0; n < 3; n++) assert.equal(await store.sweep(100), 0);
    assert.deepEqual(await snapshot(store), before);
  },

  /** Due jobs that no server asks for, because their queue is paused or their kind is unknown to all. */
  async SweepOverdue({ store, advance }) {
    await register(store);
    const overdue = [
      ...(await insertMany(store, newJobs(3, { delay: MINUTE }))),
      ...(await insertMany(store, newJobs(2, { delay: MINUTE, queue: "paused", kind: "a" }))),
      ...(await insertMany(store, newJobs(2, { delay: MINUTE, queue: "paused", kind: "b" }))),
    ];
    const later = await insertOne(store, { delay: DAY });
    await store.pauseQueue("paused");
    const due = (await record(store, overdue[0] ?? 0)).runAt;
    await advance(HOUR);
    let swept = 0;
    for (const expected of [5, 2, 0]) {
      const changed = await store.sweep(5);
      assert.equal(changed, expected, "never more than the limit");
      swept += changed;
      assert.equal((await store.counts()).enqueued, swept);
    }
    for (const id of overdue) assert.equal(await stateOf(store, id), "enqueued");
    assert.equal(await stateOf(store, later), "scheduled");
    assert.deepEqual((await record(store, overdue[0] ?? 0)).runAt, due, "runAt says since when it is due");
    assert.deepEqual(await claimIds(store, { queues: ["default", "paused"] }), overdue.slice(0, 3));
  },

  async Prune({ store, advance }) {
    await register(store, "s1", { deadAfter: 99 * DAY });
    const old = await oneOfEach(store);
    await advance(2 * HOUR);
    const young = await oneOfEach(store, { queue: "young" });
    assert.equal(await store.prune(KEEP), 0, "null keeps forever");
    const gone = async (id: number): Promise<boolean> => (await store.job(id)) === null;
    for (const state of ["succeeded", "deleted", "failed"] as const) {
      assert.equal(await store.prune({ ...KEEP, [state]: 3 * HOUR }), 0);
      assert.equal(await store.prune({ ...KEEP, [state]: HOUR }), 1);
      assert.equal(await gone(old[state]), true);
      assert.equal(await gone(young[state]), false);
    }
    await advance(DAY);
    assert.equal(await store.prune({ ...KEEP, succeeded: HOUR, deleted: HOUR, failed: HOUR }), 3);
    for (const state of ["scheduled", "enqueued", "processing"] as const) {
      assert.equal(await stateOf(store, old[state]), state, "live jobs are never pruned");
      assert.equal(await stateOf(store, young[state]), state);
    }
    for (const state of ["succeeded", "deleted", "failed"] as const) {
      assert.equal(await gone(young[state]), true);
      assert.deepEqual(await allPages(store, { state }), []);
    }
    const { succeeded, deleted, failed } = await store.counts();
    assert.deepEqual({ succeeded, deleted, failed }, { succeeded: 2, deleted: 2, failed: 0 }, "totals stay");
    assert.equal(await store.requeue({ ids: [old.failed, young.succeeded] }), 0);
  },

  async PruneLimit({ store, advance }) {
    await register(store, "s1", { deadAfter: 99 * DAY });
    await insertMany(store, newJobs(20));
    const jobs = await claim(store);
    await store.finish(
      "s1",
      jobs.map((job, n) => outcome(job, n < 12 ? "succeeded" : "failed")),
    );
    await advance(DAY);
    const query = { ...KEEP, succeeded: HOUR, failed: HOUR, limit: 5 };
    // At most five succeeded and five failed ones in each call.
    for (const expected of [10, 8, 2, 0]) assert.equal(await store.prune(query), expected);
  },

  /** The oldest go first, so that what is left after a call is not older than what went. */
  async PruneOldest({ store, advance }) {
    await register(store, "s1", { deadAfter: 99 * DAY });
    const ids: number[] = [];
    for (let n = 0; n < 4; n++) {
      ids.push(await ended(store, "succeeded"));
      await advance(HOUR);
    }
    await store.prune({ ...KEEP, succeeded: MINUTE, limit: 2 });
    assert.deepEqual(await Promise.all(ids.map(async (id) => (await store.job(id)) !== null)), [
      false,
      false,
      true,
      true,
    ]);
  },

  async IdsNeverReused({ store, advance }) {
    await register(store, "s1", { deadAfter: 99 * DAY });
    const ids = [await ended(store, "succeeded"), await ended(store, "failed"), await ended(store, "deleted")];
    await advance(DAY);
    assert.equal(await store.prune({ ...KEEP, succeeded: HOUR, failed: HOUR, deleted: HOUR }), 3);
    const next = await insertOne(store);
    assert.ok(next > Math.max(...ids), "not even when the newest job has gone");
  },

  async PruneServers({ store, advance }) {
    for (const id of ["dead", "patient", "beating"]) await register(store, id, { deadAfter: 9 * DAY });
    await register(store, "silent", { deadAfter: 30 * MINUTE });
    await register(store, "declared", { deadAfter: MINUTE });
    await advance(HOUR);
    await store.unregister("dead");
    await register(store, "young");
    await store.heartbeat({ server: "beating", running: 0 });
    const ids = async (): Promise<string[]> => (await store.servers()).map(({ id }) => id);
    assert.deepEqual(await ids(), ["beating", "declared", "patient", "silent", "young"]);
    assert.equal(await store.prune({ ...KEEP, servers: 2 * HOUR }), 0);
    await store.orphans(10);
    assert.equal((await ids()).length, 5, "a dead server is shown until pruned");
    assert.equal(await store.prune({ ...KEEP, servers: MINUTE, limit: 1 }), 1);
    assert.equal(await store.prune({ ...KEEP, servers: MINUTE }), 1);
    // Without its row it would count as dead before the time that it promised.
    assert.deepEqual(await ids(), ["beating", "patient", "young"]);
    await register(store, "declared");
  },

  async PruneStats({ store, advance }) {
    await register(store, "s1", { deadAfter: 99 * DAY });
    for (let n = 0; n < 3; n++) {
      await ended(store, "succeeded");
      await ended(store, "failed");
      await ended(store, "deleted");
      await advance(DAY);
    }
    const { capped: _capped, ...totals } = await store.counts();
    assert.deepEqual([totals.succeeded, totals.deleted], [3, 3]);
    const now = await clock(store);
    const all = { from: new Date(now - 30 * DAY), to: new Date(now + DAY), step: DAY };
    const counted = async (): Promise<number> =>
      (await store.series(all)).reduce((sum, { succeeded }) => sum + succeeded, 0);
    assert.equal(await counted(), 3);
    await store.prune({ ...KEEP, stats: 36 * HOUR });
    assert.equal(await counted(), 1, "minutes that were folded are shown no more");
    for (let n = 0; n < 3; n++) {
      await store.prune({ ...KEEP, stats: HOUR });
      assert.equal(await counted(), 0);
      const { succeeded, deleted } = await store.counts();
      assert.deepEqual([succeeded, deleted], [3, 3], "totals stay");
    }
    assert.equal(await store.prune({ ...KEEP, stats: HOUR }), 0);
    await store.prune({ ...KEEP, succeeded: HOUR, deleted: HOUR, failed: HOUR });
    await ended(store, "succeeded");
    const { succeeded, deleted, failed } = await store.counts();
    assert.deepEqual([succeeded, deleted, failed], [4, 3, 0]);
    assert.equal(await counted(), 1);
  },

  /** What was pruned is gone for good; a job that ended again is counted again. */
  async PruneRequeued({ store, advance }) {
    await register(store, "s1", { deadAfter: 99 * DAY });
    const id = await ended(store, "succeeded");
    await advance(DAY);
    await store.requeue({ ids: [id] });
    assert.equal(await store.prune({ ...KEEP, succeeded: HOUR }), 0, "it is live again");
    const [job] = await claim(store, { queues: ["running"] });
    assert.ok(job);
    await end(store, job, "succeeded");
    assert.equal(await store.prune({ ...KEEP, succeeded: HOUR }), 0, "and has just ended");
    assert.equal((await store.counts()).succeeded, 2);
    await advance(DAY);
    assert.equal(await store.prune({ ...KEEP, succeeded: HOUR }), 1);
  },
};
