import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { CancelledError, PermanentError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import { constant, snooze } from "../../engine/retry.ts";
import { Server } from "../../engine/server/server.ts";
import { MINUTE, SECOND, World } from "./support.ts";

const task = defineJob<{ n: number }>("task", { backoff: constant("10s"), maxAttempts: 3 });

test("a job is run once, its output is stored, its history stays empty", async () => {
  const world = await World.make();
  const seen: unknown[] = [];
  const double = task.handler((job, context) => {
    seen.push([job.args, job.attempt, typeof context.client.enqueue, context.signal.aborted]);
    return { doubled: job.args.n * 2 };
  });
  const id = await world.client.enqueue(task, { n: 21 });
  const process = world.start([double]);
  const job = await world.reach(id, "succeeded", SECOND);
  assert.deepEqual(seen, [[{ n: 21 }, 1, "function", false]]);
  assert.equal(job.output, '{"doubled":42}');
  assert.equal(job.attempt, 1);
  assert.deepEqual(job.history, []);
  await process.stop();
  const { claimed, succeeded, failed, inFlight, capacity, pending } = process.server.stats();
  assert.deepEqual(
    { claimed, succeeded, failed, inFlight, capacity, pending },
    {
      ...{ claimed: 1, succeeded: 1, failed: 0, inFlight: 0, capacity: 10, pending: 0 },
    },
  );
  assert.equal(world.time.armed, 0, "no timer is left");
  assert.deepEqual(await world.store.servers(), []);
});

test("a failing job is retried after its backoff and fails when its attempts are used up", async () => {
  const world = await World.make();
  const starts: number[] = [];
  const failing = task.handler((job) => {
    starts.push(world.time.now);
    throw new Error(`no ${job.attempt}\u0000`);
  });
  const process = world.start([failing]);
  const id = await world.client.enqueue(task, { n: 1 });
  const job = await world.reach(id, "failed", MINUTE);
  assert.deepEqual(
    job.history.map((h) => h.reason),
    ["retry", "retry", "exhausted"],
  );
  assert.deepEqual(
    job.history.map((h) => h.error),
    ["Error: no 1", "Error: no 2", "Error: no 3"],
  );
  const gaps = starts.slice(1).map((at, index) => at - (starts[index] ?? 0));
  for (const gap of gaps) assert.ok(gap >= 10 * SECOND && gap <= 10 * SECOND + 10, `retried after ${gap} ms`);
  const { failed, retried, dead } = process.server.stats();
  assert.deepEqual({ failed, retried, dead }, { failed: 3, retried: 2, dead: 1 });
  await process.stop();
});

test("a handler says what becomes of its job by what it throws", async () => {
  const world = await World.make();
  const permanent = defineJob("permanent").handler(() => {
    throw new PermanentError("never");
  });
  const cancelled = defineJob("cancelled").handler(() => {
    throw new CancelledError("not needed any more");
  });
  let naps = 0;
  const napping = defineJob("napping").handler((job) => {
    assert.equal(job.attempt, 1, "a snooze uses up no attempt");
    naps += 1;
    if (naps < 3) throw snooze("1m");
  });
  const typed = defineJob("typed", { args: z.object({ n: z.number() }) });
  const process = world.start([permanent, cancelled, napping, typed.handler(() => assert.fail("must not run"))]);
  const ids = {
    permanent: await world.client.enqueue(defineJob("permanent"), {}),
    cancelled: await world.client.enqueue(defineJob("cancelled"), {}),
    napping: await world.client.enqueue(defineJob("napping"), {}),
    misfit: await world.client.enqueue(defineJob<{ n: string }>("typed"), { n: "one" }),
  };
  const reason = async (id: number): Promise<string | undefined> => (await world.job(id)).history.at(-1)?.reason;
  await world.reach(ids.permanent, "failed", SECOND);
  assert.equal(await reason(ids.permanent), "permanent");
  await world.reach(ids.cancelled, "deleted", SECOND);
  assert.equal(await reason(ids.cancelled), "cancelled");
  const misfit = await world.reach(ids.misfit, "failed", SECOND);
  assert.equal(misfit.history.at(-1)?.reason, "permanent");
  assert.match(misfit.history.at(-1)?.error ?? "", /args\.n must fit the schema/);
  await world.reach(ids.napping, "succeeded", 3 * MINUTE);
  assert.equal(naps, 3);
  assert.equal(process.server.stats().snoozed, 2);
  assert.equal(process.server.stats().failed, 2, "snoozes and cancellations are no failures");
  await process.stop();
});

test("a delayed job starts on time, though the server was asleep when it was enqueued", async () => {
  const world = await World.make();
  const late: number[] = [];
  const process = world.start([task.handler((job) => void late.push(world.time.now - job.runAt.getTime()))]);
  await world.time.advance(333);
  for (const delay of [1, 50, 999, 1_500, 61_000]) await world.client.enqueue(task, { n: 1 }, { delay });
  await world.time.advance(2 * MINUTE);
  assert.equal(late.length, 5);
  for (const ms of late) assert.ok(ms >= 0 && ms <= 10, `started ${ms} ms late`);
  await process.stop();
});

test("queues of a pool are served in strict order, higher priorities first within each", async () => {
  const world = await World.make();
  const order: number[] = [];
  const record = task.handler((job) => void order.push(job.args.n));
  await world.client.enqueue(task, { n: 4 }, { queue: "second", priority: 9 });
  await world.client.enqueue(task, { n: 3 }, { queue: "first" });
  await world.client.enqueue(task, { n: 1 }, { queue: "first", priority: 5 });
  await world.client.enqueue(task, { n: 2 }, { queue: "first", priority: 5 });
  const pools = [{ queues: ["first", "second"], workers: 1 }];
  const process = world.start([record], { queues: {}, pools });
  await world.time.advance(SECOND);
  assert.deepEqual(order, [1, 2, 3, 4]);
  await process.stop();
});

test("weights share a pool among its queues under load", async () => {
  const world = await World.make();
  const order: string[] = [];
  const record = task.handler((job) => void order.push(job.queue));
  const jobs = ["busy", "quiet"].flatMap((queue) => Array.from({ length: 400 }, (_, n) => task.spec({ n }, { queue })));
  await world.client.enqueueMany(jobs);
  const pools = [{ queues: ["busy", "quiet"], workers: 1, weights: { busy: 3 } }];
  const process = world.start([record], { queues: {}, pools });
  await world.time.until(() => order.length >= 400, MINUTE);
  const busy = order.slice(0, 400).filter((queue) => queue === "busy").length;
  assert.ok(busy > 260 && busy < 340, `${busy} of 400 went to the queue of weight 3`);
  await process.stop();
});

test("a paused queue is left alone until it is resumed", async () => {
  const world = await World.make();
  let runs = 0;
  const counting = task.handler(() => {
    runs += 1;
  });
  const process = world.start([counting]);
  await world.client.pauseQueue("default");
  await world.client.enqueue(task, { n: 1 });
  await world.time.advance(10 * SECOND);
  assert.equal(runs, 0);
  await world.client.resumeQueue("default");
  await world.time.advance(10);
  assert.equal(runs, 1);
  await process.stop();
});

test("more jobs than workers: never more at once, all done, slots are refilled", async () => {
  const world = await World.make();
  let running = 0;
  let most = 0;
  const slow = task.handler(async (job, { signal }) => {
    running += 1;
    most = Math.max(most, running);
    await world.work(10 + (job.args.n % 7), signal);
    running -= 1;
  });
  await world.client.enqueueMany(Array.from({ length: 300 }, (_, n) => task.spec({ n })));
  const process = world.start([slow], { queues: { default: 7 } });
  const started = world.time.now;
  await world.time.until(() => process.server.stats().succeeded === 300, MINUTE);
  assert.equal(most, 7);
  // 300 jobs of 13 ms on average on 7 workers are 557 ms of work at the least.
  assert.ok(world.time.now - started < 557 * 1.7, `took ${world.time.now - started} ms`);
  await process.stop();
});

test("a signal that is none is refused, and the server can still be run", async () => {
  const world = await World.make();
  const server = new Server(world.store, { handlers: [task.handler(() => {})], queues: { default: 1 } });
  await assert.rejects(server.run({ signal: "SIGTERM" as never }), { code: "invalid" });
  await server.run({ signal: AbortSignal.abort() });
});

test("a server runs once", async () => {
  const world = await World.make();
  const process = world.start([task.handler(() => {})]);
  await assert.rejects(process.server.run(), { code: "conflict" });
  await process.stop();
  await assert.rejects(process.server.run(), { code: "conflict" });
});
