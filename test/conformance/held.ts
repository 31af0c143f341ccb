/** Jobs that are inserted only while a claim holds its job: by the store itself, and in transactions of all kinds. */
import assert from "node:assert/strict";
import type { InsertOptions, JobRef, Store } from "../../engine/store.ts";
import { fickle } from "./hostile.ts";
import {
  claimOne,
  end,
  ended,
  type Group,
  type Harness,
  HOUR,
  insertOne,
  newJob,
  newJobs,
  refused,
  register,
  running,
  snapshot,
  stateOf,
} from "./support.ts";
import { insertWithin, type Run, uniqueKey } from "./transaction-cases.ts";

const LOST = { code: "claim_lost" };
const REF_RULE = "options.whileHeld";

/** Refs that hold nothing, of jobs in all states. Server `s1` is registered. */
async function lostRefs(store: Store): Promise<JobRef[]> {
  const job = await running(store);
  const idle = await insertOne(store);
  const again = await running(store);
  await end(store, again, "enqueued");
  await claimOne(store, { queues: [again.queue] });
  const waiting = await running(store);
  await end(store, waiting, "scheduled", { delay: HOUR });
  const gone = await Promise.all((["succeeded", "failed", "deleted"] as const).map((state) => ended(store, state)));
  return [
    { id: job.id, claim: job.claim + 1 },
    { id: job.id, claim: job.claim - 1 },
    { id: job.id + 1_000, claim: 1 },
    { id: Number.MAX_SAFE_INTEGER, claim: Number.MAX_SAFE_INTEGER },
    { id: idle, claim: 0 },
    { id: idle, claim: 1 },
    { id: again.id, claim: again.claim },
    { id: waiting.id, claim: waiting.claim },
    ...gone.map((id) => ({ id, claim: 1 })),
  ];
}

export function heldCases<H extends Harness>(run: Run<H>): Group<H> {
  return {
    async Held(harness) {
      const { store } = harness;
      await register(store);
      const job = await running(store);
      const children = await run(harness, async (writer) => {
        const whileHeld = job;
        const parents = [{ id: job.id, on: ["succeeded"] }] as const;
        return [
          ...(await writer.insert(newJobs(2), { whileHeld })),
          ...(await writer.insert([newJob({ unique: uniqueKey() }), newJob({ parents })], { whileHeld })),
          ...(await writer.insert([newJob({ unique: uniqueKey() })], { whileHeld })),
          ...(await writer.insert([], { whileHeld })),
          ...(await writer.insert([newJob()], {})),
        ];
      });
      assert.deepEqual(
        children.map(({ state, duplicate }) => (duplicate ? "duplicate" : state)),
        ["enqueued", "enqueued", "enqueued", "awaiting", "duplicate", "enqueued"],
      );
      assert.equal(await stateOf(store, job.id), "processing");
      assert.equal(await store.delete({ ids: [job.id] }), 1);
      await run(harness, (writer) => writer.insert([newJob()], { whileHeld: job }));
      assert.equal((await store.counts()).enqueued, 5, "a job that is asked to stop is held until it has ended");
    },

    async Lost(harness) {
      const { store } = harness;
      await register(store);
      const refs = await lostRefs(store);
      const before = [await snapshot(store), await store.limits({})];
      const limit = { key: "k", max: 1, rate: 0, per: 0, burst: 0 };
      for (const whileHeld of refs) {
        await run(harness, async (writer) => {
          const bad = newJob({ parents: [{ id: 1_000_000, on: ["succeeded"] }] });
          for (const jobs of [newJobs(2), [newJob({ unique: uniqueKey(), limit })], [bad], []]) {
            await assert.rejects(writer.insert(jobs, { whileHeld }), LOST, JSON.stringify(whileHeld));
          }
        });
      }
      assert.deepEqual([await snapshot(store), await store.limits({})], before);
      const unique = await run(harness, (writer) => insertWithin(writer, { unique: uniqueKey() }));
      assert.equal(unique.duplicate, false, "no unique key was taken");
    },

    async Rescued(harness) {
      const { store } = harness;
      await register(store);
      const first = await running(store);
      await end(store, first, "enqueued", { refund: true, reason: "orphaned" });
      const late = (): Promise<unknown> =>
        run(harness, (writer) => writer.insert([newJob({ queue: "children" })], { whileHeld: first }));
      await assert.rejects(late(), LOST);
      const second = await claimOne(store, { queues: [first.queue] });
      assert.equal(second.id, first.id);
      await assert.rejects(late(), LOST);
      await run(harness, (writer) => writer.insert([newJob({ queue: "children" })], { whileHeld: second }));
      await end(store, second, "succeeded");
      await assert.rejects(late(), LOST);
      const children = (await store.queues()).find(({ name }) => name === "children");
      assert.equal(children?.enqueued, 1);
    },

    async BadRef(harness) {
      const { store } = harness;
      await register(store);
      const job = await running(store);
      const { id, claim } = job;
      const before = await snapshot(store);
      const fail = (): never => assert.fail("hostile");
      const refs: unknown[] = [
        null,
        1,
        "1",
        [],
        [id, claim],
        {},
        { id },
        { claim },
        { id: `${id}`, claim },
        { id, claim: "1" },
      ];
      const numbers = [Number.NaN, Number.POSITIVE_INFINITY, -1, 0.5, 2 ** 53, null, undefined, 1n];
      for (const number of numbers) refs.push({ id: number, claim }, { id, claim: number });
      refs.push(
        { id: 0, claim },
        new Proxy({ id, claim }, { get: fail }),
        Object.defineProperty({}, "id", { get: fail }),
      );
      const insert = (jobs: Parameters<Store["insert"]>[0], options: unknown): Promise<unknown> =>
        run(harness, (writer) => writer.insert(jobs, options as InsertOptions));
      for (const whileHeld of refs) await refused(insert([newJob()], { whileHeld }), REF_RULE);
      await refused(insert([newJob({ kind: "" })], { whileHeld: {} }), REF_RULE, "jobs[0].kind");
      await refused(insert([], { whileHeld: {} }), REF_RULE);
      await refused(insert([newJob()], { heldBy: job }), "options.heldBy");
      const readable = Object.defineProperty({}, "whileHeld", { get: fail, enumerable: true });
      await refused(insert([newJob()], readable), REF_RULE);
      for (const options of [null, 1, "x", [], new Date(), new Map()])
        await refused(insert([newJob()], options), "options");
      assert.deepEqual(await snapshot(store), before);
    },

    async ReadOnce(harness) {
      const { store } = harness;
      await register(store);
      const job = await running(store);
      const lost = { id: job.id, claim: job.claim + 1 };
      await run(harness, async (writer) => {
        await assert.rejects(writer.insert([newJob()], { whileHeld: fickle({ ...lost }, job.claim) }), LOST);
        await assert.rejects(writer.insert([newJob()], fickle({ whileHeld: lost }, job)), LOST);
        await writer.insert([newJob()], fickle({ whileHeld: { id: job.id, claim: job.claim } }, lost));
      });
      assert.equal((await store.counts()).enqueued, 1);
    },
  };
}

/** What concerns whole transactions. */
export function heldTransactionCases<H extends Harness>(run: Run<H>): Group<H> {
  return {
    ...Object.fromEntries(Object.entries(heldCases(run)).map(([title, held]) => [`Insert${title}`, held])),

    async InsertLostRollback(harness) {
      const { store } = harness;
      await register(store);
      const job = await running(store);
      const first = await running(store);
      await end(store, first, "enqueued");
      const before = await snapshot(store);
      const late = run(harness, async (writer) => {
        await writer.setParams(job, { a: "1" });
        await writer.insert(newJobs(2), { whileHeld: job });
        await writer.insert(newJobs(2), { whileHeld: first });
      });
      await assert.rejects(late, LOST);
      assert.deepEqual(await snapshot(store), before, "the loss of the claim rolls everything back");
    },

    async InsertLostCaught(harness) {
      const { store } = harness;
      await register(store);
      const job = await running(store);
      const lost = { id: job.id, claim: job.claim + 1 };
      await run(harness, async (writer) => {
        await insertWithin(writer);
        await assert.rejects(writer.insert([newJob({ unique: uniqueKey() })], { whileHeld: lost }), LOST);
        const { duplicate } = await insertWithin(writer, { unique: uniqueKey() });
        assert.equal(duplicate, false, "the refused call has left no key");
      });
      assert.equal((await store.counts()).enqueued, 2);
    },
  };
}
