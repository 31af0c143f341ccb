import assert from "node:assert/strict";
import { test } from "node:test";
import { ShutdownError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import { MINUTE, SECOND, World } from "./support.ts";

const task = defineJob("task");

test("a stopping server claims nothing more and waits for its running jobs", async () => {
  const world = await World.make();
  const process = world.start([task.handler(() => world.work(20 * SECOND))], { queues: { default: 1 } });
  const first = await world.client.enqueue(task, {});
  const second = await world.client.enqueue(task, {});
  await world.reach(first, "processing", SECOND);
  process.term();
  const { now } = world.time;
  await world.time.settled(process.ended, MINUTE);
  const took = world.time.now - now;
  assert.ok(took >= 19 * SECOND && took <= 20 * SECOND, `took ${took} ms`);
  assert.equal((await world.job(first)).state, "succeeded");
  assert.equal((await world.job(second)).state, "enqueued");
  assert.equal((await world.job(second)).attempt, 0);
  assert.deepEqual(await world.store.servers(), []);
  assert.equal(world.time.armed, 0);
});

test("SIGTERM: a job that does not end in shutdownTimeout is aborted and handed back without an attempt", async () => {
  const world = await World.make();
  let reason: unknown;
  const obedient = task.handler(async (_job, { signal }) => {
    try {
      await world.work(10 * MINUTE, signal);
    } finally {
      reason = signal.reason;
    }
  });
  const process = world.start([obedient]);
  const id = await world.client.enqueue(task, {});
  await world.reach(id, "processing", SECOND);
  process.term();
  const { now } = world.time;
  await world.time.settled(process.ended, MINUTE);
  assert.ok(reason instanceof ShutdownError);
  const took = world.time.now - now;
  assert.ok(took >= 30 * SECOND && took <= 30 * SECOND + 100, `took ${took} ms`);
  const job = await world.job(id);
  assert.equal(job.state, "enqueued");
  assert.equal(job.attempt, 0);
  assert.deepEqual(
    job.history.map((h) => h.reason),
    ["shutdown"],
  );
  assert.equal(process.server.stats().handedBack, 1);
  assert.equal(world.time.armed, 0);
});

test("a handler that ignores the abort at shutdown is abandoned after killGrace and handed back all the same", async () => {
  const world = await World.make();
  const process = world.start([task.handler(() => world.work(10 * MINUTE))]);
  const id = await world.client.enqueue(task, {});
  await world.reach(id, "processing", SECOND);
  process.term();
  const { now } = world.time;
  await world.time.settled(process.ended, MINUTE);
  const took = world.time.now - now;
  assert.ok(took >= 35 * SECOND && took <= 35 * SECOND + 100, `took ${took} ms`);
  const job = await world.job(id);
  assert.equal(job.state, "enqueued");
  assert.equal(job.attempt, 0);
  assert.match(job.history.at(-1)?.error ?? "", /ignored its abort signal/);
  assert.equal(process.server.stats().abandoned, 1);
});

test("a server keeps beating while it drains, and is not rescued", async () => {
  const world = await World.make();
  const leader = world.start([defineJob("other").handler(() => {})]);
  await world.time.advance(2 * MINUTE);
  const config = { shutdownTimeout: "10m" };
  const process = world.start([task.handler(() => world.work(5 * MINUTE))], config);
  const id = await world.client.enqueue(task, {});
  await world.reach(id, "processing", SECOND);
  await process.stop(10 * MINUTE);
  const job = await world.job(id);
  assert.equal(job.state, "succeeded");
  assert.equal(job.attempt, 1);
  await leader.stop();
});

test("results of the last moment are stored though the store is away for a while", async () => {
  const world = await World.make();
  const process = world.start([task.handler(() => world.work(SECOND))]);
  const id = await world.client.enqueue(task, {});
  await world.reach(id, "processing", SECOND);
  process.link.down = true;
  process.term();
  await world.time.advance(10 * SECOND);
  process.link.down = false;
  await world.time.settled(process.ended, MINUTE);
  assert.equal((await world.job(id)).state, "succeeded");
});

test("run ends in bounded time though the store never comes back", async () => {
  for (const fault of ["down", "silent"] as const) {
    const world = await World.make();
    const process = world.start([task.handler(() => world.work(SECOND))]);
    const id = await world.client.enqueue(task, {});
    await world.reach(id, "processing", SECOND);
    process.link[fault] = true;
    process.term();
    await world.time.settled(process.ended, 2 * MINUTE);
    assert.equal(world.time.armed, 0, fault);
  }
});

test("a server whose store can't be reached waits for it, and can be stopped meanwhile", async () => {
  const world = await World.make();
  const process = world.start([task.handler(() => {})]);
  process.link.down = true;
  await world.time.advance(MINUTE);
  assert.deepEqual(process.server.healthy().problems, ["the server has not been able to register"]);
  const lines = process.logs.filter((line) => line.startsWith("register"));
  assert.ok(lines.length >= 5 && lines.length <= 7, `logged ${lines.length} times in a minute`);
  const id = await world.client.enqueue(task, {});
  process.link.down = false;
  await world.reach(id, "succeeded", 10 * SECOND);
  await process.stop();
});

test("stopped before it could start", async () => {
  const world = await World.make();
  const process = world.start([task.handler(() => {})]);
  process.link.down = true;
  process.term();
  await world.time.settled(process.ended, MINUTE);
  assert.equal(world.time.armed, 0);
});

test("a claim that is answered while the server stops is handed back at once", async () => {
  const world = await World.make();
  const process = world.start([task.handler(() => assert.fail("must not run"))]);
  await world.time.advance(SECOND);
  process.link.delayReply.set("claim", 2 * SECOND);
  const id = await world.client.enqueue(task, {});
  await world.time.advance(100);
  process.term();
  await world.time.settled(process.ended, MINUTE);
  const job = await world.job(id);
  assert.equal(job.state, "enqueued");
  assert.equal(job.attempt, 0);
  assert.equal(job.history.at(-1)?.reason, "shutdown");
});

test("another server takes over at once what was handed back", async () => {
  const world = await World.make();
  const old = world.start([task.handler((_job, { signal }) => world.work(10 * MINUTE, signal))]);
  const id = await world.client.enqueue(task, {});
  await world.reach(id, "processing", SECOND);
  const next = world.start([task.handler(() => {})]);
  old.term();
  const job = await world.reach(id, "succeeded", 31 * SECOND);
  assert.equal(job.attempt, 1);
  await world.time.settled(old.ended, MINUTE);
  await next.stop();
});

test("the leader resigns when it stops, so that another leads at the next try", async () => {
  const world = await World.make();
  const first = world.start([task.handler(() => {})]);
  await world.time.advance(SECOND);
  const second = world.start([task.handler(() => {})]);
  await first.stop();
  await world.time.advance(6 * SECOND);
  assert.equal(second.server.stats().leader, true);
  await second.stop();
});

test("runUntilSignal: the first signal stops in order, later ones are the process's own again", async () => {
  const world = await World.make();
  const { Server } = await import("../../engine/server/server.ts");
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    const runtime = world.time.runtime();
    const handlers = [task.handler(() => world.work(10 * SECOND))];
    const server = new Server(world.store, { handlers, queues: { default: 1 }, runtime });
    const ended = server.runUntilSignal();
    const id = await world.client.enqueue(task, {});
    await world.reach(id, "processing", SECOND);
    assert.equal(runtime.listeners, 2);
    runtime.signal(signal);
    assert.equal(runtime.listeners, 0);
    await world.time.settled(ended, MINUTE);
    assert.equal((await world.job(id)).state, "succeeded");
  }
});
