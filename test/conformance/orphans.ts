import assert from "node:assert/strict";
import {
  assertNear,
  at,
  claimIds,
  claimOne,
  clock,
  end,
  type Group,
  HOUR,
  idsOf,
  insertMany,
  insertOne,
  MINUTE,
  newJobs,
  outcome,
  record,
  register,
  running,
  SLACK,
} from "./support.ts";

export const orphansCases: Group = {
  async Unregister({ store }) {
    await register(store);
    await register(store, "s2");
    const job = await running(store);
    await store.unregister("unknown");
    assert.deepEqual(await store.orphans(10), []);
    await store.unregister("s1");
    assert.deepEqual(
      (await store.servers()).map(({ id }) => id),
      ["s2"],
    );
    assert.deepEqual(idsOf(await store.orphans(10)), [job.id]);
    await store.unregister("s1");
  },

  // The reference only reads and is told after what silence a server counts as dead; here each server says it for itself,
  // and the verb declares it dead, so that it can neither beat nor claim once its jobs have been given away.
  async Orphans({ store, advance }) {
    await register(store, "s1", { deadAfter: 10 * MINUTE });
    await register(store, "s2", { deadAfter: 2 * HOUR });
    const plain = await running(store, { kind: "plain", queue: "a", maxAttempts: 3 });
    const cancelled = await running(store, { kind: "cancelled", queue: "b", maxAttempts: 4 });
    await store.delete({ ids: [cancelled.id] });
    await insertOne(store, { queue: "c" });
    const other = await claimOne(store, { server: "s2", queues: ["c"] });
    assert.deepEqual(await store.orphans(10), [], "all servers live");
    await advance(10 * MINUTE - SLACK);
    assert.deepEqual(await store.orphans(10), [], "silent, but not for too long");
    await store.heartbeat({ server: "s1", running: 2 });
    await advance(10 * MINUTE - SLACK);
    assert.deepEqual(await store.orphans(10), [], "a heartbeat starts the time anew");
    const before = await clock(store);
    await advance(2 * SLACK);
    const common = { server: "s1", attempt: 1, lastReason: null };
    const expected = [
      {
        ...common,
        id: plain.id,
        claim: plain.claim,
        kind: "plain",
        queue: "a",
        maxAttempts: 3,
        cancelRequested: false,
      },
      {
        ...common,
        ...{ id: cancelled.id, claim: cancelled.claim, kind: "cancelled", queue: "b", maxAttempts: 4 },
        cancelRequested: true,
      },
    ];
    assert.deepEqual(await store.orphans(10), expected);
    const [dead, living] = await store.servers();
    assertNear(dead?.deadAt ?? null, before + 2 * SLACK, "deadAt");
    assert.equal(living?.deadAt, null, "another server's patience is its own");
    assert.equal((await store.heartbeat({ server: "s1", running: 2 })).known, false, "too late");
    assert.deepEqual(await store.orphans(10), expected, "listed until someone finishes them");
    assert.deepEqual(await store.orphans(1), expected.slice(0, 1), "oldest first");

    const results = await store.finish("s2", [
      outcome(plain, "enqueued", { reason: "orphaned" }),
      outcome(cancelled, "enqueued", { reason: "orphaned" }),
    ]);
    const applied = (state: string): unknown => ({ status: "applied", state });
    assert.deepEqual(
      results,
      [applied("enqueued"), applied("deleted")],
      "a cancel request is honoured by a rescue too",
    );
    assert.deepEqual(await store.orphans(10), []);
    await advance(2 * HOUR);
    assert.deepEqual(idsOf(await store.orphans(10)), [other.id]);
    assert.deepEqual((await store.servers())[0]?.deadAt, dead?.deadAt, "a server dies once");
  },

  async OrphanLastReason({ store }) {
    await register(store);
    await register(store, "s2");
    const job = await running(store);
    await end(store, job, "enqueued", { reason: "orphaned" });
    const again = await claimOne(store, { server: "s2", queues: [job.queue] });
    await store.unregister("s2");
    const [orphan] = await store.orphans(10);
    assert.deepEqual([orphan?.lastReason, orphan?.server, orphan?.attempt], ["orphaned", "s2", 2]);
    assert.equal(orphan?.claim, again.claim);
  },

  /** More orphans than one call lists, of several servers. */
  async OrphansLimit({ store, advance }) {
    await register(store, "s1");
    await register(store, "s2");
    const ids = await insertMany(store, newJobs(20));
    for (let n = 0; n < 10; n++) {
      await claimOne(store, { server: "s1" });
      await claimOne(store, { server: "s2" });
    }
    await advance(HOUR);
    await register(store, "s3");
    const found: number[] = [];
    for (const expected of [8, 8, 4, 0]) {
      const orphans = await store.orphans(8);
      assert.equal(orphans.length, expected);
      found.push(...idsOf(orphans));
      await store.finish(
        "s3",
        orphans.map((orphan) => outcome(orphan, "failed")),
      );
    }
    assert.deepEqual(found, ids);
  },

  /** Orphans are given back under the claim that they were lost with, once, whoever finds them. */
  async OrphansTwice({ store }) {
    await register(store);
    const job = await running(store);
    await store.unregister("s1");
    await register(store, "s2");
    await register(store, "s3");
    const [seenBySecond, seenByThird] = [await store.orphans(10), await store.orphans(10)];
    const rescue = { reason: "orphaned" };
    await store.finish("s2", [outcome(at(seenBySecond, 0), "enqueued", rescue)]);
    const again = await claimOne(store, { server: "s2", queues: [job.queue] });
    const late = await store.finish("s3", [outcome(at(seenByThird, 0), "enqueued", rescue)]);
    assert.deepEqual(late, [{ status: "stale" }]);
    assert.equal((await record(store, job.id)).claim, again.claim);
    assert.deepEqual(await claimIds(store, { server: "s3", queues: [job.queue] }), []);
  },
};
