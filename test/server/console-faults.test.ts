/** The console while the store fails, hangs or is slow: the job does not suffer, and nothing stays behind. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClaimLostError, StoreError } from "../../engine/errors.ts";
import { start } from "./console-support.ts";
import { MINUTE, type Process, SECOND } from "./support.ts";

const HOUR = 60 * MINUTE;

const never = (): Promise<void> => new Promise(() => {});
const fails = async (): Promise<void> => {
  throw new StoreError("store_unavailable", "no route");
};

const reported = (process: Process): number => process.logs.filter((line) => line.startsWith("writeConsole")).length;

test("lines that the store does not take are dropped and reported, progress is said again, and the job goes on", async () => {
  const run = await start(async (job, world) => {
    for (let n = 0; n < 5; n++) {
      job.log(`${n}`);
      job.progress(n * 10);
      await world.work(3 * SECOND);
    }
    job.progress(40);
  });
  run.faults.push(async () => {}, fails, never, fails, fails);
  const job = await run.world.reach(run.id, "succeeded", MINUTE);
  assert.equal(job.attempt, 1);
  assert.deepEqual(await run.texts(), ["0"]);
  assert.equal(job.progress, 40, "with the last write");
  assert.deepEqual(run.writes.at(-1), { at: 15 * SECOND, lines: [], progress: 40 });
  assert.equal(run.writes.length, 6, "nothing is sent again on its own");
  assert.equal(run.process.server.stats().faults, 4);
  assert.equal(reported(run.process), 1, "not each one is logged");
  await run.process.stop();
});

test("progress that goes back to what it was is written, although the write in between seemed to fail", async () => {
  const { world, process, id } = await start(async (job) => {
    job.progress(5);
    await world.work(SECOND);
    process.link.loseReply.set("writeConsole", 1);
    job.progress(7);
    await world.work(SECOND);
    job.progress(5);
  });
  assert.equal((await world.reach(id, "succeeded", MINUTE)).progress, 5);
  await process.stop();
});

test("a lost claim ends the console, and is not the server's fault", async () => {
  const run = await start(async (job, world) => {
    for (let n = 0; n < 5; n++) {
      job.log(`${n}`);
      job.progress(n);
      await world.work(SECOND);
    }
  });
  run.faults.push(
    async () => {},
    async () => {
      throw new ClaimLostError("gone");
    },
  );
  await run.world.reach(run.id, "succeeded", MINUTE);
  assert.equal(run.writes.length, 2);
  assert.deepEqual(await run.texts(), ["0"]);
  assert.equal(run.process.server.stats().faults, 0);
  await run.process.stop();
  assert.equal(run.world.time.armed, 0);
});

test("the last write holds the outcome up for two seconds at most, whatever was under way", async () => {
  for (const work of [0, 300, 1_900]) {
    const run = await start(async (job, world) => {
      job.log("a");
      await world.work(work);
      job.log("b");
    });
    run.faults.push(never, never);
    const began = run.world.time.now;
    await run.world.reach(run.id, "succeeded", MINUTE);
    const took = run.world.time.now - began;
    assert.ok(took <= work + 2_020, `${work} ms of work took ${took} ms`);
    await run.process.stop();
    assert.equal(run.world.time.armed, 0);
  }
});

test("a handler that is abandoned at shutdown keeps its last lines and its outcome, however slow the store", async () => {
  const config = { heartbeatInterval: "100ms", shutdownTimeout: "1s", killGrace: "1s", deadAfter: "30s" } as const;
  const run = await start(
    async (job, world) => {
      await world.work(SECOND);
      job.log("the last");
      await world.work(HOUR);
    },
    {},
    config,
  );
  await run.world.time.advance(900);
  run.faults.push(() => run.world.work(1_900));
  const began = run.world.time.now;
  await run.process.stop();
  const took = run.world.time.now - began;
  assert.ok(took <= 4_020, `stopped after ${took} ms`);
  assert.deepEqual(await run.texts(), ["the last"]);
  const job = await run.world.job(run.id);
  assert.equal(job.state, "enqueued");
  assert.equal(job.history.at(-1)?.reason, "shutdown");
});

test("a store that hangs delays a shutdown by two seconds at most and leaves nothing behind", async () => {
  const run = await start(async (job, world, { signal }) => {
    job.log("a");
    await world.work(5 * SECOND, signal);
    job.log("b");
  });
  await run.world.time.advance(4_900);
  run.faults.push(never);
  const began = run.world.time.now;
  await run.process.stop();
  const took = run.world.time.now - began;
  assert.ok(took > SECOND && took <= 2_200, `stopped after ${took} ms`);
  assert.equal((await run.world.job(run.id)).state, "succeeded");
  assert.equal(run.world.time.armed, 0);
});
