/** Rates; what differs from the reference is said in `limits.ts`. */
import assert from "node:assert/strict";
import type { JobId, Limit } from "../../engine/store.ts";
import { atOnce, claimNext, limitOf, NOTHING, paced, waiters } from "./limits-support.ts";
import {
  at,
  claim,
  claimIds,
  claimOne,
  claimReply,
  end,
  type Group,
  HOUR,
  insertMany,
  insertOne,
  MINUTE,
  newJob,
  only,
  refused,
  register,
  SECOND,
  snapshot,
} from "./support.ts";

export const ratesCases: Group = {
  async Spacing(harness) {
    const { store, advance } = harness;
    await register(store);
    const ids = await waiters(store, paced(20, 1_000, 1), 5);
    const [first] = await claim(store);
    assert.equal(first?.id, ids[0]);
    assert.equal(first?.limited, true);
    assert.equal(await store.sweep(10), 0, "nothing to repair");
    for (const id of ids.slice(1))
      assert.deepEqual(
        (await claimNext(harness, 50)).map((job) => job.id),
        [id],
      );
    await insertOne(store, { limit: paced(20, 1_000, 1) });
    assert.equal((await claimNext(harness, 50)).length, 1);
    await advance(HOUR);
  },

  async Burst(harness) {
    const { store } = harness;
    await register(store);
    const ids = await waiters(store, paced(10, 1_000, 3), 5);
    assert.deepEqual(await claimIds(store), ids.slice(0, 3));
    assert.deepEqual(
      (await claimNext(harness, 100)).map((job) => job.id),
      [ids[3]],
    );
    assert.deepEqual(
      (await claimNext(harness, 100)).map((job) => job.id),
      [ids[4]],
    );
  },

  /** With an ample rate `max` alone decides. */
  async Mutex({ store }) {
    await register(store);
    const limit = paced(1_000, 1_000, 1_000, { max: 1 });
    const ids = await insertMany(
      store,
      [0, 1, 2].map((priority) => newJob({ priority, limit })),
    );
    for (const id of ids.toReversed()) {
      const job = only(await claim(store));
      assert.equal(job.id, id);
      assert.deepEqual(await claimReply(store), { known: true, jobs: [], nextIn: null });
      await end(store, job, "succeeded");
    }
  },

  /** A rate alone does not say how many may run. */
  async Unlimited({ store, advance }) {
    await register(store);
    await waiters(store, paced(100, 1_000, 100), 150);
    assert.equal((await claim(store, { limit: 500 })).length, 100);
    await advance(500);
    assert.equal((await claim(store, { limit: 500 })).length, 50);
    assert.equal((await store.counts()).processing, 150);
  },

  /** A full key's rate goes on: when a job ends one may start, and the next only after another gap. */
  async Stall(harness) {
    const { store, advance } = harness;
    await register(store);
    await waiters(store, paced(10, 1_000, 1, { max: 1 }), 4);
    const first = await claimOne(store);
    await advance(SECOND);
    assert.deepEqual(await claimIds(store), [], "the running one blocks");
    await end(store, first, "succeeded");
    const second = only(await claim(store));
    await end(store, second, "succeeded");
    assert.equal((await claimNext(harness, 100)).length, 1);
  },

  /** Two places that are freed at once: the rate lets one start. */
  async Freed(harness) {
    const { store, advance } = harness;
    await register(store);
    await waiters(store, paced(10, 1_000, 1, { max: 2 }), 4);
    const running = [await claimOne(store)];
    await advance(100);
    running.push(await claimOne(store));
    await advance(SECOND);
    assert.deepEqual(await claimIds(store), []);
    for (const job of running) await end(store, job, "succeeded");
    assert.equal((await claim(store)).length, 1);
    assert.equal((await claimNext(harness, 100)).length, 1);
  },

  /** After a stall only `burst` start at once: what was not used is lost. */
  async OverdueBurst(harness) {
    const { store, advance } = harness;
    await register(store);
    await waiters(store, paced(10, 1_000, 3), 20);
    assert.equal((await claim(store)).length, 3);
    await advance(HOUR);
    assert.equal((await claim(store)).length, 3);
    assert.equal((await claimNext(harness, 100)).length, 1);
  },

  /** A claim that comes late by less than a gap does not delay those after it, as long as the burst has room. */
  async Jitter({ store, advance }) {
    await register(store);
    await waiters(store, paced(10, 1_000, 2), 20);
    let claimed = (await claim(store)).length;
    for (let n = 0; n < 9; n++) {
      await advance(n % 2 === 0 ? 120 : 80);
      claimed += (await claim(store)).length;
    }
    assert.equal(claimed, 11);
  },

  /** Whatever runs again is admitted again. */
  async Retry(harness) {
    const { store } = harness;
    await register(store);
    const [id] = await waiters(store, paced(1, 1_000, 1), 1);
    let job = await claimOne(store);
    for (const reason of ["retry", "shutdown", "lost", "late start"]) {
      await end(store, job, "enqueued", { reason, refund: reason !== "retry" }, "throttled");
      job = only(await claimNext(harness, 1_000));
      assert.equal(job.id, id);
    }
    await end(store, job, "scheduled", { delay: 300, reason: "snoozed", refund: true });
    assert.equal((await claimReply(store)).nextIn, 300);
    await harness.advance(300);
    assert.equal(only(await claimNext(harness, 700)).id, id);
  },

  /** A requeue can't get round the rate. */
  async Requeue(harness) {
    const { store } = harness;
    await register(store);
    const [id] = await waiters(store, paced(1, MINUTE, 1), 1);
    await end(store, await claimOne(store), "failed");
    await store.requeue({ ids: [id as JobId] });
    assert.equal(only(await claimNext(harness, MINUTE)).id, id);
  },

  /** A changed rate counts from the next claim on, and never blocks for longer than its own gap. */
  async Update(harness) {
    const { store } = harness;
    await register(store);
    await waiters(store, paced(1, HOUR, 1), 5);
    assert.equal((await claim(store)).length, 1);
    assert.equal((await claimReply(store)).nextIn, HOUR);
    await waiters(store, paced(10, 1_000, 1), 1);
    assert.equal((await claimNext(harness, 100)).length, 1);
    assert.equal((await claimNext(harness, 100)).length, 1);
    await waiters(store, paced(1, MINUTE, 1), 1);
    assert.equal((await claimNext(harness, 100)).length, 1, "this one's gap was made before");
    assert.equal((await claimNext(harness, MINUTE)).length, 1);
  },

  async UpdateRemoved({ store }) {
    await register(store);
    await waiters(store, paced(1, HOUR, 1), 5);
    assert.equal((await claim(store)).length, 1);
    await waiters(store, atOnce(3), 1);
    const jobs = await claim(store);
    assert.equal(jobs.length, 2);
    assert.ok(jobs.every(({ limited }) => !limited));
  },

  /** One key, several kinds and queues: one budget. */
  async Shared(harness) {
    const { store } = harness;
    await register(store);
    const limit = paced(10, 1_000, 2);
    const ids = await insertMany(store, [
      newJob({ limit, kind: "a" }),
      newJob({ limit, kind: "b", queue: "other" }),
      newJob({ limit, kind: "b", priority: 1 }),
      newJob({ limit, kind: "a", queue: "other" }),
    ]);
    const query = { queues: ["default", "other"] };
    assert.deepEqual(await claimIds(store, query), [ids[2], ids[0]]);
    assert.deepEqual(await claimReply(store, query), { known: true, jobs: [], nextIn: 100 });
    await harness.advance(100);
    assert.deepEqual(await claimIds(store, query), [ids[1]]);
  },

  /** What a key has used is not forgotten while it counts. */
  async Prune(harness) {
    const { store, advance } = harness;
    await register(store, "s1", { deadAfter: 99 * HOUR });
    const limit = paced(1, 3 * HOUR, 1);
    await waiters(store, limit, 1);
    await end(store, await claimOne(store), "succeeded");
    await advance(2 * HOUR);
    assert.equal(await store.prune(NOTHING), 0);
    await waiters(store, limit, 1);
    const job = only(await claimNext(harness, HOUR));
    await end(store, job, "succeeded");
    await advance(3 * HOUR);
    assert.equal(await store.prune(NOTHING), 1);
  },

  /** Many claimers and batches at once: together they get what the rate allows, no more and no less. */
  async Claimers({ store, advance }) {
    await register(store);
    const limit = paced(7, 1_000, 4);
    await waiters(store, limit, 300);
    const start = (await store.now()).getTime();
    const admitted: number[] = [];
    for (let n = 0; n < 200; n++) {
      const batches = await Promise.all([1, 3, 100, 2].map((size) => claim(store, { limit: size })));
      const now = (await store.now()).getTime();
      for (const _ of batches.flat()) admitted.push(now - start);
      await advance(1 + ((n * 37) % 190));
    }
    let first = 0;
    admitted.forEach((moment, index) => {
      while (moment - at(admitted, first) > limit.per) first += 1;
      assert.ok(index - first + 1 <= limit.rate + limit.burst);
    });
    const allowed = limit.burst + (at(admitted, -1) * limit.rate) / limit.per;
    assert.ok(admitted.length >= 0.9 * allowed, `${admitted.length} of ${allowed}`);
  },

  async Invalid({ store }) {
    const before = await snapshot(store);
    const bad: [Partial<Limit>, string][] = [
      [{}, "max"],
      [{ rate: 1, burst: 1 }, "per"],
      [{ rate: 1, per: 1 }, "burst"],
      [{ max: -1 }, "max"],
      [{ rate: -1, per: 1, burst: 1 }, "rate"],
      [{ rate: 1, per: -1, burst: 1 }, "per"],
      [{ rate: 1, per: 1, burst: -1 }, "burst"],
      [{ max: 1, per: -1 }, "per"],
      [{ max: 1, key: "" }, "key"],
      [{ max: 1, key: "k".repeat(201) }, "key"],
      [{ max: 1, key: "\u0000" }, "key"],
      [{ max: 1.5 }, "max"],
    ];
    for (const [fields, field] of bad) {
      await refused(store.insert([newJob(), newJob({ limit: limitOf(fields) })]), `jobs[1].limit.${field}`);
    }
    assert.deepEqual(await snapshot(store), before, "nothing is stored");
    await insertOne(store, { limit: paced(1, 1, 1, { max: 1, key: "k".repeat(200) }) });
  },
};
