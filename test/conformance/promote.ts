/** How scheduled jobs become ready: a claim moves the due ones of its own lanes and says when to look again. */
import assert from "node:assert/strict";
import {
  ascending,
  assertBetween,
  assertNear,
  at,
  claimIds,
  claimReply,
  clock,
  type Group,
  HOUR,
  idsOf,
  insertMany,
  insertOne,
  MINUTE,
  newJob,
  newJobs,
  register,
  SLACK,
  snapshot,
} from "./support.ts";

export const promoteCases: Group = {
  /** A server that is told `0` for a paused queue would ask again without end. */
  async PausedDue({ store, advance }) {
    await register(store);
    const id = await insertOne(store, { delay: MINUTE });
    await store.pauseQueue("default");
    await advance(HOUR);
    const before = await snapshot(store);
    assert.deepEqual(await claimReply(store), { known: true, jobs: [], nextIn: null });
    assert.deepEqual(await snapshot(store), before);
    await store.resumeQueue("default");
    assert.deepEqual(await claimIds(store), [id]);
  },

  // The reference moves due jobs by a verb of its own; here a claim does it for its own lanes and says when to look again.
  async Promote({ store, advance }) {
    await register(store);
    assert.deepEqual(await claimReply(store), { known: true, jobs: [], nextIn: null });
    const before = await clock(store);
    const [first, second] = await insertMany(store, [newJob({ delay: HOUR }), newJob({ delay: 3 * HOUR })]);
    const early = await claimReply(store);
    assert.deepEqual(early.jobs, []);
    assertBetween(early.nextIn, HOUR - SLACK, HOUR, "time to the first");
    await advance(HOUR);
    const due = await claimReply(store);
    assert.deepEqual(idsOf(due.jobs), [first]);
    assertBetween(due.nextIn, 2 * HOUR - SLACK, 2 * HOUR, "time to the second");
    assertNear(at(due.jobs, 0).runAt, before + HOUR, "runAt of a promoted job");
    await advance(2 * HOUR);
    const last = await claimReply(store);
    assert.deepEqual(idsOf(last.jobs), [second]);
    assert.equal(last.nextIn, null, "nothing is scheduled any more");
  },

  async PromoteLimit({ store, advance }) {
    await register(store);
    const ids = await insertMany(store, newJobs(10, { delay: HOUR }));
    await advance(HOUR);
    const claimed: number[] = [];
    for (const [expected, nextIn] of [
      [3, 0],
      [3, 0],
      [3, 0],
      [1, null],
      [0, null],
    ] as const) {
      const reply = await claimReply(store, { limit: 3 });
      assert.equal(reply.jobs.length, expected);
      assert.equal(reply.nextIn, nextIn);
      claimed.push(...idsOf(reply.jobs));
    }
    assert.deepEqual(claimed, ids);
  },

  async PromoteConcurrent({ store, advance }) {
    await register(store);
    const ids = await insertMany(store, newJobs(300, { delay: HOUR }));
    await advance(HOUR);
    const claimed: number[] = [];
    const claimer = async (): Promise<void> => {
      while (true) {
        const { jobs, nextIn } = await claimReply(store, { limit: 25 });
        claimed.push(...idsOf(jobs));
        if (nextIn === null) return;
      }
    };
    await Promise.all(Array.from({ length: 8 }, claimer));
    assert.deepEqual(ascending(claimed), ids, "each job exactly once");
  },

  /** A backlog that came due together, as after a night without servers. */
  async PromoteMany({ store, advance }) {
    await register(store);
    await insertMany(store, newJobs(5_000, { delay: HOUR }));
    const urgent = await insertMany(store, newJobs(10, { delay: 2 * HOUR, priority: 1 }));
    await advance(3 * HOUR);
    const claimed: number[] = [];
    for (let calls = 0; claimed.length < 5_010; calls++) {
      assert.ok(calls < 100, "500 at a time");
      const { jobs, nextIn } = await claimReply(store, { limit: 500 });
      claimed.push(...idsOf(jobs));
      assert.equal(nextIn, claimed.length < 5_010 ? 0 : null);
    }
    assert.equal(new Set(claimed).size, 5_010);
    assert.ok(urgent.every((id) => claimed.includes(id)));
  },

  async NextIn({ store }) {
    await register(store);
    await insertOne(store, { kind: "foreign", delay: MINUTE });
    await insertOne(store, { queue: "foreign", delay: MINUTE });
    const query = { kinds: ["own", "also"], queues: ["default", "other"] };
    assert.equal((await claimReply(store, query)).nextIn, null, "foreign jobs are nothing to wait for");
    await insertOne(store, { kind: "own", delay: 2 * HOUR });
    await insertOne(store, { kind: "also", queue: "other", delay: HOUR });
    assertBetween((await claimReply(store, query)).nextIn, HOUR - SLACK, HOUR, "the earliest of own lanes");
    assertBetween((await claimReply(store)).nextIn, MINUTE - SLACK, MINUTE, "any kind");
    const [first] = await insertMany(store, [newJob({ kind: "own" }), newJob({ kind: "own", queue: "other" })]);
    const full = await claimReply(store, { ...query, limit: 1 });
    assert.deepEqual(idsOf(full.jobs), [first]);
    assert.equal(full.nextIn, 0, "more is ready");
    const rest = await claimReply(store, { ...query, limit: 2 });
    assert.equal(rest.jobs.length, 1);
    assertBetween(rest.nextIn, HOUR - SLACK, HOUR, "then the scheduled one");
  },
};
