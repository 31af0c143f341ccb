import assert from "node:assert/strict";
import type { Store } from "../../engine/store.ts";
import { recurringOf } from "./recurring.ts";
import { type Group, insertOne, newJob, outcome, register, running, subscribe } from "./support.ts";

export const closeCases: Group = {
  async Close({ store }) {
    await register(store);
    const job = await running(store);
    await store.close();
    await store.close();
    const now = new Date(0);
    const retention = { succeeded: null, deleted: null, failed: null };
    const { id: _id, ...info } = { id: "", hostname: "h", pid: 1, version: "1", queues: [], kinds: [], workers: 1 };
    const calls: { [Verb in Exclude<keyof Store, "close" | "capabilities" | "subscribe">]: () => Promise<unknown> } = {
      now: () => store.now(),
      transaction: () => store.transaction((writer) => writer.insert([newJob()])),
      insert: () => store.insert([newJob()]),
      openBatch: () => store.openBatch({ description: null, meta: {}, parent: null }),
      sealBatch: () => store.sealBatch(1),
      batch: () => store.batch(1),
      batches: () => store.batches({}),
      claim: () => store.claim({ server: "s1", sequence: 1, queues: ["default"], kinds: [], limit: 1 }),
      finish: () => store.finish("s1", [outcome(job, "succeeded")]),
      setParams: () => store.setParams(job, {}),
      writeConsole: () => store.writeConsole(job, { lines: [], progress: null }),
      register: () => store.register({ ...info, id: "s2", deadAfter: 60_000 }),
      heartbeat: () => store.heartbeat({ server: "s1", running: 0 }),
      unregister: () => store.unregister("s1"),
      lead: () => store.lead({ name: "leader", holder: "s1", ttl: 1_000 }),
      resign: () => store.resign({ name: "leader", holder: "s1" }),
      orphans: () => store.orphans(1),
      sweep: () => store.sweep(1),
      prune: () => store.prune({ ...retention, servers: 1, stats: 1, limit: 1 }),
      putRecurring: () => store.putRecurring(recurringOf()),
      removeRecurring: () => store.removeRecurring("a"),
      recurring: () => store.recurring(),
      recurringJob: () => store.recurringJob("a"),
      dueRecurring: () => store.dueRecurring(1),
      fireRecurring: () =>
        store.fireRecurring({ id: "a", version: 1, nextRunAt: null, lastRunAt: null, jobs: [newJob()] }),
      delete: () => store.delete({ ids: [job.id] }),
      requeue: () => store.requeue({ ids: [job.id] }),
      pauseQueue: () => store.pauseQueue("a"),
      resumeQueue: () => store.resumeQueue("a"),
      job: () => store.job(job.id),
      consoleLines: () => store.consoleLines({ id: job.id }),
      outputs: () => store.outputs([1]),
      jobs: () => store.jobs({ state: "enqueued" }),
      counts: () => store.counts(),
      limits: () => store.limits({}),
      series: () => store.series({ from: now, to: now, step: 60_000 }),
      servers: () => store.servers(),
      queues: () => store.queues(),
    };
    for (const [verb, call] of Object.entries(calls)) {
      await assert.rejects(call, { code: "store_closed", retryable: false }, verb);
    }
    assert.throws(() => store.subscribe(() => {}), { code: "store_closed" });
  },

  async Subscriptions(harness) {
    const subscriber = await subscribe(harness);
    await insertOne(harness.store);
    await harness.store.close();
    const told = subscriber.events.length;
    await harness.advance(60_000);
    assert.equal(subscriber.events.length, told, "nothing after the end");
    await subscriber.stop();
  },
};
