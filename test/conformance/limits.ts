/**
 * Limits. As in the reference, with these differences: admission and claim are one step, so a job that waits is `throttled`
 * until it is claimed, never `enqueued`, and no start time is reserved: what a case there says of reserved slots is said
 * here of when a claim gets the job (Held and Sweep are about such slots alone and have no counterpart). A job handed back
 * gives its place and its start up and waits for new ones.
 */
import assert from "node:assert/strict";
import type { ClaimedJob, JobId } from "../../engine/store.ts";
import { atOnce, NOTHING, paced, waiters } from "./limits-support.ts";
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
  newJobs,
  only,
  reasonsOf,
  record,
  refused,
  register,
  SECOND,
  stateOf,
  subscribe,
} from "./support.ts";

/** How long jobs wait when they are retried late. */
const LATER = 10 * MINUTE;

export const limitsCases: Group = {
  async Admission({ store }) {
    await register(store);
    const inserted = await store.insert(newJobs(5, { limit: atOnce(2) }));
    assert.deepEqual(
      inserted.map(({ state }) => state),
      Array.from({ length: 5 }, () => "throttled"),
    );
    const ids = inserted.map(({ id }) => id);
    const other = await insertOne(store, { limit: atOnce(1, "other") });
    assert.deepEqual(await claimIds(store), [at(ids, 0), at(ids, 1), other], "another key is independent");
    const { jobs, nextIn } = await claimReply(store);
    assert.deepEqual([jobs.length, nextIn], [0, null], "a full key opens when a job ends, not with time");
    for (const id of ids.slice(2)) assert.equal(await stateOf(store, id), "throttled");
    assert.equal((await record(store, at(ids, 0))).limitKey, "k");
  },

  /** The most urgent job of a key goes first, whenever it came, and the order holds among jobs without a limit too. */
  async Order({ store }) {
    await register(store);
    const limit = atOnce(1);
    const ids = await insertMany(
      store,
      [0, 5, 5, -1].map((priority) => newJob({ priority, limit })),
    );
    const order: JobId[] = [];
    const late: JobId[] = [];
    for (let n = 0; n < 5; n++) {
      const job = only(await claim(store));
      order.push(job.id);
      if (n === 1) late.push(await insertOne(store, { priority: 9, limit }));
      await end(store, job, "succeeded");
    }
    const [a, b, c, d] = ids;
    assert.deepEqual(order, [b, c, ...late, a, d]);
    const mixed = await insertMany(store, [
      newJob({ priority: 1, kind: "plain" }),
      newJob({ priority: 2, limit: atOnce(9) }),
      newJob({ priority: 1, limit: atOnce(9) }),
      newJob({ priority: 3, kind: "plain" }),
      newJob({ priority: 2, kind: "other", limit: atOnce(9) }),
    ]);
    const expected = [3, 1, 4, 0, 2].map((index) => at(mixed, index));
    assert.deepEqual(await claimIds(store, { limit: 2 }), expected.slice(0, 2));
    assert.deepEqual(await claimIds(store, { limit: 3 }), expected.slice(2));
  },

  /** Each way in which a job can stop running lets the next one start. */
  async Release(harness) {
    const { store, advance } = harness;
    await register(store);
    await register(store, "dying", { deadAfter: 1 });
    const exits: Record<string, (job: ClaimedJob) => Promise<unknown>> = {
      succeeded: (job) => end(store, job, "succeeded"),
      failed: (job) => end(store, job, "failed"),
      deleted: (job) => end(store, job, "deleted"),
      retry: (job) => end(store, job, "scheduled", { delay: LATER, reason: "retry" }),
      snooze: (job) => end(store, job, "scheduled", { delay: LATER, refund: true, reason: "snoozed" }),
      cancelled: async (job) => {
        assert.equal(await store.delete({ ids: [job.id] }), 1);
        assert.equal(await stateOf(store, job.id), "processing");
        await end(store, job, "scheduled", { delay: LATER }, "deleted");
      },
      orphaned: async () => {
        await advance(10);
        const [orphan] = await store.orphans(10);
        assert.ok(orphan);
        await end(store, orphan, "failed", { reason: "orphaned" });
      },
    };
    for (const [name, exit] of Object.entries(exits)) {
      const limit = atOnce(1, name);
      const [first, second] = await waiters(store, limit, 2, { queue: name });
      const server = name === "orphaned" ? "dying" : "s1";
      const job = await claimOne(store, { queues: [name], server });
      assert.equal(job.id, first);
      assert.deepEqual(await claimIds(store, { queues: [name] }), [], name);
      const subscriber = await subscribe(harness);
      await exit(job);
      await subscriber.next((event) => event.type === "ready" && event.queue === name && event.delay === 0);
      await subscriber.stop();
      assert.deepEqual(await claimIds(store, { queues: [name] }), [second], name);
    }
  },

  /** The newest insert rewrites the key's rule, at once; jobs that run are not touched. */
  async Max(harness) {
    const { store } = harness;
    await register(store);
    const ids = await waiters(store, atOnce(1), 5);
    const first = await claim(store);
    assert.equal(first.length, 1);
    const subscriber = await subscribe(harness);
    await insertOne(store, { limit: atOnce(3), queue: "other" });
    await subscriber.next((event) => event.type === "ready" && event.queue === "default" && event.delay === 0);
    await subscriber.stop();
    const more = await claim(store);
    assert.deepEqual(
      [...first, ...more].map(({ id }) => id),
      ids.slice(0, 3),
    );
    await insertOne(store, { limit: atOnce(1), queue: "other" });
    for (const job of [...first, ...more]) {
      assert.deepEqual(await claimIds(store), [], "lowered: none starts while as many run");
      await end(store, job, "succeeded");
    }
    assert.deepEqual(await claimIds(store), [ids[3]]);
    // Of several rules in one call the last one counts.
    await insertMany(store, [newJob({ limit: atOnce(9) }), newJob({ limit: atOnce(2) })]);
    assert.equal((await claim(store)).length, 1);
  },

  /** Also when the newest rule is the one that the key has already: an older job that comes to wait later changes nothing. */
  async NewestRuleIsTheSame({ store, advance }) {
    await register(store);
    const [first] = await waiters(store, atOnce(1), 1);
    await insertMany(store, [newJob({ limit: atOnce(9), delay: MINUTE }), newJob({ limit: atOnce(1) })]);
    await advance(MINUTE);
    assert.deepEqual(await claimIds(store), [first]);
    assert.deepEqual(await claimIds(store), [], "one at a time, though a job of the older rule is due now");
  },

  async Promote({ store, advance }) {
    await register(store);
    const ids = await waiters(store, atOnce(1), 2, { delay: MINUTE });
    const swept = await waiters(store, atOnce(1, "swept"), 2, { delay: MINUTE, queue: "swept" });
    for (const id of [...ids, ...swept]) assert.equal(await stateOf(store, id), "scheduled");
    assert.equal((await claimReply(store)).nextIn, MINUTE);
    await advance(MINUTE);
    const job = await claimOne(store);
    assert.equal(job.id, ids[0]);
    assert.equal(await stateOf(store, at(ids, 1)), "throttled");
    await end(store, job, "succeeded");
    assert.deepEqual(await claimIds(store), [ids[1]]);
    assert.equal(await store.sweep(10), 2);
    for (const id of swept) assert.equal(await stateOf(store, id), "throttled");
    assert.deepEqual(await claimIds(store, { queues: ["swept"] }), [swept[0]]);
  },

  async Requeue({ store }) {
    await register(store);
    const [first, second] = await waiters(store, atOnce(1), 2);
    await end(store, await claimOne(store), "failed");
    const job = await claimOne(store);
    assert.equal(job.id, second);
    assert.equal(await store.requeue({ ids: [first as JobId, job.id] }), 1);
    assert.equal(await stateOf(store, first as JobId), "throttled");
    assert.equal(at((await record(store, first as JobId)).history, -1).state, "throttled");
    assert.deepEqual(await claimIds(store), []);
    assert.equal(await store.requeue({ ids: [first as JobId] }), 0, "a throttled job is passed over");
    await end(store, job, "succeeded");
    assert.deepEqual(await claimIds(store), [first]);
  },

  /** A job that is handed back waits like the others; being older it goes first. */
  async Shutdown({ store }) {
    await register(store);
    const [first, second] = await waiters(store, atOnce(1), 2);
    for (const reason of ["shutdown", "lost", "late start"]) {
      const job = await claimOne(store);
      assert.equal(job.id, first);
      await end(store, job, "enqueued", { refund: true, reason }, "throttled");
      const { state, attempt } = await record(store, job.id);
      assert.deepEqual([state, attempt], ["throttled", 0]);
    }
    assert.deepEqual(await reasonsOf(store, first as JobId), ["shutdown", "lost", "late start"]);
    await end(store, await claimOne(store), "succeeded");
    assert.deepEqual(await claimIds(store), [second]);
  },

  /** A retry without a delay waits for a place like the others; being older it goes first. */
  async RetryNow({ store }) {
    await register(store);
    const [first, second] = await waiters(store, atOnce(1), 2);
    for (const delay of [0, -1, Number.NEGATIVE_INFINITY]) {
      const job = await claimOne(store);
      assert.equal(job.id, first);
      await end(store, job, "scheduled", { delay, reason: "retry" }, "throttled");
    }
    assert.equal(at((await record(store, first as JobId)).history, -1).state, "throttled");
    await end(store, await claimOne(store), "succeeded");
    assert.deepEqual(await claimIds(store), [second]);
  },

  async DeleteWaiting({ store, advance }) {
    await register(store);
    const limit = atOnce(1);
    const [running, waiting, last] = await waiters(store, limit, 3);
    const delayed = await insertOne(store, { limit, delay: MINUTE });
    const job = await claimOne(store);
    assert.equal(job.id, running);
    assert.equal(await store.delete({ ids: [waiting as JobId, delayed] }), 2);
    await advance(MINUTE);
    assert.deepEqual(await claimIds(store), []);
    await end(store, job, "succeeded");
    assert.deepEqual(await claimIds(store), [last], "neither more nor less");
    await waiters(store, atOnce(1, "gone"), 50);
    assert.equal(await store.delete({ state: "throttled" }), 50);
    assert.deepEqual(await claimReply(store), { known: true, jobs: [], nextIn: null });
  },

  async Pruned({ store, advance }) {
    await register(store, "s1", { deadAfter: 99 * HOUR });
    const limit = atOnce(2);
    const failed: JobId[] = [];
    await waiters(store, limit, 3);
    for (const job of [...(await claim(store)), ...(await claim(store))]) {
      failed.push(job.id);
      await end(store, job, "failed");
    }
    await end(store, await claimOne(store), "failed");
    await insertOne(store, { limit, delay: 5 * HOUR });
    await advance(2 * HOUR);
    assert.equal((await store.limits({})).length, 1);
    assert.equal(await store.prune(NOTHING), 1, "the key is counted");
    assert.deepEqual(await store.limits({}), []);
    assert.equal(await store.requeue({ state: "failed" }), 3);
    assert.equal((await claim(store)).length, 2, "by its own rule");
    await advance(3 * HOUR);
    assert.deepEqual(await claimIds(store), []);
    assert.equal(await store.prune(NOTHING), 0, "a key in use stays");
  },

  async Archived({ store }) {
    await register(store);
    await waiters(store, atOnce(1), 1);
    await end(store, await claimOne(store), "succeeded");
    await waiters(store, atOnce(3), 2);
    assert.equal(await store.requeue({ state: "succeeded" }), 1);
    assert.equal((await claim(store)).length, 3, "by the key's current rule");
  },

  /** An idle key is forgotten after an hour, and one of the same name starts afresh. */
  async Rows({ store, advance }) {
    await register(store, "s1", { deadAfter: 99 * HOUR });
    await waiters(store, atOnce(1), 1);
    await end(store, await claimOne(store), "succeeded");
    await advance(HOUR - SECOND);
    assert.equal(await store.prune(NOTHING), 0);
    await advance(2 * SECOND);
    assert.equal(await store.prune(NOTHING), 1);
    await waiters(store, atOnce(2), 3);
    assert.equal((await claim(store)).length, 2);
  },

  /** However jobs end and whoever claims, never more than `max` run; and all of them come to an end. */
  async Concurrent({ store }) {
    await register(store);
    const max = 3;
    const ids = await waiters(store, atOnce(max), 80);
    let left = 8 * 80;
    const worker = async (number: number): Promise<void> => {
      for (; left > 0; left--) {
        const [job] = await claim(store, { limit: 1, sequence: number });
        assert.ok((await store.counts()).processing <= max);
        if (job === undefined) continue;
        if (job.attempt === 1 && job.id % 4 === 0) await end(store, job, "enqueued", { reason: "retry" }, "throttled");
        else if (job.id % 4 === 1) await end(store, job, "failed");
        else await end(store, job, job.id % 4 === 2 ? "deleted" : "succeeded");
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, number) => worker(number)));
    for (const id of ids) assert.match(await stateOf(store, id), /succeeded|failed|deleted/);
  },

  async Limits({ store, advance }) {
    await register(store);
    assert.deepEqual(await store.limits({}), []);
    await waiters(store, paced(2, 1_000, 1, { key: "b", max: 5 }), 3);
    await waiters(store, atOnce(1, "c"), 2);
    await waiters(store, atOnce(1, "a"), 1, { delay: MINUTE });
    await advance(0);
    const start = (await store.now()).getTime();
    await claim(store);
    const all = await store.limits({});
    assert.deepEqual(
      all.map(({ opensAt, ...rest }) => ({ ...rest, opens: opensAt !== null })),
      [
        { ...atOnce(1, "a"), active: 0, throttled: 0, opens: true },
        { ...paced(2, 1_000, 1, { key: "b", max: 5 }), active: 1, throttled: 2, opens: true },
        { ...atOnce(1, "c"), active: 1, throttled: 1, opens: false },
      ],
    );
    assert.ok((at(all, 1).opensAt?.getTime() ?? 0) >= start + 500);
    const keys = async (query: object): Promise<string[]> => (await store.limits(query)).map(({ key }) => key);
    assert.deepEqual(await keys({ limit: 2 }), ["a", "b"]);
    assert.deepEqual(await keys({ after: "b", limit: 2 }), ["c"]);
    assert.deepEqual(await keys({ after: "c" }), []);
    await refused(store.limits({ limit: -1 }), "limit");
  },

  async Paused({ store }) {
    await register(store);
    const [id] = await waiters(store, paced(1, 1_000, 1), 1);
    await store.pauseQueue("default");
    assert.deepEqual(await claimReply(store), { known: true, jobs: [], nextIn: null });
    await store.resumeQueue("default");
    assert.deepEqual(await claimIds(store), [id]);
  },

  /** Claims find open keys among many that are closed, and every job of every key runs in the end. */
  async ManyKeys({ store, advance }) {
    await register(store);
    const keys = Array.from({ length: 300 }, (_, n) => `key ${n}`);
    const jobs = keys.flatMap((key) => newJobs(2, { limit: paced(1, MINUTE, 1, { key }) }));
    await insertMany(store, jobs);
    for (const _ of [1, 2]) {
      const claimed: ClaimedJob[] = [];
      for (let n = 0; n < 30; n++) claimed.push(...(await claim(store, { limit: 10 })));
      assert.equal(new Set(claimed.map(({ limitKey }) => limitKey)).size, 300, "each key once");
      assert.equal((await claimReply(store)).nextIn, claimed.length === 300 && _ === 1 ? MINUTE : null);
      await advance(MINUTE);
    }
  },
};
