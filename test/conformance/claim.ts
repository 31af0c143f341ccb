import assert from "node:assert/strict";
import {
  ascending,
  at,
  claim,
  claimIds,
  claimOne,
  claimReply,
  end,
  type Group,
  HOUR,
  idsOf,
  insertMany,
  insertOne,
  MINUTE,
  newJob,
  newJobs,
  oneOfEach,
  record,
  register,
  snapshot,
  stateOf,
  subscribe,
} from "./support.ts";

export const claimCases: Group = {
  async Order({ store }) {
    await register(store);
    const priorities = [0, 5, -5, 5, 0, 32_767, -32_768];
    const ids = await insertMany(
      store,
      priorities.map((priority) => newJob({ priority })),
    );
    const expected = [5, 1, 3, 0, 4, 2, 6].map((index) => at(ids, index));
    for (const id of expected.slice(0, 4)) assert.equal((await claimOne(store)).id, id);
    assert.deepEqual(await claimIds(store, { limit: 3 }), expected.slice(4));
  },

  /** The order holds across the lanes of several kinds, and for jobs that were scheduled or retried. */
  async OrderAcrossKinds({ store, advance }) {
    await register(store);
    const jobs = [
      newJob({ kind: "a", priority: 1 }),
      newJob({ kind: "b", priority: 2 }),
      newJob({ kind: "c", priority: 1, delay: MINUTE }),
      newJob({ kind: "a", priority: 2, delay: HOUR }),
      newJob({ kind: "b", priority: 1 }),
    ];
    const ids = await insertMany(store, jobs);
    const retried = await claimOne(store, { kinds: ["a"] });
    await end(store, retried, "scheduled", { delay: MINUTE, reason: "retry" });
    await advance(2 * HOUR);
    const expected = [1, 3, 0, 2, 4].map((index) => at(ids, index));
    assert.deepEqual(await claimIds(store, { kinds: ["c", "b", "a"] }), expected);
  },

  async Limit({ store }) {
    await register(store);
    const ids = await insertMany(store, newJobs(10));
    const claimed: number[] = [];
    for (const expected of [3, 3, 3, 1, 0]) {
      const jobs = await claim(store, { limit: 3 });
      assert.equal(jobs.length, expected);
      for (const job of jobs) assert.equal(job.attempt, 1);
      claimed.push(...idsOf(jobs));
    }
    assert.deepEqual(claimed, ids);
  },

  async Queues({ store }) {
    await register(store);
    const low = await insertMany(store, [newJob({ queue: "first", priority: -9 }), newJob({ queue: "first" })]);
    const high = await insertMany(store, [newJob({ queue: "second", priority: 9 }), newJob({ queue: "second" })]);
    await insertOne(store, { queue: "third", priority: 99 });
    const queues = ["first", "unknown", "second", "first"];
    assert.deepEqual(await claimIds(store, { queues, limit: 3 }), [at(low, 1), at(low, 0), at(high, 0)]);
    assert.deepEqual(await claimIds(store, { queues }), [at(high, 1)]);
    assert.deepEqual(await claimIds(store, { queues: ["unknown"] }), []);
    assert.deepEqual(await claimReply(store, { queues: [] }), { known: true, jobs: [], nextIn: null });
  },

  async Kinds({ store }) {
    await register(store);
    const [a, b, c, d] = await insertMany(
      store,
      ["a", "b", "c", "d"].map((kind) => newJob({ kind })),
    );
    assert.deepEqual(await claimIds(store, { kinds: ["none"] }), []);
    assert.deepEqual(await claimIds(store, { kinds: ["c", "none", "a", "c"] }), [a, c]);
    assert.deepEqual(await claimIds(store, { kinds: ["a", "c"] }), []);
    assert.deepEqual(await claimIds(store, { kinds: [] }), [b, d]);
  },

  /** A queue that is full of foreign jobs, all of them more urgent. */
  async ForeignKinds({ store }) {
    await register(store);
    await insertMany(store, newJobs(2_000, { kind: "foreign", priority: 9 }));
    await insertMany(store, newJobs(2_000, { kind: "foreign", priority: 9, delay: HOUR }));
    const own = await insertMany(store, newJobs(5, { kind: "own" }));
    const reply = await claimReply(store, { kinds: ["own"], limit: 10 });
    assert.deepEqual(idsOf(reply.jobs), own);
    assert.equal(reply.nextIn, null);
  },

  async ManyKinds({ store }) {
    await register(store);
    const kinds = Array.from({ length: 200 }, (_, n) => `kind${n}`);
    const ids = await insertMany(
      store,
      [...kinds, ...kinds].map((kind) => newJob({ kind })),
    );
    assert.deepEqual(await claimIds(store, { kinds: kinds.toReversed(), limit: 250 }), ids.slice(0, 250));
  },

  async Paused({ store }) {
    await register(store);
    const paused = await insertOne(store, { queue: "a" });
    const other = await insertOne(store, { queue: "b" });
    await insertOne(store, { queue: "a", delay: MINUTE });
    await store.pauseQueue("a");
    const beat = { server: "s1", running: 0 };
    assert.deepEqual((await store.heartbeat(beat)).pausedQueues, ["a"]);
    const reply = await claimReply(store, { queues: ["a", "b"] });
    assert.deepEqual(idsOf(reply.jobs), [other]);
    assert.equal(reply.nextIn, null, "a paused queue gives a server nothing to wait for");
    await store.resumeQueue("a");
    assert.deepEqual((await store.heartbeat(beat)).pausedQueues, []);
    assert.deepEqual(await claimIds(store, { queues: ["a", "b"] }), [paused]);
  },

  async OnlyEnqueued({ store }) {
    await register(store);
    const { enqueued } = await oneOfEach(store);
    const queues = ["default", "running"];
    assert.deepEqual(await claimIds(store, { queues }), [enqueued]);
    assert.deepEqual(await claimIds(store, { queues }), []);
  },

  async Concurrent({ store }) {
    await register(store);
    const ids = await insertMany(store, newJobs(2_000));
    const claimed: number[] = [];
    const claimer = async (): Promise<void> => {
      while (true) {
        const { jobs, nextIn } = await claimReply(store, { limit: 10 });
        claimed.push(...idsOf(jobs));
        // Few or none while others are at it; null says that there is nothing left.
        if (nextIn === null) return;
      }
    };
    await Promise.all(Array.from({ length: 16 }, claimer));
    assert.deepEqual(ascending(claimed), ids, "each job exactly once");
  },

  async Idle(harness) {
    const { store } = harness;
    await register(store);
    await oneOfEach(store, { kind: "other" });
    await store.pauseQueue("paused");
    await insertOne(store, { queue: "paused" });
    await insertOne(store, { kind: "task", delay: HOUR });
    const subscriber = await subscribe(harness);
    const before = await snapshot(store);
    for (let n = 0; n < 3; n++) {
      const { jobs } = await claimReply(store, { kinds: ["task"], queues: ["default", "paused", "running"] });
      assert.deepEqual(jobs, []);
    }
    assert.deepEqual(await snapshot(store), before, "finding nothing changes nothing");
    await store.pauseQueue("last");
    await subscriber.next((event) => event.type === "queue" && event.queue === "last");
    const kinds = subscriber.events.map(({ type }) => type);
    assert.deepEqual(kinds, ["connected", "queue"], "finding nothing is no event");
    await subscriber.stop();
  },

  // The reference lets anyone claim; here a claim needs a server that is registered and was not declared dead.
  async UnknownServer({ store }) {
    const id = await insertOne(store);
    assert.deepEqual(await claimReply(store, { server: "nobody" }), { known: false, jobs: [], nextIn: null });
    assert.equal(await stateOf(store, id), "enqueued");
    await register(store);
    await store.unregister("s1");
    assert.deepEqual(await claimReply(store), { known: false, jobs: [], nextIn: null });
    for (const server of ["", "__proto__", "S1", "s1 "])
      assert.equal((await claimReply(store, { server })).known, false);
    assert.equal(await stateOf(store, id), "enqueued");
  },

  async DeadServer({ store, advance }) {
    await register(store, "s1", { deadAfter: MINUTE });
    const id = await insertOne(store);
    await insertOne(store);
    await advance(HOUR);
    // Silent is not dead: nobody has decided it, so nobody has taken its jobs away.
    assert.equal((await claimOne(store)).id, id);
    await store.orphans(10);
    const reply = await claimReply(store);
    assert.deepEqual([reply.known, reply.jobs], [false, []]);
    assert.equal((await store.counts()).enqueued, 1);
  },

  async ClaimGrows({ store }) {
    await register(store);
    const id = await insertOne(store);
    let last = 0;
    for (let attempt = 1; attempt <= 5; attempt++) {
      const job = await claimOne(store);
      assert.deepEqual([job.id, job.attempt], [id, attempt]);
      assert.ok(job.claim > last, "the claim number grows");
      assert.equal((await record(store, id)).claim, job.claim);
      last = job.claim;
      await end(store, job, "enqueued");
    }
  },
};
