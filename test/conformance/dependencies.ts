/** Jobs that wait for other jobs: what they wait for, and how they go on. */
import assert from "node:assert/strict";
import {
  type InsertedJob,
  type JobState,
  type NewJob,
  PARENT_STATES,
  type Parent,
  type ParentState,
} from "../../engine/store.ts";
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
} from "./dependencies-support.ts";
import {
  assertBetween,
  assertNear,
  at,
  claim,
  claimIds,
  claimOne,
  clock,
  end,
  ended,
  type Group,
  HOUR,
  idsOf,
  insertMany,
  insertOne,
  MINUTE,
  newJob,
  only,
  reasonsOf,
  record,
  refused,
  register,
  running,
  SECOND,
  SLACK,
  snapshot,
  stateOf,
  subscribe,
} from "./support.ts";
import { unique } from "./unique.ts";

/** What each end of a parent means to a child. */
const MASKS: readonly [on: readonly ParentState[], end: ParentState, expected: JobState][] = [
  [SUCCEEDED, "succeeded", "enqueued"],
  [SUCCEEDED, "failed", "awaiting"],
  [SUCCEEDED, "deleted", "deleted"],
  [FAILED, "succeeded", "deleted"],
  [FAILED, "failed", "enqueued"],
  [FAILED, "deleted", "deleted"],
  [DELETED, "succeeded", "deleted"],
  [DELETED, "failed", "awaiting"],
  [DELETED, "deleted", "enqueued"],
  [PARENT_STATES, "succeeded", "enqueued"],
  [PARENT_STATES, "failed", "enqueued"],
  [PARENT_STATES, "deleted", "enqueued"],
  [["succeeded", "failed"], "failed", "enqueued"],
];

export const dependenciesCases: Group = {
  async Continuation({ store }) {
    await register(store);
    const head = await running(store);
    const children = await insertMany(store, [childOf(parent(head.id)), childOf(parent(head.id))]);
    for (const id of children) {
      const child = await record(store, id);
      assert.deepEqual([child.state, child.pendingParents, child.parents], ["awaiting", 1, [head.id]]);
    }
    assert.deepEqual((await record(store, head.id)).children, children);
    assert.deepEqual(await claimIds(store), []);
    assert.equal(await store.sweep(100), 0);
    await end(store, head, "succeeded");
    assert.deepEqual(await statesOf(store, children), ["enqueued", "enqueued"]);
    const { pendingParents, parents } = await record(store, at(children, 0));
    assert.deepEqual([pendingParents, parents], [0, [head.id]]);
    const claimed = await claim(store);
    assert.deepEqual(idsOf(claimed), children);
    assert.deepEqual(at(claimed, 0).parents, [head.id]);
    assert.deepEqual((await record(store, head.id)).children, children, "also of a job in the archive");
  },

  async Masks({ store }) {
    await register(store);
    for (const [on, state, expected] of MASKS) {
      const head = await running(store);
      const child = await insertChild(store, parent(head.id, on));
      await end(store, head, state);
      assert.equal(await stateOf(store, child), expected, `on ${on} after ${state}`);
      const { history, pendingParents, finalizedAt } = await record(store, child);
      assert.equal(pendingParents, expected === "awaiting" ? 1 : 0);
      const reasons = history.map(({ reason }) => reason);
      assert.deepEqual(reasons, expected === "deleted" ? [`parent ${head.id} ${state}`] : []);
      assert.equal(finalizedAt !== null, expected === "deleted");
    }
  },

  async FailedParent({ store }) {
    await register(store);
    const head = await running(store);
    const child = await insertChild(store, parent(head.id));
    await end(store, head, "failed");
    assert.equal(await store.sweep(100), 0);
    assert.equal(await stateOf(store, child), "awaiting");
    await store.requeue({ ids: [head.id] });
    assert.equal(await stateOf(store, child), "awaiting");
    await end(store, await claimOne(store, { queues: ["running"] }), "succeeded");
    assert.equal(await stateOf(store, child), "enqueued");
  },

  async FinalParent({ store }) {
    await register(store);
    const s = await ended(store, "succeeded");
    const f = await ended(store, "failed");
    const d = await ended(store, "deleted");
    const live = await insertOne(store, { queue: "live" });
    const cases: readonly [parents: readonly Parent[], state: JobState, pending: number][] = [
      [[parent(s)], "enqueued", 0],
      [[parent(f)], "awaiting", 1],
      [[parent(d)], "deleted", 0],
      [[parent(f, FAILED)], "enqueued", 0],
      [[parent(s, PARENT_STATES), parent(f, PARENT_STATES), parent(d, PARENT_STATES)], "enqueued", 0],
      [[parent(s), parent(live)], "awaiting", 1],
      [[parent(f), parent(live), parent(d, DELETED)], "awaiting", 2],
      [[parent(live), parent(s, DELETED)], "deleted", 0],
      [[parent(s, FAILED)], "deleted", 0],
    ];
    const before = await store.counts();
    const now = await clock(store);
    for (const [parents, state, pending] of cases) {
      const inserted = only(await store.insert([childOf(...parents)]));
      assert.equal(inserted.state, state);
      const child = await record(store, inserted.id);
      assert.deepEqual([child.state, child.pendingParents], [state, pending]);
      assert.deepEqual(
        child.parents,
        parents.map((named) => ("id" in named ? named.id : 0)),
      );
      if (state !== "deleted") continue;
      const by = parents.length === 2 ? s : child.parents[0];
      assert.deepEqual(await reasonsOf(store, inserted.id), [`parent ${by} ${by === d ? "deleted" : "succeeded"}`]);
      assertNear(child.finalizedAt, now, "finalizedAt");
    }
    const after = await store.counts();
    assert.equal(after.deleted, before.deleted + 3, "each is counted");
  },

  async Chain({ store }) {
    await register(store);
    const ids = await insertMany(store, [newJob(), childOf(position(0)), childOf(position(1))]);
    for (const id of ids) {
      assert.deepEqual(await claimIds(store, { queues: ["other"] }), []);
      const job = only(await claim(store));
      assert.equal(job.id, id);
      await end(store, job, "succeeded");
    }
    assert.deepEqual(await statesOf(store, ids), ["succeeded", "succeeded", "succeeded"]);
  },

  async Index({ store }) {
    await register(store);
    const head = await running(store);
    const ids = await insertMany(store, [
      childOf(position(1), parent(head.id)),
      childOf(position(2)),
      newJob({ queue: "first" }),
    ]);
    const [last = 0, middle = 0, first = 0] = ids;
    assert.ok(last < middle && middle < first, "ids go by position");
    const { parents, pendingParents } = await record(store, last);
    assert.deepEqual([[...parents].sort(), pendingParents], [[head.id, middle], 2]);
    assert.deepEqual((await record(store, first)).children, [middle]);
    await end(store, await claimOne(store, { queues: ["first"] }), "succeeded");
    await end(store, await claimOne(store), "succeeded");
    assert.equal((await record(store, last)).pendingParents, 1);
    await end(store, head, "succeeded");
    await assert.equal((await claimOne(store)).id, last);
  },

  async Invalid({ store }) {
    await register(store);
    const head = await running(store);
    const before = await snapshot(store);
    await refused(store.insert([newJob(), childOf(position(1))]), "jobs[1].parents[0].index");
    await refused(store.insert([childOf(position(2)), newJob()]), "jobs[0].parents[0].index");
    await refused(store.insert([childOf(position(-1)), newJob()]), "jobs[0].parents[0].index");
    await refused(store.insert([childOf(position(1)), childOf(position(0))]), "jobs[0].parents");
    await refused(
      store.insert([newJob(), childOf(position(2)), childOf(position(3)), childOf(position(0), position(1))]),
      "jobs[1].parents",
    );
    const key = unique();
    const throughKey = [{ ...childOf(position(1)), unique: key }, childOf(position(2)), newJob({ unique: key })];
    await refused(store.insert(throughKey), "jobs[0].parents");
    await refused(store.insert([childOf(parent(0))]), "jobs[0].parents[0].id");
    await refused(store.insert([childOf(parent(-3))]), "jobs[0].parents[0].id");
    await refused(store.insert([childOf(parent(head.id, []))]), "jobs[0].parents[0].on");
    await refused(store.insert([childOf(parent(head.id, ["enqueued" as "failed"]))]), "jobs[0].parents[0].on");
    assert.deepEqual(await snapshot(store), before);
  },

  async MissingParent({ store }) {
    const id = await insertOne(store);
    const before = await snapshot(store);
    const replacing = newJob({ args: "1", unique: unique({ onConflict: "replace" }) });
    const call = store.insert([newJob(), replacing, childOf(parent(id)), childOf(parent(id), parent(id + 99))]);
    await assert.rejects(call, { code: "not_found", message: /jobs\[3\].parents\[1\].* job 10\d/ });
    assert.deepEqual(await snapshot(store), before);
    assert.equal(only(await store.insert([replacing])).duplicate, false, "no key was taken either");
  },

  async Resume({ store, advance }) {
    await register(store);
    const start = await clock(store);
    const head = await running(store);
    const parents = [parent(head.id)];
    const ids = await insertMany(store, [
      newJob({ parents, delay: HOUR }),
      newJob({ parents, delay: MINUTE }),
      newJob({ parents, runAt: new Date(start - HOUR) }),
      newJob({ parents, runAt: new Date(start + 2 * HOUR) }),
    ]);
    assert.deepEqual(await statesOf(store, ids), ["awaiting", "awaiting", "awaiting", "awaiting"]);
    await advance(10 * MINUTE);
    const released = await clock(store);
    await end(store, head, "succeeded");
    assert.deepEqual(await statesOf(store, ids), ["scheduled", "enqueued", "enqueued", "scheduled"]);
    const [delayed = 0, due = 0, past = 0, exact = 0] = ids;
    assertNear((await record(store, delayed)).runAt, start + HOUR, "a delay counts from the insert");
    for (const id of [due, past]) assertNear((await record(store, id)).runAt, released, "due when it was released");
    assert.deepEqual((await record(store, exact)).runAt, new Date(start + 2 * HOUR));
    assertBetween(at(await store.queues(), 0).latency, 0, SLACK, "waiting for parents is not waiting for a worker");
    await advance(HOUR);
    assert.deepEqual(await claimIds(store), [delayed, due, past]);
  },

  async SeveralDemands({ store }) {
    await register(store);
    const head = await running(store);
    const ids = await insertMany(store, [
      childOf(parent(head.id, PARENT_STATES), parent(head.id)),
      childOf(parent(head.id), parent(head.id, PARENT_STATES), parent(head.id)),
    ]);
    for (const id of ids) {
      const child = await record(store, id);
      assert.deepEqual([child.parents, child.pendingParents], [[head.id], 1]);
    }
    await end(store, head, "failed");
    assert.deepEqual(await statesOf(store, ids), ["awaiting", "awaiting"], "all demands must be met");
    await store.delete({ ids: [head.id] });
    assert.deepEqual(await statesOf(store, ids), ["deleted", "deleted"]);
  },

  async Unique({ store, advance }) {
    await register(store);
    const head = await running(store);
    const child = { ...childOf(parent(head.id)), unique: unique() };
    const { id } = only(await store.insert([child]));
    const replace = unique({ onConflict: "replace" });
    const said = async (job: NewJob): Promise<Omit<InsertedJob, "id">> => {
      const { id: holder, ...rest } = only(await store.insert([job]));
      assert.equal(holder, id);
      return rest;
    };
    assert.deepEqual(await said(newJob({ unique: unique() })), { state: "awaiting", duplicate: true, replaced: false });
    const debounced = newJob({ delay: HOUR, unique: unique({ onConflict: "debounce" }) });
    assert.deepEqual(await said(debounced), { state: "awaiting", duplicate: true, replaced: false });
    const runAt = new Date((await clock(store)) + 3 * HOUR);
    const newer = newJob({ args: '"new"', runAt, unique: replace });
    assert.deepEqual(await said(newer), { state: "awaiting", duplicate: true, replaced: true });
    const replaced = await record(store, id);
    assert.deepEqual([replaced.args, replaced.runAt, replaced.parents], ['"new"', runAt, [head.id]]);
    // A duplicate in the same call stands for the holder.
    const [, follower] = await store.insert([newJob({ unique: unique() }), childOf(position(0))]);
    assert.deepEqual((await record(store, follower?.id ?? 0)).parents, [id]);
    await end(store, head, "deleted");
    assert.deepEqual(await statesOf(store, [id, follower?.id ?? 0]), ["deleted", "deleted"]);
    assert.equal(only(await store.insert([newJob({ unique: unique() })])).duplicate, false, "the key is free");
    // Also of a holder that retention has removed.
    const windowed = unique({ key: "d".repeat(32), window: HOUR });
    const gone = await running(store, { unique: windowed });
    await end(store, gone, "succeeded");
    await advance(MINUTE);
    await store.prune({ ...KEEP, succeeded: SECOND });
    const results = await store.insert([
      newJob({ unique: windowed }),
      childOf(position(0)),
      childOf(position(0, DELETED)),
    ]);
    assert.deepEqual(
      results.map(({ state }) => state),
      ["deleted", "deleted", "enqueued"],
    );
    assert.deepEqual(await reasonsOf(store, results[1]?.id ?? 0), [`parent ${gone.id} pruned`]);
  },

  async Outputs({ store }) {
    await register(store);
    const [output, none, failed, live] = [
      await running(store),
      await running(store),
      await running(store),
      await running(store),
    ];
    const deleted = await running(store);
    await end(store, output, "succeeded", { output: '{"a": 1.0}' });
    await end(store, none, "succeeded");
    await end(store, failed, "failed", { output: "1" });
    await end(store, deleted, "deleted", { output: "1" });
    const all = [output, none, failed, live, deleted].map(({ id }) => id);
    assert.deepEqual(await store.outputs([...all, ...all, 999_999]), new Map([[output.id, '{"a": 1.0}']]));
    assert.deepEqual(await store.outputs([]), new Map());
  },

  async Ready(harness) {
    const { store } = harness;
    await register(store);
    const first = await running(store);
    const second = await insertOne(store, { queue: "second" });
    await insertMany(store, [newJob({ queue: "a", parents: [parent(first.id)] })]);
    await insertMany(store, [newJob({ queue: "b", parents: [parent(second, DELETED)] })]);
    const subscriber = await subscribe(harness);
    const known = subscriber.events.length;
    await end(store, first, "succeeded");
    await subscriber.next((event) => event.type === "ready" && (event.queue === "a" || event.queue === null));
    await store.delete({ ids: [second] });
    await subscriber.next((event) => event.type === "ready" && (event.queue === "b" || event.queue === null));
    assert.ok(subscriber.events.length > known);
    await subscriber.stop();
  },
};
