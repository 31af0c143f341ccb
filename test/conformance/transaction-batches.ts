/** Batches in every transaction of the application's, whoever has opened it. */
import assert from "node:assert/strict";
import { batchOf, countsOf, insertMember, insertWaiter, isFinished, openBatch } from "./batches-support.ts";
import { atOnce } from "./limits-support.ts";
import {
  claim,
  claimIds,
  claimOne,
  end,
  type Group,
  type Harness,
  insertOne,
  newJob,
  newJobs,
  register,
  running,
  snapshot,
  stateOf,
  subscribe,
} from "./support.ts";
import { insertWithin, type Run, rollingBack, settle, uniqueKey } from "./transaction-cases.ts";

export function batchCases<H extends Harness>(run: Run<H>): Group<H> {
  const rolledBack = rollingBack(run);

  return {
    async Batch(harness) {
      const { store } = harness;
      await register(store);
      const [id, waiter] = await run(harness, async (writer) => {
        const batch = await openBatch(writer, { description: "one", meta: { a: "1" } });
        await writer.insert(newJobs(2, { batch }));
        const after = await insertWithin(writer, { queue: "waiters", afterBatch: batch });
        assert.equal(after.state, "awaiting");
        await writer.sealBatch(batch);
        return [batch, after.id];
      });
      const { createdAt: _, ...shown } = await batchOf(store, id);
      assert.deepEqual(shown, {
        ...{ id, description: "one", meta: { a: "1" }, parent: null, total: 2, sealed: true, nested: 0 },
        ...{ counts: countsOf({ enqueued: 2 }), finishedAt: null, nestedFinished: 0 },
      });
      for (const job of await claim(store)) await end(store, job, "succeeded");
      assert.equal(await isFinished(store, id), true);
      assert.deepEqual(await claimIds(store, { queues: ["waiters"] }), [waiter]);
    },

    async NestedBatch(harness) {
      const { store } = harness;
      await register(store);
      const outer = await openBatch(store);
      const closed = await openBatch(store);
      await store.sealBatch(closed);
      const waiter = await insertWaiter(store, outer);
      const [inner, empty] = await run(harness, async (writer) => {
        const busy = await openBatch(writer, { parent: outer });
        await insertWithin(writer, { batch: busy });
        await writer.sealBatch(busy);
        const done = await openBatch(writer, { parent: outer });
        await writer.sealBatch(done);
        await writer.sealBatch(outer);
        await assert.rejects(openBatch(writer, { parent: done }), { code: "batch_closed" });
        await assert.rejects(openBatch(writer, { parent: closed }), { code: "batch_closed" });
        await assert.rejects(writer.insert([newJob(), newJob({ batch: done })]), { code: "batch_closed" });
        await assert.rejects(openBatch(writer, { parent: done + 1 }), { code: "not_found" });
        await assert.rejects(writer.sealBatch(done + 1), { code: "not_found" });
        return [busy, done];
      });
      assert.deepEqual([await isFinished(store, empty), await isFinished(store, inner)], [true, false]);
      const { nested, nestedFinished, sealed, finishedAt } = await batchOf(store, outer);
      assert.deepEqual(
        { nested, nestedFinished, sealed, finishedAt },
        {
          ...{ nested: 2, nestedFinished: 1, sealed: true, finishedAt: null },
        },
      );
      await end(store, await claimOne(store), "succeeded");
      assert.equal(await isFinished(store, outer), true);
      assert.equal(await stateOf(store, waiter), "enqueued");
    },

    async BatchRollback(harness) {
      const { store } = harness;
      await register(store);
      const [outer, other] = [await openBatch(store), await openBatch(store)];
      const empty = await openBatch(store, { parent: other });
      const parent = await insertOne(store, { queue: "other", batch: outer });
      const job = await running(store, { batch: outer });
      const waiters = [
        await insertWaiter(store, empty),
        await insertWaiter(store, other, { delay: 5_000 }),
        await insertWaiter(store, other, { limit: atOnce(1) }),
        await insertWaiter(store, other, { parents: [{ id: parent, on: ["succeeded"] }] }),
        await insertWaiter(store, outer),
      ];
      const before = [await snapshot(store), await store.limits({})];
      await rolledBack(harness, async (writer) => {
        await writer.insert(newJobs(3, { batch: outer }));
        await insertWithin(writer, { batch: other, unique: uniqueKey() });
        await writer.sealBatch(outer);
        const inner = await openBatch(writer, { parent: outer });
        await insertWithin(writer, { batch: inner, afterBatch: empty });
        const deep = await openBatch(writer, { parent: inner });
        await writer.sealBatch(deep);
        await openBatch(writer);
      });
      assert.deepEqual([await snapshot(store), await store.limits({})], before);
      await rolledBack(harness, async (writer) => {
        // Both finish, and what waits for them goes on.
        await writer.sealBatch(other);
        await writer.sealBatch(empty);
        await assert.rejects(writer.insert([newJob({ batch: other })]), { code: "batch_closed" });
      });
      assert.deepEqual([await snapshot(store), await store.limits({})], before);
      assert.deepEqual(await claimIds(store, { queues: ["waiters"] }), []);

      // And everything goes on as if it had never been.
      const late = await insertMember(store, other);
      await store.sealBatch(empty);
      await store.sealBatch(other);
      await store.sealBatch(outer);
      assert.deepEqual([await isFinished(store, empty), await isFinished(store, other)], [true, false]);
      assert.deepEqual(await claimIds(store, { queues: ["waiters"] }), waiters.slice(0, 1));
      const last = await claimOne(store);
      assert.equal(last.id, late);
      await end(store, last, "succeeded");
      const states = await Promise.all(waiters.slice(1).map((waiter) => stateOf(store, waiter)));
      assert.deepEqual(states, ["scheduled", "throttled", "awaiting", "awaiting"]);
      await end(store, job, "succeeded");
      await store.delete({ ids: [parent] });
      assert.equal(await isFinished(store, outer), true);
      assert.deepEqual(await claimIds(store, { queues: ["waiters"] }), [waiters[2], waiters[4]]);
      const { total, nested } = await batchOf(store, outer);
      assert.deepEqual([total, nested], [2, 0]);
    },

    async SealLimit(harness) {
      const { store } = harness;
      await register(store);
      for (const seal of [
        (id: number): Promise<void> => store.sealBatch(id),
        (id: number): Promise<void> => run(harness, (writer) => writer.sealBatch(id)),
      ]) {
        const id = await openBatch(store);
        const waiters = [
          await insertWaiter(store, id, { limit: atOnce(1) }),
          await insertWaiter(store, id, { limit: atOnce(1) }),
        ];
        const subscriber = await subscribe(harness);
        await seal(id);
        await subscriber.next((event) => event.type === "ready" && (event.queue ?? "waiters") === "waiters");
        await subscriber.stop();
        const first = await claimOne(store, { queues: ["waiters"] });
        assert.equal(first.id, waiters[0], "admitted at once");
        assert.deepEqual(await claimIds(store, { queues: ["waiters"] }), [], "and no more than the limit allows");
        await end(store, first, "succeeded");
        await end(store, await claimOne(store, { queues: ["waiters"] }), "succeeded");
      }
    },

    async SealEvents(harness) {
      const { store } = harness;
      const id = await openBatch(store);
      await insertWaiter(store, id);
      const subscriber = await subscribe(harness);
      const told = (): unknown[] => subscriber.events.filter(({ type }) => type === "ready");
      await rolledBack(harness, (writer) => writer.sealBatch(id));
      await settle(harness);
      assert.deepEqual(told(), [], "nothing of what was rolled back");
      await run(harness, async (writer) => {
        await writer.sealBatch(id);
        await settle(harness);
        assert.deepEqual(told(), [], "nothing before the commit");
      });
      await subscriber.next((event) => event.type === "ready" && (event.queue ?? "waiters") === "waiters");
      await subscriber.stop();
    },
  };
}
