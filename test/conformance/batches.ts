/** Batches: who is in them, when they finish, who waits for them. Nesting is in `nested-batches.ts`. */
import assert from "node:assert/strict";
import { META } from "../../engine/rules/limits.ts";
import type { BatchId } from "../../engine/store.ts";
import { batchOf, countsOf, insertMember, insertWaiter, isFinished, openBatch, refusedAs } from "./batches-support.ts";
import { KEEP, parent, SUCCEEDED, sweepAll } from "./dependencies-support.ts";
import { fickle, HOSTILE_TEXTS } from "./hostile.ts";
import { atOnce } from "./limits-support.ts";
import {
  at,
  claim,
  claimOne,
  clock,
  DAY,
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
  oneOfEach,
  only,
  outcome,
  reasonsOf,
  record,
  refused,
  register,
  running,
  SECOND,
  snapshot,
  stateOf,
  subscribe,
} from "./support.ts";
import { unique } from "./unique.ts";

export const batchesCases: Group = {
  async Open({ store, advance }) {
    await register(store);
    const before = await clock(store);
    const given = { description: "invoices of November 😀", meta: { customer: "7", a: "" } };
    const id = await openBatch(store, given);
    const { createdAt, ...fresh } = await batchOf(store, id);
    assert.deepEqual(fresh, {
      ...{ id, ...given, parent: null, total: 0, sealed: false, counts: countsOf({}), finishedAt: null },
      ...{ nested: 0, nestedFinished: 0 },
    });
    assert.ok(createdAt.getTime() >= before);
    await advance(SECOND);
    const second = await openBatch(store);
    assert.ok(id > 0 && second > id, "ids grow");
    const members = await insertMany(store, newJobs(2, { batch: id }));
    const other = await insertMember(store, second);
    assert.deepEqual([(await batchOf(store, id)).total, (await batchOf(store, second)).total], [2, 1]);
    for (const member of members) assert.equal((await record(store, member)).batch, id);
    const outside = await insertOne(store);
    assert.deepEqual([(await record(store, outside)).batch, (await record(store, outside)).afterBatch], [null, null]);
    const claimed = await claim(store);
    assert.deepEqual(idsOf(claimed), [...members, other, outside]);
    assert.deepEqual(
      claimed.map(({ batch }) => batch),
      [id, id, second, null],
      "the handler knows its batch",
    );
  },

  async SealAfter({ store }) {
    await register(store);
    const id = await openBatch(store);
    const jobs = [await running(store, { batch: id }), await running(store, { batch: id })];
    const waiter = await insertWaiter(store, id);
    const waiting = await record(store, waiter);
    assert.deepEqual(
      [waiting.state, waiting.pendingParents, waiting.afterBatch, waiting.parents, waiting.batch],
      ["awaiting", 1, id, [], null],
    );
    for (const job of jobs) await end(store, job, "succeeded");
    await sweepAll(store);
    assert.equal(await isFinished(store, id), false, "it is not sealed");
    assert.equal(await stateOf(store, waiter), "awaiting");
    await store.sealBatch(id);
    const { sealed, finishedAt, total, counts } = await batchOf(store, id);
    assert.ok(finishedAt);
    assert.deepEqual([sealed, total, counts], [true, 2, countsOf({ succeeded: 2 })]);
    const released = await record(store, waiter);
    assert.deepEqual([released.state, released.pendingParents, released.afterBatch], ["enqueued", 0, id]);
    assert.equal(await store.sweep(100), 0);
  },

  async SealBefore({ store, advance }) {
    await register(store);
    const id = await openBatch(store);
    const first = await running(store, { batch: id });
    const second = await insertMember(store, id, { delay: HOUR });
    const waiter = await insertWaiter(store, id);
    await store.sealBatch(id);
    await end(store, first, "succeeded");
    assert.deepEqual([await isFinished(store, id), await stateOf(store, waiter)], [false, "awaiting"]);
    await advance(SECOND);
    const before = await clock(store);
    assert.equal(await store.delete({ ids: [second] }), 1, "a deleted member is done too");
    const { finishedAt } = await batchOf(store, id);
    assert.ok(finishedAt && finishedAt.getTime() >= before);
    assert.equal(await stateOf(store, waiter), "enqueued");
    await advance(MINUTE);
    await store.sealBatch(id);
    await store.requeue({ ids: [first.id, second] });
    for (const job of [await claimOne(store, { queues: ["running"] }), await claimOne(store)]) {
      await end(store, job, "succeeded");
    }
    await store.sealBatch(id);
    assert.deepEqual((await batchOf(store, id)).finishedAt, finishedAt, "for good");
    assert.equal(await stateOf(store, waiter), "enqueued");
  },

  async SealEmpty({ store }) {
    await register(store);
    const id = await openBatch(store);
    const early = await insertWaiter(store, id);
    await store.sealBatch(id);
    assert.deepEqual([await isFinished(store, id), await stateOf(store, early)], [true, "enqueued"]);
    const late = await insertWaiter(store, id);
    const { state, pendingParents, afterBatch } = await record(store, late);
    assert.deepEqual([state, pendingParents, afterBatch], ["enqueued", 0, id]);
    await store.sealBatch(id);
    assert.equal((await batchOf(store, id)).total, 0, "who waits is no member");
  },

  async FailedMember({ store }) {
    await register(store);
    const id = await openBatch(store);
    const job = await running(store, { batch: id });
    const waiter = await insertWaiter(store, id);
    await store.sealBatch(id);
    await end(store, job, "failed");
    await sweepAll(store);
    assert.deepEqual([await isFinished(store, id), await stateOf(store, waiter)], [false, "awaiting"]);
    await store.requeue({ ids: [job.id] });
    assert.equal(await isFinished(store, id), false);
    await end(store, await claimOne(store, { queues: ["running"] }), "succeeded");
    assert.deepEqual([await isFinished(store, id), await stateOf(store, waiter)], [true, "enqueued"]);
  },

  async Attach({ store }) {
    await register(store);
    const id = await openBatch(store);
    const first = await running(store, { batch: id });
    await store.sealBatch(id);
    const second = await running(store, { batch: id });
    await end(store, first, "succeeded");
    assert.equal(await isFinished(store, id), false, "what joined after the sealing counts");
    await end(store, second, "succeeded");
    assert.equal(await isFinished(store, id), true);
    const before = await snapshot(store);
    const calls = [newJob(), newJob({ batch: id }), newJob()];
    await refusedAs("batch_closed", "jobs[1].batch", store.insert(calls));
    await refusedAs("batch_closed", "jobs[1].batch", store.insert([...calls, newJob({ unique: unique() })]));
    await refusedAs("not_found", "jobs[0].batch", store.insert([newJob({ batch: id + 1 }), ...calls]));
    assert.deepEqual(await snapshot(store), before);
    assert.equal((await batchOf(store, id)).total, 2);
  },

  async Counts({ store }) {
    await register(store);
    const id = await openBatch(store);
    await oneOfEach(store);
    const jobs = await oneOfEach(store, { batch: id });
    const { total, counts } = await batchOf(store, id);
    assert.equal(total, 8);
    assert.deepEqual(counts, Object.fromEntries(Object.keys(jobs).map((state) => [state, 1])));
    await insertMany(store, newJobs(30, { batch: id, delay: HOUR }));
    assert.deepEqual((await batchOf(store, id)).counts, { ...counts, scheduled: 31 });
    assert.deepEqual(only((await store.batches({})).batches).counts, { ...counts, scheduled: 31 });
  },

  async NotFound({ store }) {
    await register(store);
    const head = await running(store);
    const missing = 99;
    for (const id of [missing, 0, -1, 0.5, Number.NaN, 2 ** 53]) {
      assert.equal(await store.batch(id), null);
      await assert.rejects(store.sealBatch(id), { code: "not_found" });
    }
    const before = await snapshot(store);
    const key = unique();
    for (const [field, job] of [
      ["batch", newJob({ batch: missing })],
      ["batch", newJob({ batch: missing, unique: key })],
      ["batch", newJob({ batch: missing, parents: [parent(head.id)] })],
      ["afterBatch", newJob({ afterBatch: missing })],
      ["afterBatch", newJob({ afterBatch: missing, parents: [parent(head.id)] })],
    ] as const) {
      await refusedAs("not_found", `jobs[1].${field}`, store.insert([newJob(), job]));
    }
    await refused(store.insert([newJob({ batch: 1, afterBatch: 1 })]), "jobs[0].afterBatch");
    assert.deepEqual(await snapshot(store), before);
    assert.equal(only(await store.insert([newJob({ unique: key })])).duplicate, false, "the key was never taken");
  },

  async List({ store }) {
    const ids: BatchId[] = [];
    for (let n = 0; n < 5; n++) ids.push(await openBatch(store, { description: `batch ${n}` }));
    const found: BatchId[] = [];
    let cursor: string | null = null;
    let pages = 0;
    do {
      const page: Awaited<ReturnType<typeof store.batches>> = await store.batches({
        limit: 2,
        ...(cursor !== null && { cursor }),
      });
      found.push(...page.batches.map(({ id }) => id));
      cursor = page.next;
      pages += 1;
    } while (cursor !== null);
    assert.deepEqual([found, pages], [ids.toReversed(), 3]);
    const all = await store.batches({});
    assert.deepEqual([all.batches.map(({ description }) => description).at(0), all.next], ["batch 4", null]);
    for (const limit of [-1, 0.5, Number.NaN]) await refused(store.batches({ limit }), "limit");
    for (const text of ["", "x", "e30", "WzEsMl0"]) await refused(store.batches({ cursor: text }), "cursor");
    for (let n = 5; n < 21; n++) await openBatch(store);
    assert.equal((await store.batches({})).batches.length, 20);
    assert.equal((await store.batches({ limit: 0 })).batches.length, 20);
    assert.equal((await store.batches({ limit: 1_000 })).batches.length, 21);
  },

  async Duplicates({ store }) {
    await register(store);
    const id = await openBatch(store);
    const other = await openBatch(store);
    const key = unique();
    const holder = await insertOne(store, { unique: key, delay: HOUR });
    const results = await store.insert([
      newJob({ unique: key, batch: id, afterBatch: other }),
      newJob({ unique: unique({ key: "b".repeat(32) }), batch: id }),
      newJob({ unique: unique({ key: "b".repeat(32) }), batch: id }),
      // What does not join need not be able to.
      newJob({ unique: key, batch: 99 }),
    ]);
    assert.deepEqual(
      results.map(({ duplicate }) => duplicate),
      [true, false, true, true],
    );
    assert.equal((await batchOf(store, id)).total, 1);
    const replacing = unique({ onConflict: "replace" });
    assert.equal(only(await store.insert([newJob({ unique: replacing, batch: id })])).replaced, true);
    assert.deepEqual([(await record(store, holder)).batch, (await batchOf(store, id)).total], [null, 1]);
    await store.sealBatch(id);
    await store.delete({ ids: [at(results, 1).id] });
    assert.equal(await isFinished(store, id), true);
  },

  async Doomed({ store }) {
    await register(store);
    const id = await openBatch(store);
    const head = await running(store);
    const dead = await ended(store, "deleted");
    const chain = await insertMany(store, [
      newJob({ batch: id, parents: [parent(head.id)] }),
      newJob({ batch: id, parents: [{ index: 0, on: SUCCEEDED }] }),
      newJob({ batch: id, parents: [parent(dead)] }),
    ]);
    const waiter = await insertWaiter(store, id);
    await store.sealBatch(id);
    const { total, counts } = await batchOf(store, id);
    assert.deepEqual([total, counts], [3, countsOf({ awaiting: 2, deleted: 1 })]);
    await end(store, head, "deleted");
    assert.deepEqual(await reasonsOf(store, at(chain, 1)), [`parent ${at(chain, 0)} deleted`]);
    assert.deepEqual([await isFinished(store, id), await stateOf(store, waiter)], [true, "enqueued"]);
    assert.equal(await store.sweep(100), 0, "all in the one call");
    const empty = await openBatch(store);
    await insertMember(store, empty, { parents: [parent(dead)] });
    await store.sealBatch(empty);
    assert.equal(await isFinished(store, empty), true, "a member that was born deleted is done");
  },

  async Waiters({ store }) {
    await register(store);
    const id = await openBatch(store);
    const member = await running(store, { batch: id });
    const head = await running(store);
    const now = await clock(store);
    const both = await insertWaiter(store, id, { parents: [parent(head.id)] });
    const delayed = await insertWaiter(store, id, { runAt: new Date(now + HOUR) });
    const limited = await insertWaiter(store, id, { limit: atOnce(1) });
    const deleted = await insertWaiter(store, id);
    const next = await openBatch(store);
    const elsewhere = await insertWaiter(store, id, { batch: next });
    assert.deepEqual(
      [(await record(store, both)).parents, (await record(store, both)).pendingParents],
      [[head.id], 2],
      "a batch is no parent",
    );
    assert.equal(await store.delete({ ids: [deleted] }), 1);
    await store.sealBatch(next);
    await store.sealBatch(id);
    await end(store, member, "succeeded");
    const states = async (): Promise<string[]> =>
      Promise.all([both, delayed, limited, deleted, elsewhere].map((waiter) => stateOf(store, waiter)));
    assert.deepEqual(await states(), ["awaiting", "scheduled", "throttled", "deleted", "enqueued"]);
    assert.deepEqual((await record(store, member.id)).children, [], "nor are those that wait for it its children");
    await end(store, head, "succeeded");
    assert.deepEqual(await states(), ["enqueued", "scheduled", "throttled", "deleted", "enqueued"]);
    assert.equal(await isFinished(store, next), false);
    await store.requeue({ ids: [deleted] });
    const jobs = await claim(store, { queues: ["waiters"] });
    for (const job of jobs) await end(store, job, "succeeded");
    assert.equal(jobs.length, 4);
    assert.equal(await isFinished(store, next), true);
  },

  async ManyWaiters({ store }) {
    await register(store);
    const id = await openBatch(store);
    const last = await openBatch(store);
    const jobs = await insertMany(store, newJobs(2_500, { batch: id }));
    const waiters = await insertMany(store, newJobs(3_000, { afterBatch: id, batch: last, queue: "waiters" }));
    const final = await insertWaiter(store, last, { queue: "final" });
    await store.sealBatch(id);
    await store.sealBatch(last);
    assert.equal((await batchOf(store, id)).total, jobs.length);
    assert.equal(await store.delete({ state: "enqueued", queue: "default" }), jobs.length);
    await sweepAll(store);
    assert.equal(await isFinished(store, id), true);
    assert.deepEqual((await batchOf(store, last)).counts, countsOf({ enqueued: waiters.length }));
    assert.equal(await store.delete({ state: "enqueued", batch: last }), waiters.length);
    await sweepAll(store);
    assert.equal(await stateOf(store, final), "enqueued");
    assert.equal((await store.counts()).awaiting, 0);
  },

  async ManyDoomed({ store }) {
    await register(store);
    const id = await openBatch(store);
    const head = await running(store);
    await insertMany(store, newJobs(2_500, { batch: id, parents: [parent(head.id)] }));
    const waiter = await insertWaiter(store, id);
    await store.sealBatch(id);
    await end(store, head, "deleted");
    await sweepAll(store);
    const { counts, finishedAt } = await batchOf(store, id);
    assert.deepEqual([counts, finishedAt !== null], [countsOf({ deleted: 2_500 }), true]);
    assert.equal(await stateOf(store, waiter), "enqueued");
    assert.equal(await store.sweep(100), 0);
  },

  async Concurrent({ store }) {
    await register(store);
    const id = await openBatch(store);
    await insertMany(store, newJobs(64, { batch: id }));
    const waiter = await insertWaiter(store, id);
    await store.sealBatch(id);
    const jobs = await claim(store);
    const finishOne = async (n: number): Promise<void> => {
      for (let tries = 0; tries < 1_000; tries++) {
        const { status } = await finish(store, at(jobs, n), n % 2 === 0 ? "succeeded" : "deleted");
        if (status === "applied") return;
        assert.equal(status, "busy");
      }
      assert.fail("busy for ever");
    };
    await Promise.all(jobs.map((_, n) => finishOne(n)));
    const { counts, finishedAt } = await batchOf(store, id);
    assert.deepEqual([counts, finishedAt !== null], [countsOf({ succeeded: 32, deleted: 32 }), true]);
    assert.deepEqual(idsOf(await claim(store, { queues: ["waiters"] })), [waiter], "once");
  },

  async Resend({ store }) {
    await register(store);
    const id = await openBatch(store);
    const [first, second] = [await running(store, { batch: id }), await running(store, { batch: id })];
    await store.sealBatch(id);
    const outcomes = [outcome(first, "succeeded"), outcome(first, "succeeded"), outcome(first, "deleted")];
    await store.finish("s1", outcomes);
    await store.finish("s1", outcomes);
    assert.equal(await isFinished(store, id), false, "an end counts once");
    await end(store, second, "scheduled", { delay: HOUR });
    assert.equal(await isFinished(store, id), false);
    await store.delete({ ids: [second.id] });
    await store.delete({ ids: [second.id] });
    assert.equal(await isFinished(store, id), true);
  },

  async Cancel({ store }) {
    await register(store);
    const id = await openBatch(store);
    const job = await running(store, { batch: id });
    await store.sealBatch(id);
    assert.equal(await store.delete({ ids: [job.id] }), 1);
    assert.equal(await isFinished(store, id), false, "it is still running");
    await end(store, job, "failed", {}, "deleted");
    assert.equal(await isFinished(store, id), true);
  },

  async Events(harness) {
    const { store } = harness;
    await register(store);
    const id = await openBatch(store);
    await insertWaiter(store, id);
    const subscriber = await subscribe(harness);
    await store.sealBatch(id);
    const event = await subscriber.next(({ type }) => type === "ready");
    assert.deepEqual(event, { type: "ready", queue: "waiters", delay: 0 });
    await subscriber.stop();
  },

  async PrunedMember({ store, advance }) {
    await register(store);
    const id = await openBatch(store);
    const job = await running(store, { batch: id });
    const waiter = await insertWaiter(store, id, { limit: atOnce(1) });
    await store.sealBatch(id);
    await end(store, job, "failed");
    await advance(HOUR);
    await store.prune({ ...KEEP, failed: 0 });
    const { total, counts, finishedAt } = await batchOf(store, id);
    assert.deepEqual([total, counts, finishedAt !== null], [1, countsOf({}), true], "what is gone is done");
    assert.equal(await stateOf(store, waiter), "throttled");
  },

  async Prune({ store, advance }) {
    await register(store);
    const finished = await openBatch(store);
    const job = await running(store, { batch: finished });
    const waiter = await insertWaiter(store, finished);
    await store.sealBatch(finished);
    await end(store, job, "succeeded");
    const busy = await openBatch(store);
    await insertMember(store, busy, { delay: DAY });
    await store.sealBatch(busy);
    const notSealed = await openBatch(store);
    const empty = await openBatch(store);
    await store.sealBatch(empty);
    const there = async (): Promise<boolean[]> => {
      const found: boolean[] = [];
      for (const id of [finished, busy, notSealed, empty]) found.push((await store.batch(id)) !== null);
      return found;
    };
    const prune = (age: number | null): Promise<number> => store.prune({ ...KEEP, succeeded: age, deleted: 0 });
    await advance(MINUTE);
    await prune(HOUR);
    await prune(null);
    assert.deepEqual(await there(), [true, true, true, true], "a batch is kept as long as a succeeded job");
    await advance(HOUR);
    await prune(HOUR);
    await prune(HOUR);
    assert.deepEqual(await there(), [true, true, true, false], "one that a job waited for as long as that is there");
    assert.equal(await store.job(job.id), null);
    assert.deepEqual([(await record(store, waiter)).afterBatch, await stateOf(store, waiter)], [finished, "enqueued"]);
    await refusedAs("not_found", "jobs[0].afterBatch", store.insert([newJob({ afterBatch: empty })]));
    await store.delete({ ids: [waiter] });
    await advance(HOUR);
    await prune(HOUR);
    await prune(HOUR);
    assert.deepEqual(await there(), [false, true, true, false]);
    assert.ok((await openBatch(store)) > empty, "ids are never given twice");
  },

  async PruneLimit({ store, advance }) {
    for (let n = 0; n < 5; n++) await store.sealBatch(await openBatch(store));
    await advance(HOUR);
    const prune = (): Promise<number> => store.prune({ ...KEEP, succeeded: 0, limit: 2 });
    assert.deepEqual([await prune(), await prune(), await prune(), await prune()], [2, 2, 1, 0]);
  },

  async Invalid({ store }) {
    const before = await store.batches({});
    for (const [field, value] of [
      ...["\u0000", "\ud800", 1, {}, undefined].map((value) => ["description", value] as const),
      ...[null, 1, [], { a: 1 }, { a: "\u0000" }, { "\ud800": "a" }, undefined].map(
        (value) => ["meta", value] as const,
      ),
      ...[0, -1, 0.5, Number.NaN, 2 ** 53, "1", {}, undefined].map((value) => ["parent", value] as const),
    ]) {
      await refused(openBatch(store, { [field]: value as never }), field);
    }
    const throwing = {
      ...{ description: null, parent: null },
      get meta(): never {
        throw new Error("no meta");
      },
    };
    await refused(store.openBatch(throwing), "meta");
    await assert.rejects(store.openBatch(null as never), { code: "invalid" });
    assert.deepEqual(await store.batches({}), before);
  },

  /** The same as for a job's. */
  async MetaBounds({ store }) {
    const keys = (count: number): [string, string][] => Array.from({ length: count }, (_, n) => [`k${n}`, ""]);
    const size = META.maxBytes - "key".length;
    const good = [Object.fromEntries(keys(META.maxKeys)), { key: "m".repeat(size) }];
    for (const meta of good) assert.deepEqual((await batchOf(store, await openBatch(store, { meta }))).meta, meta);
    const bad = [{ "": "a" }, Object.fromEntries(keys(META.maxKeys + 1)), { key: "m".repeat(size + 1) }];
    for (const meta of bad) await refused(openBatch(store, { meta }), "meta");
    assert.equal((await store.batches({})).batches.length, good.length);
  },

  /** What was checked is what is stored, also when an object says something else each time that it is asked. */
  async Fickle({ store }) {
    const parent = await openBatch(store);
    const given = { description: "first", meta: { a: "1", b: "2" }, parent };
    for (const later of [undefined, null, -1, Number.NaN, "\u0000", Symbol("later")]) {
      const { description, meta, parent } = await batchOf(store, await store.openBatch(fickle(given, later)));
      assert.deepEqual({ description, meta, parent }, given);
    }
  },

  async HostileTexts({ store }) {
    let taken = 0;
    for (const text of HOSTILE_TEXTS) {
      const given = { description: text, meta: Object.fromEntries([[text, text]]) };
      const id = await openBatch(store, given).catch((error: { code?: string }) => {
        assert.equal(error.code, "invalid");
        return null;
      });
      if (id === null) continue;
      const { description, meta } = await batchOf(store, id);
      assert.equal(description, text);
      assert.deepEqual(Object.entries(meta), [[text, text]]);
      taken += 1;
    }
    assert.ok(taken > 10);
  },
};
