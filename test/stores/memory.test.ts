import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { Heap, type Placed } from "../../engine/stores/memory/heap.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { conformance } from "../conformance/index.ts";
import { claimOne, end, finish, insertOne, newJobs, register, running, stateOf } from "../conformance/support.ts";

conformance("memory store", async () => {
  const time = new VirtualTime();
  const store = await MemoryStore.open({ runtime: time.runtime() });
  return { store, advance: (ms) => time.advance(ms), close: () => store.close() };
});

describe("memory store, beyond the contract", () => {
  test("runs on the real clock by default", async () => {
    const store = new MemoryStore();
    const before = Date.now();
    const now = (await store.now()).getTime();
    assert.ok(now >= before && now <= Date.now());
    await store.close();
  });

  test("says what it can not do", () => {
    assert.deepEqual(new MemoryStore().capabilities, { durable: false, crossProcessEvents: false });
  });

  test("without the claim check, an old claim ends a newer run", async () => {
    // What the check is for; and so that tests can show that fencing alone protects a job too.
    const runtime = new VirtualTime().runtime({ buggify: ["store.no-claim-check"] });
    const store = new MemoryStore({ runtime });
    await register(store);
    const first = await running(store);
    await end(store, first, "enqueued");
    await claimOne(store, { queues: [first.queue] });
    await store.setParams(first, { a: "1" });
    await store.writeConsole(first, { lines: ["a"], progress: null });
    assert.deepEqual(await finish(store, first, "succeeded"), { status: "applied", state: "succeeded" });
    assert.deepEqual(await finish(store, first, "failed"), { status: "stale" }, "only a running job can end");
    await store.close();
  });

  test("a call has happened wholly before the next one is looked at", async () => {
    const store = new MemoryStore();
    await register(store);
    const [, reply, counts] = await Promise.all([
      store.insert(newJobs(3)),
      store.claim({ server: "s1", sequence: 1, queues: ["default"], kinds: [], limit: 2 }),
      store.counts(),
    ]);
    assert.deepEqual([reply.jobs.length, counts.enqueued, counts.processing], [2, 1, 2]);
    await store.close();
  });

  test("tells nobody anything from the moment it is closed", async () => {
    const store = new MemoryStore();
    const events: unknown[] = [];
    const stop = store.subscribe((event) => events.push(event));
    const inserting = store.insert(newJobs(1));
    await store.close();
    await inserting;
    await stop();
    assert.deepEqual(events, []);
  });

  test("keeps nothing of queues and kinds that have come and gone", async () => {
    const store = new MemoryStore();
    await register(store);
    for (let n = 0; n < 100; n++) await insertOne(store, { queue: `q${n}`, kind: `k${n}` });
    await store.delete({ state: "enqueued" });
    const everything = { succeeded: 0, deleted: 0, failed: 0, servers: 1e12, stats: 1e12, limit: 1_000 };
    assert.equal(await store.prune(everything), 100);
    assert.deepEqual(
      (await store.queues()).map(({ name }) => name),
      ["default"],
      "which the server serves",
    );
    const id = await insertOne(store, { queue: "q1", kind: "k1" });
    const job = await claimOne(store, { queues: ["q1"], kinds: ["k1"] });
    assert.equal(job.id, id, "and goes on as before");
    await end(store, job, "failed");
    await store.prune({ ...everything, failed: null });
    assert.equal(await store.requeue({ ids: [id] }), 1);
    assert.equal(await stateOf(store, id), "enqueued");
    assert.equal((await claimOne(store, { queues: ["q1"] })).id, id);
    await store.close();
  });
});

interface Item extends Placed {
  readonly key: number;
}

test("a heap gives its items in order, whatever is taken out on the way", () => {
  // Positive: add an item of that key. Otherwise: take one out, by its index among those in the heap.
  const steps = fc.array(fc.integer({ min: -20, max: 100 }), { maxLength: 200 });
  fc.assert(
    fc.property(steps, (actions) => {
      const heap = new Heap<Item>((a, b) => a.key < b.key);
      const model: Item[] = [];
      for (const [order, action] of actions.entries()) {
        if (action > 0) {
          const item = { key: action * 1_000 + order, place: 0 };
          heap.add(item);
          model.push(item);
        } else if (model.length > 0) {
          const [item] = model.splice(-action % model.length, 1);
          if (item) heap.remove(item);
        }
        assert.equal(heap.size, model.length);
        assert.equal(heap.first?.key, model.length === 0 ? undefined : Math.min(...model.map(({ key }) => key)));
      }
      const rest: number[] = [];
      for (let first = heap.first; first; first = heap.first) {
        heap.remove(first);
        rest.push(first.key);
      }
      assert.deepEqual(
        rest,
        model.map(({ key }) => key).sort((a, b) => a - b),
      );
    }),
  );
});
