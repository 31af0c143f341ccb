/** What holds in every transaction of the application's, whoever has opened it. */
import assert from "node:assert/strict";
import { setTimeout as realTime } from "node:timers/promises";
import type { InsertedJob, Limit, Store, UniqueKey, Writer } from "../../engine/store.ts";
import {
  claim,
  claimIds,
  claimOne,
  end,
  ended,
  type Group,
  type Harness,
  HOUR,
  idsOf,
  insertOne,
  MINUTE,
  newJob,
  newJobs,
  only,
  record,
  refused,
  register,
  running,
  snapshot,
  subscribe,
} from "./support.ts";

/** Runs `work` in a transaction, which it commits, or rolls back when `work` throws. */
export type Run<H extends Harness> = <T>(harness: H, work: (writer: Writer) => Promise<T>) => Promise<T>;

const SUCCEEDED = ["succeeded"] as const;
export const uniqueKey = (fields: Partial<UniqueKey> = {}): UniqueKey => {
  return { key: "a".repeat(32), window: null, onConflict: "keep", ...fields };
};
const limitOf = (fields: Partial<Limit> = {}): Limit => ({ key: "k", max: 1, rate: 0, per: 0, burst: 0, ...fields });

export const insertWithin = async (writer: Writer, fields: Parameters<typeof newJob>[0] = {}): Promise<InsertedJob> =>
  only(await writer.insert([newJob(fields)]));

export class Stop extends Error {}

export type RolledBack<H extends Harness> = (harness: H, work: (writer: Writer) => Promise<void>) => Promise<void>;

/** Runs `work` in a transaction that is rolled back after it. */
export const rollingBack =
  <H extends Harness>(run: Run<H>): RolledBack<H> =>
  async (harness, work) => {
    const stop = new Stop();
    const failing = run(harness, async (writer) => {
      await work(writer);
      throw stop;
    });
    await assert.rejects(failing, (error) => error === stop);
  };

export function cases<H extends Harness>(run: Run<H>): Group<H> {
  const rolledBack = rollingBack(run);
  return {
    async Commit(harness) {
      const { store } = harness;
      await register(store);
      const inserted = await run(harness, async (writer) => {
        const first = await writer.insert(newJobs(2, { args: "[1]" }));
        return [...first, await insertWithin(writer, { delay: HOUR }), ...(await writer.insert([]))];
      });
      assert.deepEqual(
        inserted.map(({ state }) => state),
        ["enqueued", "enqueued", "scheduled"],
      );
      const ids = idsOf(inserted);
      assert.deepEqual(
        [...ids].sort((a, b) => a - b),
        ids,
        "ids grow",
      );
      assert.equal((await record(store, ids[0] ?? 0)).args, "[1]");
      assert.deepEqual(await claimIds(store), ids.slice(0, 2));
      assert.ok((await insertOne(store)) > (ids[2] ?? 0));
    },

    async Rollback(harness) {
      const { store } = harness;
      await register(store);
      const parent = await running(store);
      const deleted = await ended(store, "deleted");
      await insertOne(store, { unique: uniqueKey({ key: "b".repeat(32) }), priority: 3, delay: HOUR });
      await insertOne(store, { queue: "limited", limit: limitOf({ max: 2, rate: 5, per: 1_000, burst: 5 }) });
      const before = [await snapshot(store), await store.limits({}), await allSeries(store)];
      await rolledBack(harness, async (writer) => {
        await writer.insert(newJobs(3));
        await insertWithin(writer, { unique: uniqueKey() });
        const replacing = { key: "b".repeat(32), onConflict: "replace" } as const;
        assert.equal((await insertWithin(writer, { unique: uniqueKey(replacing), args: "[2]" })).replaced, true);
        await insertWithin(writer, { parents: [{ id: parent.id, on: SUCCEEDED }] });
        const doomed = await insertWithin(writer, { parents: [{ id: deleted, on: SUCCEEDED }] });
        assert.equal(doomed.state, "deleted");
        await insertWithin(writer, { queue: "limited", limit: limitOf({ max: 7 }) });
        await insertWithin(writer, { queue: "limited", limit: limitOf({ key: "new" }) });
        await writer.setParams(parent, { a: "1" });
      });
      assert.deepEqual([await snapshot(store), await store.limits({}), await allSeries(store)], before);

      // And everything goes on as if it had never been.
      const again = only(await store.insert([newJob({ unique: uniqueKey() })]));
      assert.equal(again.duplicate, false);
      await end(store, parent, "succeeded");
      assert.deepEqual(await claimIds(store), [again.id]);
      assert.equal((await claim(store, { queues: ["limited"] })).length, 1);
      assert.deepEqual((await record(store, parent.id)).params, {});
    },

    async InsertError(harness) {
      const { store } = harness;
      const before = await snapshot(store);
      const failing = run(harness, async (writer) => {
        await writer.insert(newJobs(2));
        await insertWithin(writer, { parents: [{ id: 1_000_000, on: SUCCEEDED }] });
      });
      await assert.rejects(failing, { code: "not_found" });
      await refused(
        run(harness, async (writer) => {
          await writer.insert(newJobs(2));
          await writer.insert([newJob(), newJob({ kind: "" })]);
        }),
        "jobs[1].kind",
      );
      assert.deepEqual(await snapshot(store), before);
    },

    async CaughtError(harness) {
      const { store } = harness;
      await register(store);
      const job = await running(store);
      const [first, last] = await run(harness, async (writer) => {
        const before = await insertWithin(writer);
        const parents = [{ id: 1_000_000, on: SUCCEEDED }];
        const bad = [newJob({ unique: uniqueKey() }), newJob({ limit: limitOf() }), newJob({ parents })];
        await assert.rejects(writer.insert(bad), { code: "not_found" });
        await assert.rejects(writer.setParams({ ...job, claim: job.claim + 1 }, { a: "1" }), { code: "claim_lost" });
        const after = await insertWithin(writer, { unique: uniqueKey() });
        assert.equal(after.duplicate, false, "the failed call has left no key");
        return [before.id, after.id];
      });
      assert.deepEqual(await claimIds(store), [first, last]);
      assert.deepEqual(await store.limits({}), [], "nor a limit");
      assert.deepEqual((await record(store, job.id)).params, {});
    },

    async OwnWrites(harness) {
      const { store } = harness;
      await register(store);
      const [parent, child] = await run(harness, async (writer) => {
        const made = await insertWithin(writer, { unique: uniqueKey() });
        const waiting = await insertWithin(writer, { parents: [{ id: made.id, on: SUCCEEDED }] });
        assert.equal(waiting.state, "awaiting");
        const same = await insertWithin(writer, { unique: uniqueKey() });
        assert.deepEqual([same.id, same.duplicate], [made.id, true]);
        const other = await insertWithin(writer, { unique: uniqueKey({ onConflict: "replace" }), args: "[3]" });
        assert.deepEqual([other.id, other.replaced], [made.id, true]);
        return [made.id, waiting.id];
      });
      const job = await claimOne(store);
      assert.deepEqual([job.id, job.args], [parent, "[3]"]);
      await end(store, job, "succeeded");
      assert.deepEqual(await claimIds(store), [child]);
    },

    async Limit(harness) {
      const { store } = harness;
      await register(store);
      const limit = limitOf({ max: 2 });
      const ids = await run(harness, async (writer) => idsOf(await writer.insert(newJobs(3, { limit }))));
      assert.deepEqual(await claimIds(store), ids.slice(0, 2), "admitted at once, and no more than the limit allows");
      await rolledBack(harness, async (writer) => {
        await insertWithin(writer, { limit: limitOf({ max: 10 }) });
      });
      assert.deepEqual(await claimIds(store), [], "a rule that was rolled back does not count");
      await run(harness, (writer) => insertWithin(writer, { limit: limitOf({ max: 3 }) }));
      assert.deepEqual(await claimIds(store), ids.slice(2));
    },

    async Checkpoint(harness) {
      const { store } = harness;
      await register(store);
      const job = await running(store);
      await store.setParams(job, { a: "1", b: "1" });
      await run(harness, async (writer) => {
        await writer.setParams(job, { b: "2" });
        await writer.setParams(job, { c: "3" });
      });
      assert.deepEqual((await record(store, job.id)).params, { a: "1", b: "2", c: "3" });
      await rolledBack(harness, (writer) => writer.setParams(job, { a: "9" }));
      assert.deepEqual((await record(store, job.id)).params, { a: "1", b: "2", c: "3" });
      await end(store, job, "enqueued");
      const next = await claimOne(store, { queues: ["running"] });
      assert.deepEqual(next.params, { a: "1", b: "2", c: "3" });
      const stale = run(harness, async (writer) => {
        await insertWithin(writer);
        await writer.setParams(job, { a: "0" });
      });
      await assert.rejects(stale, { code: "claim_lost" });
      assert.equal((await store.counts()).enqueued, 0, "the loss of the claim rolls everything back");
    },

    async Events(harness) {
      const subscriber = await subscribe(harness);
      const told = (): unknown[] => subscriber.events.filter(({ type }) => type === "ready");
      await rolledBack(harness, async (writer) => {
        await insertWithin(writer);
      });
      await settle(harness);
      assert.deepEqual(told(), [], "nothing of what was rolled back");
      await run(harness, async (writer) => {
        await insertWithin(writer, { queue: "mail" });
        await settle(harness);
        assert.deepEqual(told(), [], "nothing before the commit");
      });
      await subscriber.next((event) => event.type === "ready" && (event.queue ?? "mail") === "mail");
      await subscriber.stop();
    },
  };
}

async function allSeries(store: Store): Promise<unknown> {
  const now = (await store.now()).getTime();
  return store.series({ from: new Date(now - HOUR), to: new Date(now + HOUR), step: MINUTE });
}

/** Lets what is under way get as far as it can by itself. */
export async function settle({ advance }: Harness): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) {
    await realTime(1);
    await advance(1);
  }
}
