/** Jobs whose parents can no longer end as they must: they are deleted, and so on down the line. Many jobs at once. */
import assert from "node:assert/strict";
import { CHILDREN_SHOWN } from "../../engine/rules/limits.ts";
import type { ClaimedJob } from "../../engine/store.ts";
import {
  childOf,
  DELETED,
  FAILED,
  insertChild,
  KEEP,
  parent,
  position,
  SUCCEEDED,
  statesOf,
  sweepAll,
} from "./dependencies-support.ts";
import {
  at,
  claimIds,
  claimOne,
  clock,
  end,
  ended,
  finish,
  type Group,
  HOUR,
  idsOf,
  insertMany,
  insertOne,
  MINUTE,
  newJob,
  newJobs,
  only,
  outcome,
  reasonsOf,
  record,
  register,
  running,
  stateOf,
} from "./support.ts";
import { unique } from "./unique.ts";

export const cascadesCases: Group = {
  async Cascade({ store }) {
    const chain = await insertMany(store, [newJob(), ...Array.from({ length: 5 }, (_, n) => childOf(position(n)))]);
    const side = await insertChild(store, parent(at(chain, 3), DELETED));
    assert.equal(await store.delete({ ids: [at(chain, 0)] }), 1, "only what was asked for is counted");
    await sweepAll(store);
    assert.deepEqual(
      await statesOf(store, chain),
      chain.map(() => "deleted"),
    );
    for (let n = 1; n < chain.length; n++) {
      assert.deepEqual(await reasonsOf(store, at(chain, n)), [`parent ${at(chain, n - 1)} deleted`]);
    }
    assert.equal(await stateOf(store, side), "enqueued");
    assert.equal((await store.counts()).deleted, 6, "each once");
  },

  async Deep({ store }) {
    const length = 5_000;
    const jobs = Array.from({ length }, (_, n) => (n === 0 ? newJob() : childOf(position(n - 1))));
    const chain = await insertMany(store, jobs);
    const last = await insertChild(store, parent(at(chain, -1), DELETED));
    await store.delete({ ids: [at(chain, 0)] });
    await sweepAll(store);
    assert.equal(await stateOf(store, last), "enqueued");
    const { awaiting, deleted } = await store.counts();
    assert.deepEqual({ awaiting, deleted }, { awaiting: 0, deleted: length });
  },

  async Wide({ store }) {
    await register(store);
    const head = await running(store);
    const children = await insertMany(store, newJobs(3_000, { parents: [parent(head.id)] }));
    assert.deepEqual((await record(store, head.id)).children, children.slice(0, CHILDREN_SHOWN));
    const failing = await running(store);
    const other = await insertChild(store, parent(failing.id, FAILED));
    await end(store, head, "succeeded");
    // What is left of the first may not hold up, or be mixed up with, what happens meanwhile.
    await end(store, failing, "failed");
    await store.requeue({ ids: [failing.id] });
    const again = await claimOne(store, { queues: ["running"] });
    assert.equal(again.id, failing.id);
    await end(store, again, "succeeded");
    await sweepAll(store);
    const { awaiting, enqueued } = await store.counts();
    assert.deepEqual({ awaiting, enqueued }, { awaiting: 0, enqueued: 3_001 });
    assert.equal(await stateOf(store, other), "enqueued", "it had failed first");
    assert.equal(await store.sweep(100), 0);
  },

  async FanIn({ store }) {
    await register(store);
    const heads: ClaimedJob[] = [];
    for (let n = 0; n < 64; n++) heads.push(await running(store));
    const children = await insertMany(
      store,
      Array.from({ length: 4 }, (_, n) => childOf(...heads.slice(n * 16, n * 16 + 16).map(({ id }) => parent(id)))),
    );
    for (const id of children) assert.equal((await record(store, id)).pendingParents, 16);
    const finishOne = async (job: ClaimedJob): Promise<void> => {
      for (let tries = 0; tries < 1_000; tries++) {
        const { status } = await finish(store, job, "succeeded");
        if (status === "applied") return;
        assert.equal(status, "busy");
      }
      assert.fail("busy for ever");
    };
    await Promise.all(heads.map(finishOne));
    assert.deepEqual(await claimIds(store), children, "each once");
    assert.deepEqual(await claimIds(store), []);
    assert.equal(await store.sweep(100), 0);
  },

  async BornDoomed({ store }) {
    await register(store);
    const dead = await ended(store, "deleted");
    const key = unique();
    const results = await store.insert([
      childOf(position(1)),
      { ...childOf(parent(dead)), unique: key },
      childOf(position(1, DELETED)),
      { ...childOf(position(0), position(4)), unique: unique({ key: "c".repeat(32), window: HOUR }) },
      newJob(),
    ]);
    const states = results.map(({ state }) => state);
    assert.deepEqual(states, ["deleted", "deleted", "enqueued", "deleted", "enqueued"]);
    const [first = 0, second = 0] = idsOf(results);
    assert.deepEqual(await reasonsOf(store, first), [`parent ${second} deleted`]);
    // Keys were never held.
    for (const { unique: each } of [{ unique: key }, { unique: unique({ key: "c".repeat(32) }) }]) {
      assert.equal(only(await store.insert([newJob({ unique: each })])).duplicate, false);
    }
  },

  async DeleteParent({ store }) {
    await register(store);
    const head = await insertOne(store, { queue: "head" });
    const other = await running(store);
    const ids = await insertMany(store, [
      childOf(parent(head)),
      childOf(parent(head, DELETED)),
      childOf(parent(head), parent(other.id)),
      childOf(parent(other.id)),
    ]);
    const [success = 0, deletion = 0, both = 0, awaiting = 0] = ids;
    assert.equal(await store.delete({ ids: [head, awaiting] }), 2);
    assert.deepEqual(await statesOf(store, ids), ["deleted", "enqueued", "deleted", "deleted"]);
    for (const id of [success, both]) assert.deepEqual(await reasonsOf(store, id), [`parent ${head} deleted`]);
    assert.deepEqual(await reasonsOf(store, awaiting), ["deleted"]);
    assert.equal((await record(store, awaiting)).pendingParents, 0);
    await end(store, other, "succeeded");
    assert.deepEqual(await statesOf(store, [both, awaiting]), ["deleted", "deleted"], "that stays so");
    assert.equal((await store.counts()).deleted, 4);
    assert.deepEqual(await claimIds(store), [deletion]);
    // An operator may run it all the same.
    assert.equal(await store.requeue({ ids: [both] }), 1);
    const { state, pendingParents, parents } = await record(store, both);
    assert.deepEqual([state, pendingParents, [...parents].sort()], ["enqueued", 0, [head, other.id].sort()]);
  },

  /** A deleted child that an operator runs all the same has nothing more to do with its parents. */
  async RequeuedChild({ store }) {
    await register(store);
    for (const deleteBy of ["parent", "operator"] as const) {
      const [first, second] = [await running(store), await running(store)];
      const child = await insertChild(store, parent(first.id), parent(second.id));
      if (deleteBy === "parent") await end(store, first, "deleted");
      else await store.delete({ ids: [child] });
      assert.equal(await store.requeue({ ids: [child] }), 1);
      const job = await claimOne(store);
      assert.equal(job.id, child);
      await end(store, second, "succeeded");
      if (deleteBy === "operator") await end(store, first, "deleted");
      await sweepAll(store);
      assert.equal(await stateOf(store, child), "processing", deleteBy);
      await end(store, job, "succeeded");
    }
  },

  async PrunedChild({ store, advance }) {
    await register(store);
    const head = await insertOne(store, { queue: "head" });
    const failed = await running(store, { queue: "failed" });
    const [gone = 0, stays = 0] = await insertMany(store, [childOf(parent(head)), childOf(parent(head))]);
    const last = only(await insertMany(store, [newJob({ queue: "last", parents: [parent(failed.id, FAILED)] })]));
    await end(store, failed, "failed");
    await end(store, await claimOne(store, { queues: ["last"] }), "failed");
    await store.delete({ ids: [gone] });
    await advance(HOUR);
    assert.equal(await store.prune({ ...KEEP, deleted: MINUTE }), 1);
    assert.deepEqual((await record(store, head)).children, [stays]);
    await store.requeue({ ids: [failed.id] });
    assert.equal(await store.prune({ ...KEEP, failed: MINUTE }), 1);
    assert.equal(await store.job(last), null);
    assert.deepEqual((await record(store, failed.id)).children, []);
  },

  async DeleteFamily({ store }) {
    const chain = await insertMany(store, [newJob(), childOf(position(0)), childOf(position(1))]);
    assert.equal(await store.delete({ ids: chain }), 3);
    for (const id of chain) assert.deepEqual(await reasonsOf(store, id), ["deleted"]);
    assert.equal((await store.counts()).deleted, 3);
  },

  async RequeueAwaiting({ store }) {
    const [head = 0, child = 0] = await insertMany(store, [newJob(), childOf(position(0))]);
    assert.equal(await store.requeue({ ids: [child] }), 0);
    assert.equal(await store.requeue({ state: "awaiting" }), 0);
    assert.equal(await stateOf(store, child), "awaiting");
    assert.equal(await store.delete({ state: "awaiting" }), 1);
    assert.deepEqual(await statesOf(store, [head, child]), ["enqueued", "deleted"]);
  },

  async PrunedParent({ store, advance }) {
    await register(store);
    const head = await running(store);
    const ids = await insertMany(
      store,
      [SUCCEEDED, DELETED, FAILED].map((on) => childOf(parent(head.id, on))),
    );
    const grandchild = await insertChild(store, parent(at(ids, 0), DELETED));
    await end(store, head, "failed");
    assert.deepEqual(await statesOf(store, ids), ["awaiting", "awaiting", "enqueued"]);
    await advance(HOUR);
    const { deleted } = await store.counts();
    assert.equal(await store.prune({ ...KEEP, failed: MINUTE }), 1);
    assert.deepEqual(await statesOf(store, ids), ["deleted", "enqueued", "enqueued"]);
    assert.deepEqual(await reasonsOf(store, at(ids, 0)), [`parent ${head.id} pruned`]);
    assert.equal((await store.counts()).deleted, deleted + 1);
    assert.equal(await stateOf(store, grandchild), "enqueued");
    assert.deepEqual((await record(store, at(ids, 1))).parents, [head.id], "it is still named");
    assert.equal(await store.sweep(100), 0);
    // The children go in their turn.
    await advance(HOUR);
    assert.equal(await store.prune({ ...KEEP, deleted: MINUTE }), 1);
    assert.equal(await store.job(at(ids, 0)), null);
    assert.deepEqual(await statesOf(store, ids.slice(1)), ["enqueued", "enqueued"]);
  },

  async Stats({ store, advance }) {
    await register(store);
    await advance(MINUTE);
    const before = await clock(store);
    const head = await running(store);
    await insertMany(store, [childOf(parent(head.id)), childOf(position(0)), childOf(position(1))]);
    await store.finish("s1", [outcome(head, "deleted", { reason: "cancelled" })]);
    await sweepAll(store);
    const points = await store.series({ from: new Date(before), to: new Date(before + HOUR), step: HOUR });
    const total = points.reduce((sum, { deleted }) => sum + deleted, 0);
    assert.deepEqual([total, (await store.counts()).deleted], [4, 4], "each deletion once");
  },
};
