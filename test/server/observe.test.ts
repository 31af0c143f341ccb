/** What a server tells the outside: events, durations, statistics, health; and what runs around its handlers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../engine/client.ts";
import { defineJob, type HandlerInterceptor } from "../../engine/job.ts";
import { constant, snooze } from "../../engine/retry.ts";
import type { HandlerRun } from "../../engine/server/config.ts";
import type { ServerEvent } from "../../engine/server/events.ts";
import type { ClaimReply, Store } from "../../engine/store.ts";
import { MINUTE, SECOND, World } from "./support.ts";

const task = defineJob<{ n: number }>("task", { backoff: constant("1s"), maxAttempts: 2 });

async function collect(events: AsyncIterable<ServerEvent>, into: ServerEvent[]): Promise<void> {
  for await (const event of events) into.push(event);
}

const moves = (events: readonly ServerEvent[]): string[] =>
  events.map((e) => (e.type === "dropped" ? `dropped ${e.count}` : `${e.from} > ${e.to} (${e.reason})`));

test("each transition that the server drives is an event, in order, and the events end with the server", async () => {
  const world = await World.make();
  let runs = 0;
  const process = world.start([
    task.handler((job) => {
      runs += 1;
      if (job.args.n === 1 && runs === 1) throw new Error("once");
      if (job.args.n === 2 && job.meta["napped"] === undefined && runs === 3) throw snooze("1s");
    }),
  ]);
  const events: ServerEvent[] = [];
  const collected = collect(process.server.events(), events);
  const first = await world.client.enqueue(task, { n: 1 });
  await world.reach(first, "succeeded", MINUTE);
  const second = await world.client.enqueue(task, { n: 2 });
  await world.reach(second, "succeeded", MINUTE);
  await process.stop();
  await collected;
  assert.deepEqual(moves(events), [
    "enqueued > processing (null)",
    "processing > scheduled (retry)",
    "enqueued > processing (null)",
    "processing > succeeded (null)",
    "enqueued > processing (null)",
    "processing > scheduled (snoozed)",
    "enqueued > processing (null)",
    "processing > succeeded (null)",
  ]);
  const [claimed, retried] = events;
  assert.ok(claimed?.type === "transition" && retried?.type === "transition");
  assert.deepEqual(claimed, {
    ...{ type: "transition", id: first, kind: "task", queue: "default", attempt: 1 },
    ...{ from: "enqueued", to: "processing", reason: null, server: process.server.id },
  });
});

test("an event says where a job really went: a cancelled retry is a deletion", async () => {
  const world = await World.make();
  const process = world.start([task.handler((_job, { signal }) => world.work(MINUTE, signal))]);
  const events: ServerEvent[] = [];
  const collected = collect(process.server.events(), events);
  const id = await world.client.enqueue(task, { n: 1 });
  await world.reach(id, "processing", SECOND);
  await world.client.delete([id]);
  await world.reach(id, "deleted", SECOND);
  await process.stop();
  await collected;
  assert.deepEqual(moves(events), ["enqueued > processing (null)", "processing > deleted (cancelled)"]);
});

test("so is a failure that comes before the handler has heard of it", async () => {
  const world = await World.make();
  const process = world.start([
    task.handler(async (job, { client }) => {
      await client.delete(job.id);
      throw new Error("on its own account");
    }),
  ]);
  const events: ServerEvent[] = [];
  const collected = collect(process.server.events(), events);
  const id = await world.client.enqueue(task, { n: 1 });
  const { history } = await world.reach(id, "deleted", SECOND);
  assert.equal(history.at(-1)?.reason, "cancelled");
  await process.stop();
  await collected;
  assert.deepEqual(moves(events), ["enqueued > processing (null)", "processing > deleted (cancelled)"]);
});

test("the leader's rescues are events of the leader", async () => {
  const world = await World.make();
  const leader = world.start([defineJob("other").handler(() => {})]);
  await world.time.advance(2 * MINUTE);
  const events: ServerEvent[] = [];
  const collected = collect(leader.server.events(), events);
  const victim = world.start([task.handler((_job, { signal }) => world.work(10 * MINUTE, signal))]);
  const id = await world.client.enqueue(task, { n: 1 });
  await world.reach(id, "processing", SECOND);
  victim.kill();
  await world.reach(id, "enqueued", 2 * MINUTE);
  await leader.stop();
  await collected;
  assert.deepEqual(moves(events), ["processing > enqueued (orphaned)"]);
});

test("a slow subscriber loses events, is told how many, and never holds the server up", async () => {
  const world = await World.make();
  const process = world.start([task.handler(() => {})]);
  const slow = process.server.events({ buffer: 3 });
  await world.client.enqueueMany(Array.from({ length: 50 }, (_, n) => task.spec({ n })));
  await world.time.until(() => process.server.stats().succeeded === 50, MINUTE);
  await process.stop();
  const events: ServerEvent[] = [];
  await collect(slow, events);
  assert.equal(events.length, 4);
  assert.deepEqual(events[3], { type: "dropped", count: 97 });
  assert.throws(() => process.server.events({ buffer: 0 }), { code: "invalid" });
});

test("every handler run's wall time is observed, and an observer that throws is harmless", async () => {
  const world = await World.make();
  const seen: HandlerRun[] = [];
  const handler = task.handler(async (job) => {
    await world.work(250);
    if (job.args.n === 1 && job.attempt === 1) throw new Error("once");
  });
  const onDuration = (run: HandlerRun): void => {
    seen.push(run);
    throw new Error("the histogram is broken");
  };
  const process = world.start([handler], { onDuration });
  const id = await world.client.enqueue(task, { n: 1 });
  await world.reach(id, "succeeded", MINUTE);
  assert.deepEqual(seen, [
    { kind: "task", queue: "default", succeeded: false, duration: 250 },
    { kind: "task", queue: "default", succeeded: true, duration: 250 },
  ]);
  assert.ok(process.logs.some((line) => line.startsWith("onDuration failed")));
  await process.stop();
});

test("interceptors run around every handler, the first outermost, and see args, output and errors", async () => {
  const world = await World.make();
  const trace: string[] = [];
  const around =
    (name: string): HandlerInterceptor =>
    async (job, _context, next) => {
      trace.push(`${name} before ${JSON.stringify(job.args)}`);
      const output = await next();
      trace.push(`${name} after ${JSON.stringify(output)}`);
      return `${name}(${String(output)})`;
    };
  const process = world.start([task.handler((job) => `run ${job.args.n}`)], {
    interceptors: [around("outer"), around("inner")],
  });
  const id = await world.client.enqueue(task, { n: 1 });
  const job = await world.reach(id, "succeeded", SECOND);
  assert.equal(job.output, '"outer(inner(run 1))"');
  assert.deepEqual(trace, [
    'outer before {"n":1}',
    'inner before {"n":1}',
    'inner after "run 1"',
    'outer after "inner(run 1)"',
  ]);
  await process.stop();
});

test("handlers enqueue with the client that the server was given, and its interceptors", async () => {
  const world = await World.make();
  const seen: string[] = [];
  const client = new Client(world.store, {
    interceptors: [
      (jobs, next) => {
        seen.push(...jobs.map((job) => job.kind));
        return next(jobs);
      },
    ],
  });
  const child = defineJob("child");
  const process = world.start(
    [task.handler((_job, context) => context.client.enqueue(child, {})), child.handler(() => {})],
    { client },
  );
  await world.client.enqueue(task, { n: 1 });
  await world.time.until(() => process.server.stats().succeeded === 2, SECOND);
  assert.deepEqual(seen, ["child"]);
  await process.stop();
});

test("a handler's log lines say which job they are about; a logger that throws is harmless", async () => {
  const world = await World.make();
  const process = world.start([task.handler((_job, { logger }) => logger.info("hello", { extra: 1 }))]);
  const id = await world.client.enqueue(task, { n: 1 });
  await world.reach(id, "succeeded", SECOND);
  assert.deepEqual(process.logs, [`hello {"job":${id},"kind":"task","attempt":1,"extra":1}`]);
  await process.stop();
  const broken = (): never => {
    throw new Error("the disk is full");
  };
  const logger = { debug: broken, info: broken, warn: broken, error: broken };
  const other = world.start([task.handler(() => {})], { logger });
  other.link.down = true;
  await world.time.advance(MINUTE);
  other.link.down = false;
  const next = await world.client.enqueue(task, { n: 1 });
  await world.reach(next, "succeeded", MINUTE);
  await other.stop();
});

test("a job of a kind without a handler, should one be claimed, is put off by a minute and fails when it is old enough", async () => {
  const world = await World.make();
  // A store that ignores the kinds asked for, as one of an older version might.
  const claim = world.store.claim.bind(world.store);
  const process = world.start([task.handler(() => {})], { unknownKindTtl: "1h" });
  Reflect.set(
    world.store,
    "claim",
    (query: Parameters<Store["claim"]>[0]): Promise<ClaimReply> => claim({ ...query, kinds: [] }),
  );
  const id = await world.client.enqueue(defineJob("stranger"), {});
  const job = await world.reach(id, "scheduled", 10 * SECOND);
  assert.equal(job.history.at(-1)?.reason, "unknown kind");
  assert.equal(job.attempt, 0);
  assert.ok(Math.abs(job.runAt.getTime() - world.time.now - MINUTE) <= 20);
  await world.time.advance(60 * MINUTE);
  const failed = await world.reach(id, "failed", 2 * MINUTE);
  assert.equal(failed.history.at(-1)?.reason, "unknown kind");
  await process.stop();
});

test("healthy: not before it runs, not when fenced, not with a stale heartbeat, not when results pile up", async () => {
  const world = await World.make();
  const process = world.start([task.handler(() => {})]);
  await world.time.advance(SECOND);
  assert.deepEqual(process.server.healthy(), { healthy: true, problems: [] });
  process.link.down = true;
  await world.time.advance(34 * SECOND);
  assert.match(process.server.healthy().problems.join(), /no heartbeat got through for \d+ ms/);
  await world.time.advance(20 * SECOND);
  assert.match(process.server.healthy().problems.join(), /fenced itself/);
  process.link.down = false;
  await world.time.advance(6 * SECOND);
  assert.equal(process.server.healthy().healthy, true);
  process.link.loseReply.set("finish", 1_000);
  const claimed = world.client.enqueue(task, { n: 1 });
  await world.time.advance(SECOND);
  process.link.delay.set("finish", 14 * SECOND);
  await claimed;
  const second = world.client.enqueue(task, { n: 2 });
  await world.time.advance(50 * SECOND);
  await second;
  assert.match(process.server.healthy().problems.join(), /results wait to be stored/);
  process.link.loseReply.clear();
  process.link.delay.clear();
  await world.time.advance(10 * SECOND);
  assert.equal(process.server.healthy().healthy, true);
  await process.stop();
  assert.deepEqual(process.server.healthy().problems, ["the server is not running"]);
});
