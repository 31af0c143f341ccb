import assert from "node:assert/strict";
import {
  assertBetween,
  assertNear,
  at,
  claim,
  claimOne,
  claimReply,
  clock,
  end,
  type Group,
  HOUR,
  insertMany,
  MINUTE,
  newJobs,
  register,
  running,
  SLACK,
  snapshot,
} from "./support.ts";

export const coordinateCases: Group = {
  async Now({ store, advance }) {
    const before = await store.now();
    assert.ok(before instanceof Date);
    assert.ok(Number.isInteger(before.getTime()));
    await advance(HOUR);
    assertNear(await store.now(), before.getTime() + HOUR, "now");
  },

  async Lead({ store, advance }) {
    const mine = { name: "leader", holder: "a", ttl: HOUR };
    const theirs = { ...mine, holder: "b" };
    assert.deepEqual(await store.lead(mine), { held: true, heldFor: 0 });
    assert.deepEqual(await store.lead(theirs), { held: false, heldFor: 0 });
    await advance(30 * MINUTE);
    const renewed = await store.lead(mine);
    assert.equal(renewed.held, true);
    assertBetween(renewed.heldFor, 30 * MINUTE, 30 * MINUTE + SLACK, "heldFor");
    assert.deepEqual(
      await store.lead({ ...theirs, name: "other" }),
      { held: true, heldFor: 0 },
      "names are independent",
    );
    await advance(HOUR - SLACK);
    assert.deepEqual(await store.lead(theirs), { held: false, heldFor: 0 }, "a renewal counts from when it was made");
    await advance(SLACK);
    assert.deepEqual(await store.lead(theirs), { held: true, heldFor: 0 }, "expired");
    assert.deepEqual(await store.lead(mine), { held: false, heldFor: 0 });
    await advance(30 * MINUTE);
    const second = await store.lead(theirs);
    assertBetween(second.heldFor, 30 * MINUTE, 30 * MINUTE + SLACK, "heldFor of the new holder");
  },

  /** Whoever comes back after the lease has run out has not held it without a break. */
  async LeadAfterExpiry({ store, advance }) {
    const query = { name: "leader", holder: "a", ttl: MINUTE };
    await store.lead(query);
    await advance(HOUR);
    assert.deepEqual(await store.lead(query), { held: true, heldFor: 0 });
  },

  async Resign({ store, advance }) {
    const mine = { name: "leader", holder: "a", ttl: HOUR };
    await store.resign({ name: "unknown", holder: "a" });
    await store.lead(mine);
    await advance(MINUTE);
    await store.resign({ name: "leader", holder: "b" });
    assertBetween((await store.lead(mine)).heldFor, MINUTE, MINUTE + SLACK, "another's resignation has no effect");
    await store.resign({ name: "leader", holder: "a" });
    assert.deepEqual(await store.lead({ ...mine, holder: "b" }), { held: true, heldFor: 0 });
    await store.resign({ name: "leader", holder: "a" });
    assert.deepEqual(await store.lead(mine), { held: false, heldFor: 0 });
  },

  // The reference registers by the first heartbeat; here by a verb of its own, once.
  async Register({ store }) {
    const before = await clock(store);
    const info = {
      hostname: "host.example",
      pid: 4_321,
      version: "1.2.3-rc.1",
      queues: ["b", "a"],
      kinds: ["z", "y"],
      workers: 7,
      deadAfter: 2 * MINUTE,
    };
    await register(store, "s1", info);
    await register(store, "s0", { queues: [], kinds: [] });
    const [first, second] = await store.servers();
    assert.equal(first?.id, "s0", "by id");
    assert.ok(second);
    const { startedAt, heartbeatAt, ...rest } = second;
    assert.deepEqual(rest, { id: "s1", ...info, running: 0, deadAt: null });
    assertNear(startedAt, before, "startedAt");
    assertNear(heartbeatAt, before, "heartbeatAt");
    const known = await store.servers();
    await assert.rejects(register(store, "s1", { pid: 1 }), { code: "conflict" });
    assert.deepEqual(await store.servers(), known);
  },

  async Heartbeat({ store, advance }) {
    await register(store);
    await register(store, "s2");
    await insertMany(store, newJobs(3));
    const [first, second] = await claim(store, { limit: 2, sequence: 7 });
    const [other] = await claim(store, { server: "s2" });
    assert.ok(first && second && other);
    await store.pauseQueue("z");
    await store.pauseQueue("a");
    await store.delete({ ids: [second.id] });
    await advance(30_000);
    const before = await clock(store);
    const reply = await store.heartbeat({ server: "s1", running: 2 });
    const lease = { sequence: 7, cancelRequested: false };
    assert.deepEqual(reply, {
      known: true,
      leases: [
        { id: first.id, claim: first.claim, ...lease },
        { id: second.id, claim: second.claim, ...lease, cancelRequested: true },
      ],
      pausedQueues: ["a", "z"],
    });
    const [shown, quiet] = await store.servers();
    assert.equal(shown?.running, 2);
    assertNear(shown?.heartbeatAt ?? null, before, "heartbeatAt");
    assert.equal(quiet?.running, 0);
    assert.ok((quiet?.heartbeatAt.getTime() ?? before) < before, "only its own");
    await end(store, first, "succeeded");
    await end(store, second, "scheduled", {}, "deleted");
    assert.deepEqual((await store.heartbeat({ server: "s1", running: 0 })).leases, []);
    assert.deepEqual(
      (await store.heartbeat({ server: "s2", running: 1 })).leases.map(({ id }) => id),
      [other.id],
    );
  },

  /** A server tells by the sequence which leases are older than a claim that it still waits for. */
  async LeaseSequence({ store }) {
    await register(store);
    await insertMany(store, newJobs(3));
    const jobs = [];
    for (const sequence of [1, 2, 40]) jobs.push(await claimOne(store, { sequence }));
    const sequences = async (): Promise<unknown> => {
      const { leases } = await store.heartbeat({ server: "s1", running: 3 });
      return leases.map(({ id, sequence }) => [id, sequence]).sort();
    };
    assert.deepEqual(
      await sequences(),
      jobs.map(({ id }, n) => [id, at([1, 2, 40], n)]),
    );
    await end(store, at(jobs, 0), "enqueued");
    const again = await claimOne(store, { sequence: 41 });
    assert.equal(again.id, at(jobs, 0).id);
    assert.deepEqual(await sequences(), [
      [again.id, 41],
      [at(jobs, 1).id, 2],
      [at(jobs, 2).id, 40],
    ]);
  },

  async HeartbeatStarted({ store, advance }) {
    const before = await clock(store);
    await register(store);
    for (let n = 0; n < 3; n++) {
      await advance(MINUTE);
      await store.heartbeat({ server: "s1", running: n });
    }
    const [server] = await store.servers();
    assertNear(server?.startedAt ?? null, before, "startedAt stays");
    assertNear(server?.heartbeatAt ?? null, before + 3 * MINUTE, "heartbeatAt moves");
  },

  /** A heartbeat never makes a server known: not a strange one, not one that has gone, not a dead one. */
  async HeartbeatUnknown({ store, advance }) {
    const beat = { server: "s1", running: 1 };
    assert.equal((await store.heartbeat(beat)).known, false);
    assert.deepEqual(await store.servers(), []);
    await register(store);
    await running(store);
    await store.unregister("s1");
    assert.equal((await store.heartbeat(beat)).known, false);
    assert.deepEqual(await store.servers(), []);
    await register(store, "s2");
    await advance(HOUR);
    await store.orphans(10);
    const before = await snapshot(store);
    assert.equal((await store.heartbeat({ server: "s2", running: 1 })).known, false);
    assert.deepEqual(await snapshot(store), before, "nothing was written");
    await store.orphans(10);
    assert.equal((await claimReply(store, { server: "s2" })).known, false);
    await assert.rejects(register(store, "s2"), { code: "conflict" }, "nor can it come back under the same id");
  },
};
