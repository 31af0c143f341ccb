/** Batches in batches: they finish from within. */
import assert from "node:assert/strict";
import type { BatchId, ClaimedJob } from "../../engine/store.ts";
import { batchOf, countsOf, insertMember, insertWaiter, isFinished, openBatch, refusedAs } from "./batches-support.ts";
import { KEEP, sweepAll } from "./dependencies-support.ts";
import {
  at,
  claim,
  claimIds,
  end,
  finish,
  type Group,
  HOUR,
  idsOf,
  newJob,
  refused,
  register,
  running,
  stateOf,
} from "./support.ts";

export const nestedBatchesCases: Group = {
  async Nested({ store }) {
    await register(store);
    const outer = await openBatch(store);
    const inner = await openBatch(store, { parent: outer });
    const job = await running(store, { batch: inner });
    const waiter = await insertWaiter(store, outer);
    const { parent, total, nested, nestedFinished } = await batchOf(store, outer);
    assert.deepEqual([parent, total, nested, nestedFinished], [null, 0, 1, 0]);
    assert.equal((await batchOf(store, inner)).parent, outer);
    await store.sealBatch(inner);
    await store.sealBatch(outer);
    assert.equal(await isFinished(store, outer), false);
    await end(store, job, "succeeded");
    const [after, within] = [await batchOf(store, outer), await batchOf(store, inner)];
    assert.deepEqual([after.nested, after.nestedFinished, after.counts], [1, 1, countsOf({})]);
    assert.deepEqual(after.finishedAt, within.finishedAt, "at once");
    assert.ok(after.finishedAt);
    assert.equal(await stateOf(store, waiter), "enqueued");
  },

  async NestedChain({ store }) {
    await register(store);
    const ids: BatchId[] = [];
    for (let n = 0; n < 3; n++) ids.push(await openBatch(store, { parent: ids.at(-1) ?? null }));
    const job = await running(store, { batch: at(ids, -1) });
    const waiters = [];
    for (const id of ids) waiters.push(await insertWaiter(store, id));
    for (const id of ids) await store.sealBatch(id);
    await end(store, job, "succeeded");
    for (const id of ids) assert.equal(await isFinished(store, id), true);
    assert.deepEqual(await claimIds(store, { queues: ["waiters"] }), waiters, "each once");
  },

  async NestedDeep({ store }) {
    await register(store);
    const depth = 2_000;
    const ids: BatchId[] = [];
    for (let n = 0; n < depth; n++) ids.push(await openBatch(store, { parent: ids.at(-1) ?? null }));
    const waiter = await insertWaiter(store, at(ids, 0));
    for (const id of ids) await store.sealBatch(id);
    assert.equal(await stateOf(store, waiter), "enqueued");
    for (const id of [at(ids, 0), at(ids, depth / 2)]) assert.equal(await isFinished(store, id), true);
  },

  async NestedWaiter({ store }) {
    const outer = await openBatch(store);
    const middle = await openBatch(store, { parent: outer });
    const inner = await openBatch(store, { parent: middle });
    const other = await openBatch(store, { parent: outer });
    for (const [batch, afterBatch] of [
      [middle, outer],
      [inner, middle],
      [inner, outer],
    ] as const) {
      const jobs = [newJob(), newJob({ batch, afterBatch })];
      await refused(store.insert(jobs), "jobs[1].afterBatch");
    }
    for (const id of [outer, middle, inner]) assert.equal((await batchOf(store, id)).total, 0);
    await insertMember(store, inner, { afterBatch: other });
    await insertMember(store, outer, { afterBatch: inner });
    assert.deepEqual((await batchOf(store, inner)).counts, countsOf({ awaiting: 1 }));
  },

  async NestedOpen({ store }) {
    await register(store);
    await refusedAs("not_found", "parent", openBatch(store, { parent: 99 }));
    const finished = await openBatch(store);
    await store.sealBatch(finished);
    await refusedAs("batch_closed", "parent", openBatch(store, { parent: finished }));
    const sealed = await openBatch(store);
    const job = await running(store, { batch: sealed });
    await store.sealBatch(sealed);
    const inner = await openBatch(store, { parent: sealed });
    await end(store, job, "succeeded");
    assert.equal(await isFinished(store, sealed), false, "what was nested after the sealing counts");
    assert.deepEqual(
      (await store.batches({})).batches.map(({ id }) => id),
      [inner, sealed, finished],
      "what was refused left nothing",
    );
    assert.deepEqual([(await batchOf(store, finished)).nested, (await batchOf(store, sealed)).nested], [0, 1]);
    // A batch that is sealed and has no live jobs left takes more as long as a nested one is open.
    const late = await running(store, { batch: sealed });
    await store.sealBatch(inner);
    assert.deepEqual([await isFinished(store, inner), await isFinished(store, sealed)], [true, false]);
    await end(store, late, "succeeded");
    assert.equal(await isFinished(store, sealed), true);
  },

  async NestedFailed({ store }) {
    await register(store);
    const outer = await openBatch(store);
    const inner = await openBatch(store, { parent: outer });
    const job = await running(store, { batch: inner });
    await store.sealBatch(inner);
    await store.sealBatch(outer);
    await end(store, job, "failed");
    await sweepAll(store);
    assert.deepEqual([await isFinished(store, inner), await isFinished(store, outer)], [false, false]);
    await store.delete({ ids: [job.id] });
    assert.deepEqual([await isFinished(store, inner), await isFinished(store, outer)], [true, true]);
  },

  async NestedEmpty({ store }) {
    for (const outerFirst of [true, false]) {
      const outer = await openBatch(store);
      const inner = await openBatch(store, { parent: outer });
      const waiter = await insertWaiter(store, outer);
      const [first, second] = outerFirst ? [outer, inner] : [inner, outer];
      await store.sealBatch(first);
      assert.equal(await isFinished(store, outer), false);
      await store.sealBatch(second);
      assert.deepEqual([await isFinished(store, inner), await isFinished(store, outer)], [true, true]);
      assert.equal(await stateOf(store, waiter), "enqueued");
    }
  },

  async NestedList({ store }) {
    const other = await openBatch(store);
    const outer = await openBatch(store);
    const ids: BatchId[] = [];
    for (let n = 0; n < 5; n++) {
      ids.push(await openBatch(store, { parent: outer }));
      if (n < 2) await store.sealBatch(at(ids, n));
    }
    const deeper = await openBatch(store, { parent: at(ids, 4) });
    const { nested, nestedFinished } = await batchOf(store, outer);
    assert.deepEqual([nested, nestedFinished], [5, 2]);
    const first = await store.batches({ parent: outer, limit: 3 });
    const rest = await store.batches({ parent: outer, limit: 3, cursor: first.next ?? "" });
    const found = [...first.batches, ...rest.batches].map(({ id }) => id);
    assert.deepEqual([found, rest.next], [ids.toReversed(), null]);
    assert.deepEqual(
      (await store.batches({})).batches.map(({ id }) => id),
      [deeper, ...ids.toReversed(), outer, other],
    );
    for (const parent of [99, 0, -1]) assert.deepEqual((await store.batches({ parent })).batches, []);
  },

  async NestedConcurrent({ store }) {
    const outer = await openBatch(store);
    const jobs: ClaimedJob[] = [];
    for (let n = 0; n < 16; n++) {
      const server = `s${n + 1}`;
      await register(store, server);
      const inner = await openBatch(store, { parent: outer });
      const id = await insertMember(store, inner);
      const claimed = await claim(store, { server });
      assert.deepEqual(idsOf(claimed), [id]);
      jobs.push(...claimed);
      await store.sealBatch(inner);
    }
    const waiter = await insertWaiter(store, outer);
    await store.sealBatch(outer);
    await Promise.all(
      jobs.map(async (job) => {
        for (let tries = 0; (await finish(store, job, "succeeded")).status === "busy"; tries++) {
          assert.ok(tries < 1_000, "busy for ever");
        }
      }),
    );
    const { nested, nestedFinished, finishedAt } = await batchOf(store, outer);
    assert.deepEqual([nested, nestedFinished, finishedAt !== null], [16, 16, true]);
    assert.deepEqual(await claimIds(store, { queues: ["waiters"] }), [waiter], "once");
  },

  async NestedPrune({ store, advance }) {
    await register(store);
    const outer = await openBatch(store);
    const inner = await openBatch(store, { parent: outer });
    const job = await running(store, { batch: inner });
    await store.sealBatch(inner);
    await store.sealBatch(outer);
    await end(store, job, "succeeded");
    await advance(HOUR);
    await store.prune({ ...KEEP, succeeded: 0, limit: 1 });
    assert.equal((await batchOf(store, outer)).nested, 1);
    assert.equal(await store.job(job.id), null);
    for (let calls = 0; calls < 3; calls++) {
      await store.prune({ ...KEEP, succeeded: 0, limit: 1 });
      const [within, without] = [await store.batch(inner), await store.batch(outer)];
      assert.ok(without !== null || within === null, "never before what is nested in it");
    }
    assert.deepEqual([await store.batch(inner), await store.batch(outer)], [null, null]);
  },
};
