import assert from "node:assert/strict";
import type { StoreEvent } from "../../engine/store.ts";
import {
  at,
  claimOne,
  end,
  eventually,
  type Group,
  HOUR,
  insertMany,
  insertOne,
  MINUTE,
  newJob,
  oneOfEach,
  refused,
  register,
  running,
  SLACK,
  subscribe,
} from "./support.ts";

/** A `ready` event for the queue that calls for a look within `ms`. A null queue stands for any. */
const ready =
  (queue: string, ms = 0) =>
  (event: StoreEvent): boolean =>
    event.type === "ready" && (event.queue === queue || event.queue === null) && event.delay >= 0 && event.delay <= ms;

export const notifyCases: Group = {
  // The reference calls this event Resync.
  async Resync(harness) {
    const events: StoreEvent[] = [];
    const stop = harness.store.subscribe((event) => events.push(event));
    assert.deepEqual(events, [], "never before subscribe returns");
    await insertOne(harness.store);
    await eventually(
      harness,
      () => events.length > 0,
      () => "connected",
    );
    assert.deepEqual(events[0], { type: "connected" }, "the first event");
    await stop();
    await stop();
  },

  async Insert(harness) {
    const subscriber = await subscribe(harness);
    await insertMany(harness.store, [newJob({ queue: "a" }), newJob({ queue: "b" }), newJob({ queue: "a" })]);
    const start = subscriber.events.length;
    await eventually(
      harness,
      () => subscriber.events.some(ready("a")) && subscriber.events.some(ready("b")),
      () => `ready for a and b after ${start} events`,
    );
    await subscriber.stop();
  },

  async InsertDelayed(harness) {
    const subscriber = await subscribe(harness);
    await insertOne(harness.store, { queue: "a", delay: HOUR });
    const event = await subscriber.next(ready("a", HOUR));
    assert.ok(event.type === "ready" && event.delay >= HOUR - SLACK, "not sooner than needed");
    // What is ready decides, not what waits.
    await insertMany(harness.store, [newJob({ queue: "b", delay: HOUR }), newJob({ queue: "b" })]);
    await subscriber.next(ready("b"));
    await insertMany(harness.store, [newJob({ queue: "c" }), newJob({ queue: "c", delay: HOUR })]);
    await subscriber.next(ready("c"));
    await subscriber.stop();
  },

  async Refused(harness) {
    const subscriber = await subscribe(harness);
    await refused(harness.store.insert([newJob({ queue: "bad" }), newJob({ args: "" })]));
    await insertOne(harness.store, { queue: "good" });
    await subscriber.next(ready("good"));
    assert.ok(!subscriber.events.some(ready("bad")), "what was not written is not told");
    await subscriber.stop();
  },

  // The reference promotes by a verb of its own and tells of it. Here a claim does, for itself; others were told the delay
  // at insertion. Only a sweep moves jobs that nobody has asked for.
  async Promote(harness) {
    const { store, advance } = harness;
    await insertOne(store, { queue: "a", delay: MINUTE });
    await advance(HOUR);
    const subscriber = await subscribe(harness);
    assert.equal(await store.sweep(10), 1);
    await subscriber.next(ready("a"));
    await subscriber.stop();
  },

  async Finish(harness) {
    const { store } = harness;
    await register(store);
    const job = await running(store, { queue: "a" });
    const snoozed = await running(store, { queue: "b" });
    const subscriber = await subscribe(harness);
    await end(store, job, "enqueued", { refund: true, reason: "shutdown" });
    await subscriber.next(ready("a"));
    await end(store, await claimOne(store, { queues: ["a"] }), "scheduled", { reason: "retry" }, "enqueued");
    await subscriber.next(ready("a"));
    await end(store, snoozed, "scheduled", { delay: MINUTE, reason: "snoozed" });
    const event = await subscriber.next(ready("b", MINUTE));
    assert.ok(event.type === "ready" && event.delay >= MINUTE - SLACK);
    await subscriber.stop();
  },

  async Requeue(harness) {
    const { store } = harness;
    await register(store);
    const jobs = await oneOfEach(store, { queue: "a" });
    const subscriber = await subscribe(harness);
    for (const state of ["failed", "succeeded", "deleted", "scheduled"] as const) {
      await store.requeue({ ids: [jobs[state]] });
      await subscriber.next(ready("a"));
    }
    await subscriber.stop();
  },

  async Cancel(harness) {
    const { store } = harness;
    await register(store);
    const jobs = [await running(store), await running(store)];
    const subscriber = await subscribe(harness);
    await store.delete({ ids: [at(jobs, 1).id] });
    await subscriber.next((event) => event.type === "cancel" && event.id === at(jobs, 1).id);
    await store.delete({ state: "processing" });
    await subscriber.next((event) => event.type === "cancel" && event.id === at(jobs, 0).id);
    await subscriber.stop();
  },

  async Pause(harness) {
    const { store } = harness;
    const subscriber = await subscribe(harness);
    const changed = (event: StoreEvent): boolean => event.type === "queue" && event.queue === "a";
    await store.pauseQueue("a");
    await subscriber.next(changed);
    await store.resumeQueue("a");
    await subscriber.next(changed);
    await subscriber.stop();
  },

  async Unsubscribe(harness) {
    const { store } = harness;
    const [first, second] = [await subscribe(harness), await subscribe(harness)];
    await insertOne(store, { queue: "a" });
    await Promise.all([first.next(ready("a")), second.next(ready("a"))]);
    await first.stop();
    const heard = first.events.length;
    await insertOne(store, { queue: "b" });
    await second.next(ready("b"));
    assert.equal(first.events.length, heard, "nothing after the end");
    // An end before anything was delivered is one too.
    const early: StoreEvent[] = [];
    await store.subscribe((event) => early.push(event))();
    await insertOne(store, { queue: "c" });
    await second.next(ready("c"));
    assert.deepEqual(early, []);
    await second.stop();
  },
};
