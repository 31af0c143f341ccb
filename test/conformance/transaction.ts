/** Transactions of the application's: those that the store opens, and those that the application has begun itself. */
import assert from "node:assert/strict";
import { setTimeout as realTime } from "node:timers/promises";
import type { Writer } from "../../engine/store.ts";
import { openBatch } from "./batches-support.ts";
import { heldTransactionCases } from "./held.ts";
import {
  ascending,
  claim,
  claimIds,
  end,
  type Group,
  type Harness,
  HOUR,
  insertOne,
  MINUTE,
  newJob,
  newJobs,
  type OwnTransaction,
  refused,
  register,
  running,
  SLACK,
  snapshot,
  stateOf,
  subscribe,
} from "./support.ts";
import { batchCases } from "./transaction-batches.ts";
import { cases, insertWithin, type Run, Stop, settle, uniqueKey } from "./transaction-cases.ts";

const byStore: Run<Harness> = (harness, work) => harness.store.transaction(work);

export const transactionCases: Group = {
  ...cases(byStore),
  ...batchCases(byStore),
  ...heldTransactionCases(byStore),

  async Delay(harness) {
    const subscriber = await subscribe(harness);
    await harness.store.transaction(async (writer) => {
      await insertWithin(writer, { queue: "mail", delay: HOUR });
      await harness.advance(50 * MINUTE);
    });
    const event = await subscriber.next(({ type }) => type === "ready");
    assert.ok(event.type === "ready");
    assert.ok(event.delay <= 10 * MINUTE, `the time in the transaction is over: ${event.delay} ms`);
    assert.ok(event.queue === null || event.delay >= 10 * MINUTE - SLACK, `but not more than that: ${event.delay} ms`);
    await subscriber.stop();
  },

  async EventsAfterRollback(harness) {
    const subscriber = await subscribe(harness);
    const rolledBack = harness.store.transaction(async (writer) => {
      await insertWithin(writer, { queue: "gone" });
      throw new Stop();
    });
    await assert.rejects(rolledBack, Stop);
    await harness.store.transaction((writer) => insertWithin(writer, { queue: "mail" }));
    await subscriber.next(({ type }) => type === "ready");
    await settle(harness);
    const queues = subscriber.events.flatMap((event) => (event.type === "ready" ? [event.queue] : []));
    assert.ok(!queues.includes("gone"), "nor does a later transaction tell of it");
    await subscriber.stop();
  },

  async Isolation(harness) {
    const { store } = harness;
    await register(store);
    const calls: Promise<unknown>[] = [];
    const failing = store.transaction(async (writer) => {
      await writer.insert(newJobs(3));
      calls.push(store.counts(), claim(store), store.jobs({ state: "enqueued" }), store.insert([newJob()]));
      await settle(harness);
      throw new Stop();
    });
    await assert.rejects(failing, Stop);
    const [counts, claimed, page] = (await Promise.all(calls)) as [
      { enqueued: number },
      unknown[],
      { jobs: unknown[] },
    ];
    assert.deepEqual([counts.enqueued, claimed.length, page.jobs.length], [0, 0, 0]);
    assert.equal((await claimIds(store)).length, 1, "the insert beside it has happened");
  },

  async BesideOthers(harness) {
    const { store } = harness;
    await register(store);
    const jobs = await Promise.all([running(store, { kind: "a" }), running(store, { kind: "b" })]);
    const [made, , job] = await Promise.all([
      store.transaction(async (writer) => {
        const first = await insertWithin(writer);
        await settle(harness);
        return [first.id, (await insertWithin(writer)).id];
      }),
      Promise.all(jobs.map((job) => end(store, job, "succeeded"))),
      insertOne(store, { queue: "other" }),
      store.heartbeat({ server: "s1", running: 0 }),
    ]);
    assert.deepEqual(await claimIds(store), made);
    assert.deepEqual(await claimIds(store, { queues: ["other"] }), [job]);
    assert.equal((await store.counts()).succeeded, 2);
  },

  async Concurrent(harness) {
    const { store } = harness;
    await register(store);
    const one = (n: number): Promise<number[]> =>
      store.transaction(async (writer) => {
        const first = await insertWithin(writer);
        await Promise.resolve();
        const second = await insertWithin(writer, { unique: uniqueKey() });
        if (n % 3 === 0) throw new Stop();
        return [first.id, second.id];
      });
    const results = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => one(n)));
    const done = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    assert.equal(done.length, 13);
    const holders = new Set(done.map(([, second]) => second));
    assert.equal(holders.size, 1, "one of them holds the key");
    const expected = [...done.map(([first]) => first ?? 0), ...holders];
    assert.deepEqual(ascending(await claimIds(store)), ascending(expected.map((id) => id ?? 0)));
  },

  async LateCommit(harness) {
    const { store } = harness;
    await register(store);
    const made: number[] = [];
    let beside: Promise<number> | undefined;
    await store.transaction(async (writer) => {
      made.push((await insertWithin(writer)).id);
      beside = insertOne(store);
      await settle(harness);
    });
    const other = (await beside) ?? 0;
    const ids = await claimIds(store);
    assert.deepEqual(
      ascending(ids),
      ascending([...made, other]),
      "the lower id, though it may be committed later, too",
    );
  },

  async AfterEnd(harness) {
    const { store } = harness;
    await register(store);
    const [job, batch] = [await running(store), await openBatch(store)];
    const writers: Writer[] = [];
    await store.transaction((writer) => {
      writers.push(writer);
    });
    await assert.rejects(
      store.transaction((writer) => {
        writers.push(writer);
        throw new Stop();
      }),
      Stop,
    );
    const before = await snapshot(store);
    for (const writer of writers) {
      await assert.rejects(writer.insert([newJob()]), { code: "conflict" });
      await assert.rejects(writer.insert([]), { code: "conflict" });
      await assert.rejects(writer.setParams(job, { a: "1" }), { code: "conflict" });
      await assert.rejects(openBatch(writer), { code: "conflict" });
      await assert.rejects(writer.sealBatch(batch), { code: "conflict" });
    }
    // Nor while another one is open.
    await store.transaction(async () => {
      for (const writer of writers) await assert.rejects(writer.insert([newJob()]), { code: "conflict" });
    });
    assert.deepEqual(await snapshot(store), before);
  },

  async Work({ store }) {
    await register(store);
    assert.equal(await store.transaction(() => 7), 7);
    assert.equal(await store.transaction(() => undefined), undefined);
    for (const thrown of [undefined, null, 0, "text", new Stop()]) {
      const throwing = store.transaction((writer) => {
        // Not awaited: as good as done before this throws, or refused.
        writer.insert([newJob()]).catch(() => {});
        throw thrown;
      });
      assert.deepEqual(
        await throwing.then(
          () => "resolved",
          (error) => [error],
        ),
        [thrown],
      );
      // biome-ignore lint/suspicious/noThenProperty: a promise of somebody else's
      const thenable = { then: (_: unknown, reject: (error: unknown) => void) => reject(thrown) };
      const rejecting = store.transaction(() => thenable as unknown as Promise<void>);
      assert.deepEqual(
        await rejecting.then(
          () => "resolved",
          (error) => [error],
        ),
        [thrown],
      );
    }
    for (const work of [undefined, null, {}, 7]) await refused(store.transaction(work as never), "work");
    assert.equal((await store.counts()).enqueued, 0);
    assert.equal((await store.insert([newJob()])).length, 1);
  },

  async NotAwaited({ store }) {
    await register(store);
    let insert: Promise<string> | undefined;
    await store.transaction((writer) => {
      insert = writer.insert([newJob()]).then(
        () => "inserted",
        () => "refused",
      );
    });
    const there = (await claimIds(store)).length === 1;
    assert.equal(await insert, there ? "inserted" : "refused", "what was resolved is what happened");
  },

  async OwnCall(harness) {
    const { store } = harness;
    const failing = store.transaction(async (writer) => {
      await writer.insert(newJobs(2));
      await during(harness, store.insert([newJob()]));
    });
    await assert.rejects(failing, { code: "store_busy", retryable: true });
    assert.equal((await store.counts()).enqueued, 0, "nothing of either");
    await insertOne(store);
    assert.equal((await store.counts()).enqueued, 1);
  },

  async Nested(harness) {
    const { store } = harness;
    const nested = store.transaction(() =>
      during(
        harness,
        store.transaction(() => {}),
      ),
    );
    await assert.rejects(nested, { code: "store_busy" });
    await insertOne(store);
  },

  async CloseMeanwhile(harness) {
    const { store } = harness;
    const { promise, resolve } = Promise.withResolvers<Writer>();
    const open = assert.rejects(
      store.transaction((writer) => {
        resolve(writer);
        return new Promise(() => {});
      }),
      { code: "store_closed" },
    );
    const writer = await promise;
    await writer.insert(newJobs(2));
    const waiting = [
      assert.rejects(
        store.transaction(() => {}),
        { code: "store_closed" },
      ),
      assert.rejects(store.insert([newJob()]), { code: "store_closed" }),
    ];
    await store.close();
    await Promise.all([open, ...waiting]);
    await assert.rejects(writer.insert([newJob()]), { code: "store_closed" });
  },
};

/** Transactions that the application has begun itself. */
export function ownTransactionCases<H extends Harness>(begin: (harness: H) => Promise<OwnTransaction>): Group<H> {
  const byApplication: Run<H> = async (harness, work) => {
    const { writer, commit, rollback } = await begin(harness);
    try {
      const result = await work(writer);
      await commit();
      writer.notify();
      return result;
    } catch (error) {
      await rollback();
      throw error;
    }
  };
  return {
    ...cases(byApplication),
    ...batchCases(byApplication),
    ...heldTransactionCases(byApplication),

    async Unnotified(harness) {
      const { store } = harness;
      await register(store);
      const { writer, commit } = await begin(harness);
      const { id } = await insertWithin(writer);
      await commit();
      assert.equal(await stateOf(store, id), "enqueued");
      assert.deepEqual(await claimIds(store), [id]);
    },

    async NotifyAfterRollback(harness) {
      const { store } = harness;
      await register(store);
      const { writer, rollback } = await begin(harness);
      await insertWithin(writer);
      await rollback();
      writer.notify();
      writer.notify();
      await settle(harness);
      assert.deepEqual(await claimIds(store), []);
    },

    async AfterEnd(harness) {
      const { store } = harness;
      const { writer, commit } = await begin(harness);
      await insertWithin(writer);
      await commit();
      await assert.rejects(writer.insert([newJob()]), { code: "conflict" });
      assert.equal((await store.counts()).enqueued, 1);
    },
  };
}

/** Lets time pass until the call has ended. */
async function during<T>({ advance }: Harness, call: Promise<T>): Promise<T> {
  let open = true;
  const ended = call.finally(() => {
    open = false;
  });
  ended.catch(() => {});
  for (const start = performance.now(); open; ) {
    assert.ok(performance.now() - start < 20_000, "it does not wait for ever");
    await advance(1_000);
    await realTime(1);
  }
  return ended;
}
