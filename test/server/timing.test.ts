/** The timings that the operating guide promises, at the defaults, to the millisecond of virtual time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { defineJob, type Handler } from "../../engine/job.ts";
import { constant, exponential } from "../../engine/retry.ts";
import { MINUTE, SECOND, World } from "./support.ts";

const long = defineJob("long", { backoff: constant("7s") });

const idle = defineJob("other").handler(() => {});

/** Kills the server that runs the only job, `phase` milliseconds into a heartbeat; another that could run it is there. */
async function killRunner(victimLeads: boolean, phase: number) {
  const world = await World.make();
  const starts: string[] = [];
  const run = (process: string): Handler =>
    long.handler((_job, { signal }) => {
      starts.push(process);
      return world.work(10 * MINUTE, signal);
    });
  if (!victimLeads) world.start([idle]);
  await world.time.advance(2 * MINUTE);
  const victim = world.start([run("victim")]);
  await world.client.enqueue(long, {});
  await world.time.advance(SECOND);
  world.start([run("other")], { maintenance: victimLeads });
  await world.time.advance(MINUTE + phase);
  assert.deepEqual(starts, ["victim"]);
  assert.equal(victim.server.stats().leader, victimLeads);
  victim.kill();
  const killedAt = world.time.now;
  await world.time.until(() => starts.length === 2, 3 * MINUTE);
  assert.deepEqual(starts, ["victim", "other"]);
  return world.time.now - killedAt;
}

for (const phase of [0, 1, 1_234, 2_500, 4_999]) {
  test(`a killed worker's job restarts 60 to 70 s later (killed ${phase} ms into a heartbeat)`, async () => {
    const after = await killRunner(false, phase);
    assert.ok(after >= 60 * SECOND && after <= 70 * SECOND, `restarted after ${after} ms`);
  });

  test(`about 20 s more when it was the leader (killed ${phase} ms into a heartbeat)`, async () => {
    const after = await killRunner(true, phase);
    assert.ok(after >= 75 * SECOND && after <= 90 * SECOND, `restarted after ${after} ms`);
  });
}

test("a job rescued twice in a row waits for its backoff; the rescued attempts count", async () => {
  const world = await World.make();
  // The leader knows the kind, and so its backoff, but does not serve its queue.
  const leader = world.start([long.handler(() => {})], { queues: { elsewhere: 1 } });
  await world.time.advance(2 * MINUTE);
  const id = await world.client.enqueue(long, {});
  const waits: number[] = [];
  for (let round = 0; round < 2; round++) {
    const victim = world.start([long.handler((_job, { signal }) => world.work(10 * MINUTE, signal))]);
    await world.reach(id, "processing", MINUTE);
    victim.kill();
    const job = await world.reach(id, ["enqueued", "scheduled"], 2 * MINUTE);
    waits.push(job.runAt.getTime() - world.time.now);
    assert.equal(job.attempt, round + 1);
    assert.equal(job.history.at(-1)?.reason, "orphaned");
    assert.match(job.history.at(-1)?.error ?? "", new RegExp(victim.server.id));
  }
  assert.ok((waits[0] ?? 1) <= 0, "the first rescue goes straight back to the queue");
  assert.ok((waits[1] ?? 0) > 6.9 * SECOND && (waits[1] ?? 0) <= 7 * SECOND, `the second waits ${waits[1]} ms`);
  assert.equal(leader.server.stats().rescued, 2);
  await leader.stop();
});

test("a job whose last attempt was lost with its server fails", async () => {
  const world = await World.make();
  const leader = world.start([idle]);
  await world.time.advance(2 * MINUTE);
  const id = await world.client.enqueue(long, {}, { maxAttempts: 1 });
  const victim = world.start([long.handler((_job, { signal }) => world.work(10 * MINUTE, signal))]);
  await world.reach(id, "processing", MINUTE);
  victim.kill();
  const job = await world.reach(id, "failed", 2 * MINUTE);
  assert.equal(job.history.at(-1)?.reason, "orphaned");
  await leader.stop();
});

test("exponential(2s, 2m) with 12 attempts waits six to twelve minutes in all", async () => {
  const pay = defineJob("pay", { backoff: exponential("2s", "2m"), maxAttempts: 12 });
  for (const [random, least, most] of [
    [() => 0, 6, 6.3],
    [() => 0.999_999, 12, 12.6],
  ] as const) {
    const world = await World.make();
    const starts: number[] = [];
    const failing = pay.handler(() => {
      starts.push(world.time.now);
      throw new Error("the API is down");
    });
    const runtime = world.time.runtime({ random });
    const process = world.start([failing], { runtime });
    const id = await world.client.enqueue(pay, {});
    await world.reach(id, "failed", 15 * MINUTE);
    const waited = ((starts.at(-1) ?? 0) - (starts[0] ?? 0)) / MINUTE;
    assert.equal(starts.length, 12);
    assert.ok(waited >= least && waited <= most, `waited ${waited} minutes`);
    await process.stop();
  }
});

test("an idle server at the defaults makes at most 2 statements a second", async () => {
  const world = await World.make();
  const process = world.start([long.handler(() => {})]);
  await world.time.advance(2 * MINUTE);
  process.link.calls.length = 0;
  await world.time.advance(10 * MINUTE);
  const perSecond = process.link.calls.length / 600;
  assert.ok(perSecond <= 2, `${perSecond} calls a second`);
  await process.stop();
});

test("a new leader rescues nobody before deadAfter and a heartbeat have passed, however stale all servers look", async () => {
  const world = await World.make();
  const runner = world.start([long.handler((_job, { signal }) => world.work(10 * MINUTE, signal))], {
    maintenance: false,
  });
  const id = await world.client.enqueue(long, {});
  await world.reach(id, "processing", SECOND);
  // The database was away for a while; the leader comes up first when it returns.
  runner.link.down = true;
  await world.time.advance(45 * SECOND);
  const leader = world.start([idle]);
  await world.time.advance(4 * SECOND);
  runner.link.down = false;
  await world.time.advance(2 * MINUTE);
  assert.equal((await world.job(id)).state, "processing");
  assert.equal((await world.job(id)).attempt, 1);
  assert.equal(leader.server.stats().rescued, 0);
  await runner.stop();
  await leader.stop();
});
