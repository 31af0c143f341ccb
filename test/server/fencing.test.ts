/**
 * The seven faults that a naive engine of this shape gets wrong (design, section 9), and each line of defence with the
 * other one taken away.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FencedError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import { MINUTE, type Process, SECOND, World } from "./support.ts";

const task = defineJob("task");
const idle = defineJob("other").handler(() => {});

/** A log of what ran when, over all processes. */
class Runs {
  readonly all: { process: string; from: number; to: number | null; reason: unknown }[] = [];
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** A handler that works for `ms` milliseconds; one that is stubborn does so whatever its signal says. */
  handler(process: string, ms: number, stubborn = false) {
    return task.handler(async (_job, { signal }) => {
      const run = { process, from: this.#world.time.now, to: null as number | null, reason: undefined as unknown };
      this.all.push(run);
      try {
        await this.#world.work(ms, stubborn ? undefined : signal);
      } finally {
        run.to = this.#world.time.now;
        run.reason = signal.reason;
      }
    });
  }

  /** Pairs of runs that were going on at the same time. */
  get overlaps(): number {
    const end = (to: number | null): number => to ?? Number.POSITIVE_INFINITY;
    return this.all.filter((a, i) => this.all.some((b, j) => j > i && b.from < end(a.to) && a.from < end(b.to))).length;
  }
}

test("1. a claim whose reply is lost, on a server that lives on: the job is handed back and run, no attempt used", async () => {
  const world = await World.make();
  const runs = new Runs(world);
  const process = world.start([runs.handler("only", 10)]);
  await world.time.advance(SECOND);
  process.link.loseReply.set("claim", 1);
  const id = await world.client.enqueue(task, {});
  await world.time.advance(10);
  assert.equal((await world.job(id)).state, "processing");
  const job = await world.reach(id, "succeeded", 10 * SECOND);
  assert.equal(job.attempt, 1);
  assert.deepEqual(
    job.history.map((h) => h.reason),
    ["lost"],
  );
  assert.equal(process.server.stats().lost, 1);
  assert.ok(process.runtime.marks.has("lost job handed back"));
  await process.stop();
});

test("1b. a claim that is answered after its deadline: the jobs go back at once", async () => {
  const world = await World.make();
  const runs = new Runs(world);
  const process = world.start([runs.handler("only", 10)]);
  await world.time.advance(SECOND);
  process.link.delayReply.set("claim", 7 * SECOND);
  const id = await world.client.enqueue(task, {});
  await world.time.advance(10);
  process.link.delayReply.delete("claim");
  const job = await world.reach(id, "succeeded", 12 * SECOND);
  assert.equal(job.attempt, 1);
  assert.equal(runs.all.length, 1);
  await process.stop();
});

test("2. a server that fences itself and recovers gives back what it aborted, no attempt used", async () => {
  const world = await World.make();
  const runs = new Runs(world);
  const process = world.start([runs.handler("only", 58 * SECOND)]);
  const id = await world.client.enqueue(task, {});
  await world.time.advance(SECOND);
  process.link.down = true;
  await world.time.until(() => process.server.stats().fenced, MINUTE);
  assert.equal(process.server.healthy().healthy, false);
  assert.ok(runs.all[0]?.reason === undefined || runs.all[0].reason instanceof FencedError);
  await world.time.advance(SECOND);
  assert.ok(runs.all[0]?.reason instanceof FencedError);
  process.link.down = false;
  const job = await world.reach(id, "succeeded", 2 * MINUTE);
  assert.equal(job.attempt, 1);
  assert.deepEqual(
    job.history.map((h) => h.reason),
    ["lost"],
  );
  assert.equal(process.server.stats().fenced, false);
  assert.equal(process.server.healthy().healthy, true);
  assert.equal(runs.overlaps, 0);
  await process.stop();
});

test("2b. a job that succeeds though its server was fenced and recovered is not run again", async () => {
  const world = await World.make();
  const runs = new Runs(world);
  // Needs four seconds more than the fence allows and takes them from killGrace.
  const process = world.start([runs.handler("only", 54 * SECOND, true)]);
  const id = await world.client.enqueue(task, {});
  await world.time.advance(SECOND);
  process.link.down = true;
  await world.time.advance(56 * SECOND);
  process.link.down = false;
  const job = await world.reach(id, "succeeded", MINUTE);
  assert.equal(job.attempt, 1);
  assert.equal(runs.all.length, 1);
  await process.stop();
});

test("3. an outcome is kept for as long as the store is away", async () => {
  const world = await World.make();
  const runs = new Runs(world);
  const process = world.start([runs.handler("only", SECOND)]);
  const id = await world.client.enqueue(task, {});
  await world.time.advance(100);
  for (let n = 0; n < 20; n++) process.link.loseReply.set("finish", 20);
  process.link.delay.set("finish", 0);
  const job = await world.reach(id, "succeeded", 10 * SECOND);
  assert.equal(job.attempt, 1);
  await world.time.advance(2 * MINUTE);
  // The first try was applied, all others came back stale: safe to send again.
  assert.equal(process.server.stats().pending, 0);
  assert.equal(runs.all.length, 1);
  await process.stop();
});

test("4. a heartbeat's list that is older than a claim in flight takes nothing away from it", async () => {
  const world = await World.make();
  const runs = new Runs(world);
  const process = world.start([runs.handler("only", 20 * SECOND)], { pollInterval: 100 });
  await world.time.advance(SECOND);
  // The claim's reply takes four seconds: beats before, during and after it see the job or do not see it.
  process.link.delayReply.set("claim", 4 * SECOND);
  process.link.delayReply.set("heartbeat", 3 * SECOND);
  const id = await world.client.enqueue(task, {});
  const job = await world.reach(id, "succeeded", MINUTE);
  assert.equal(job.attempt, 1);
  assert.deepEqual(job.history, []);
  assert.equal(runs.all.length, 1);
  assert.equal(process.server.stats().lost, 0);
  await process.stop();
});

test("5. a claim that reaches the store after its server was declared dead gets nothing", async () => {
  const world = await World.make();
  const runs = new Runs(world);
  const leader = world.start([idle]);
  await world.time.advance(2 * MINUTE);
  const victim = world.start([runs.handler("victim", SECOND)]);
  await world.time.advance(10 * SECOND);
  victim.link.delay.set("claim", 80 * SECOND);
  await world.time.advance(2 * SECOND);
  victim.link.delay.set("heartbeat", 5 * MINUTE);
  const id = await world.client.enqueue(task, {}, { delay: "60s" });
  await world.time.advance(78 * SECOND);
  assert.ok((await world.store.servers()).some((s) => s.deadAt !== null));
  await world.time.advance(30 * SECOND);
  const job = await world.job(id);
  assert.equal(job.attempt, 0, "not claimed by the dead");
  victim.kill();
  await leader.stop();
});

test("6. a late heartbeat does not bring a dead server back; the server starts over under a new id", async () => {
  const world = await World.make();
  const runs = new Runs(world);
  const leader = world.start([idle]);
  await world.time.advance(2 * MINUTE);
  const victim = world.start([runs.handler("victim", 10 * MINUTE)]);
  const other = world.start([runs.handler("other", SECOND)], { queues: { default: 1 } });
  const { id: firstId } = victim.server;
  // Only the victim has room.
  await other.stop();
  const id = await world.client.enqueue(task, {});
  await world.reach(id, "processing", SECOND);
  const rescuer = world.start([runs.handler("rescuer", SECOND)], { maintenance: false });
  victim.link.down = true;
  const job = await world.reach(id, "succeeded", 3 * MINUTE);
  assert.equal(job.attempt, 2);
  assert.equal(runs.overlaps, 0);
  victim.link.down = false;
  await world.time.advance(10 * SECOND);
  assert.notEqual(victim.server.id, firstId);
  const dead = (await world.store.servers()).find((s) => s.id === firstId);
  assert.ok(dead?.deadAt);
  assert.equal(victim.server.healthy().healthy, true);
  const next = await world.client.enqueue(task, {});
  await rescuer.stop();
  await world.reach(next, "processing", SECOND);
  victim.kill();
  await leader.stop();
});

/** A job is running on `victim` when its link goes silent for `ms` milliseconds; another server may take it over. */
async function cutOff(options: { serverBuggify?: string[]; storeBuggify?: string[]; ms: number; works: number }) {
  const world = await World.make(options.storeBuggify);
  const runs = new Runs(world);
  const leader = world.start([idle]);
  await world.time.advance(2 * MINUTE);
  const victim = world.start([runs.handler("victim", options.works)], {}, options.serverBuggify);
  const id = await world.client.enqueue(task, {});
  await world.reach(id, "processing", SECOND);
  const other = world.start([runs.handler("other", options.works)], { maintenance: false });
  await world.time.advance(10 * SECOND);
  victim.link.down = true;
  await world.time.advance(options.ms);
  victim.link.down = false;
  await world.time.advance(options.works + 2 * MINUTE);
  const job = await world.job(id);
  const end = async (...processes: Process[]): Promise<void> => {
    for (const process of processes) await process.stop();
  };
  await end(victim, other, leader);
  return { world, runs, job, victim, other };
}

test("7. fencing: a handler that obeys its signal never overlaps with the rescued run", async () => {
  for (const ms of [40, 49, 50, 55, 60, 64, 66, 70, 90, 200]) {
    const { runs, job } = await cutOff({ ms: ms * SECOND, works: 150 * SECOND });
    assert.equal(job.state, "succeeded", `cut off for ${ms} s`);
    assert.equal(runs.overlaps, 0, `cut off for ${ms} s`);
  }
});

test("7a. without the fence the runs overlap, but the claim's number still keeps the late result out", async () => {
  const { runs, job, victim, other } = await cutOff({
    serverBuggify: ["heartbeat.no-fence"],
    ms: 100 * SECOND,
    works: 150 * SECOND,
  });
  assert.ok(runs.overlaps > 0, "the fence is what keeps them apart");
  assert.equal(job.state, "succeeded");
  assert.equal(job.server, other.server.id, "the result is the rescuer's");
  assert.equal(victim.server.stats().succeeded, 0);
  assert.equal(victim.server.stats().stale, 1);
  assert.equal(job.attempt, 2);
});

test("7b. without the claim's number the fence alone keeps late results out", async () => {
  const { runs, job, victim } = await cutOff({
    storeBuggify: ["store.no-claim-check"],
    ms: 100 * SECOND,
    works: 150 * SECOND,
  });
  assert.equal(runs.overlaps, 0);
  assert.equal(job.state, "succeeded");
  assert.equal(victim.server.stats().succeeded, 0);
});

test("7c. without either a late result is taken for the new run's: this test can see what it guards against", async () => {
  const { runs, victim } = await cutOff({
    serverBuggify: ["heartbeat.no-fence"],
    storeBuggify: ["store.no-claim-check"],
    ms: 100 * SECOND,
    works: 150 * SECOND,
  });
  assert.ok(runs.overlaps > 0);
  assert.equal(victim.server.stats().succeeded, 1);
});

test("silence counts from when a beat was sent, not from when its reply came", async () => {
  const world = await World.make();
  const runs = new Runs(world);
  const process = world.start([runs.handler("only", 10 * MINUTE)]);
  await world.client.enqueue(task, {});
  await world.time.advance(SECOND);
  // Each beat gets through, but its reply is so late that the next one is already due.
  process.link.delayReply.set("heartbeat", 4_900);
  await world.time.advance(MINUTE);
  process.link.down = true;
  const lastSent = world.time.now - (process.server.stats().heartbeatAge ?? 0);
  await world.time.until(() => process.server.stats().fenced, 2 * MINUTE);
  assert.equal(world.time.now - lastSent, 50 * SECOND);
  process.kill();
});
