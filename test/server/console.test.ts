/** Log lines and progress of handlers, from the call to the store. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { constant } from "../../engine/retry.ts";
import { TRUNCATED } from "../../engine/rules/console.ts";
import { hostileProxy, revokedProxy } from "../client/support.ts";
import { start } from "./console-support.ts";
import { MINUTE, SECOND } from "./support.ts";

test("what happens within a quarter of a second is written together, and the rest before the outcome", async () => {
  const { world, process, id, writes, texts } = await start(async (job) => {
    job.log("a");
    job.progress(10);
    await world.work(249);
    job.log("b\n");
    job.progress(20);
    await world.work(101);
    job.log("c");
    await world.work(SECOND);
    job.log("d");
    job.progress(100);
  });
  await world.reach(id, "succeeded", MINUTE);
  assert.deepEqual(writes, [
    { at: 250, lines: ["a", "b"], progress: 20 },
    { at: 600, lines: ["c"], progress: null },
    { at: 1_350, lines: ["d"], progress: 100 },
  ]);
  const calls = process.link.calls.filter((name) => name === "writeConsole" || name === "finish");
  assert.deepEqual(calls, ["writeConsole", "writeConsole", "writeConsole", "finish"]);
  assert.deepEqual(await texts(), ["a", "b", "c", "d"]);
  assert.equal((await world.client.get(id))?.progress, 100);
  await process.stop();
  assert.equal(world.time.armed, 0);
});

test("what comes while a write is under way waits for the next one", async () => {
  const run = await start(async (job, world) => {
    job.log("a");
    await world.work(300);
    job.log("b");
    await world.work(500);
    job.log("c");
    await world.work(2 * SECOND);
  });
  run.faults.push(() => run.world.work(SECOND));
  await run.world.reach(run.id, "succeeded", MINUTE);
  assert.deepEqual(run.writes, [
    { at: 250, lines: ["a"], progress: null },
    { at: 1_500, lines: ["b", "c"], progress: null },
  ]);
  await run.process.stop();
});

test("a job that never logs costs nothing", async () => {
  const run = await start((job, world) => world.work(MINUTE).then(() => job.heartbeat()));
  await run.world.time.advance(100);
  const armed = run.world.time.armed;
  await run.world.reach(run.id, "succeeded", 2 * MINUTE);
  await run.process.stop();
  assert.ok(!run.process.link.calls.includes("writeConsole"));

  const logging = await start(async (job, world) => {
    job.log("a");
    await world.work(MINUTE);
  });
  await logging.world.time.advance(100);
  assert.equal(logging.world.time.armed, armed + 1, "one timer while something is not written yet");
  await logging.world.time.advance(300);
  assert.equal(logging.world.time.armed, armed);
  logging.process.kill();
});

test("progress is written when it has changed, and first of all in any case", async () => {
  const { world, process, id, writes } = await start(async (job) => {
    for (const value of [0, 0, 5, 5, 250, -250, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0.5]) {
      job.progress(value);
      await world.work(SECOND);
    }
    job.progress(7);
    job.progress(0.5);
    await world.work(SECOND);
    job.progress(9);
    job.progress("10" as unknown as number);
  });
  await world.reach(id, "succeeded", MINUTE);
  assert.deepEqual(
    writes.map(({ progress }) => progress),
    [0, 5, 100, 0, 100, 0, 0.5, 9],
  );
  assert.equal((await world.job(id)).progress, 9);
  await process.stop();
});

test("each attempt reports its progress anew", async () => {
  const run = await start(
    async (job) => {
      job.progress(job.attempt === 1 ? 80 : 0);
      if (job.attempt === 1) throw new Error("once");
    },
    { backoff: constant("1s") },
  );
  assert.equal((await run.world.reach(run.id, "scheduled", SECOND)).progress, 80);
  assert.equal((await run.world.reach(run.id, "succeeded", MINUTE)).progress, 0);
  await run.process.stop();
});

test("an attempt keeps 1,000 lines and says that there were more; the next attempt has as many again", async () => {
  const run = await start(
    async (job, world) => {
      for (let n = 1; n <= 1_500; n++) {
        job.log(`${job.attempt}: ${n}`);
        if (n % 400 === 0) await world.work(SECOND);
      }
      job.progress(50);
      if (job.attempt === 1) throw new Error("once");
    },
    { backoff: constant("1s") },
  );
  const job = await run.world.reach(run.id, "succeeded", MINUTE);
  assert.equal(job.progress, 50, "progress goes on");
  const lines = [];
  for (let after = 0; ; after = lines.at(-1)?.seq ?? 0) {
    const page = await run.world.client.console(run.id, { after, limit: 500 });
    if (page.length === 0) break;
    lines.push(...page);
  }
  const expected = [1, 2].flatMap((attempt) => [
    ...Array.from({ length: 1_000 }, (_, n) => ({ attempt, text: `${attempt}: ${n + 1}` })),
    { attempt, text: TRUNCATED },
  ]);
  assert.deepEqual(
    lines.map(({ attempt, text }) => ({ attempt, text })),
    expected,
  );
  await run.process.stop();
});

test("lines and progress are signs of life", async () => {
  for (const sign of ["log", "progress"] as const) {
    const run = await start(
      async (job, world, { signal }) => {
        for (let n = 0; n < 5; n++) {
          await world.work(15 * SECOND, signal);
          // Also those that are not written, because there were too many or nothing has changed.
          for (let line = 0; line < 500 && sign === "log"; line++) job.log("alive");
          if (sign === "progress") job.progress(1);
        }
      },
      { stallTimeout: "20s" },
    );
    await run.world.reach(run.id, "succeeded", 2 * MINUTE);
    assert.equal((await run.world.job(run.id)).attempt, 1);
    await run.process.stop();
  }
});

test("what is said after the end is ignored: by an abandoned handler, and by work that was not waited for", async () => {
  const abandoned = await start(
    async (job, world) => {
      job.log("before");
      await world.work(MINUTE);
      job.log("after");
      job.progress(5);
    },
    { timeout: "10s" },
  );
  await abandoned.world.reach(abandoned.id, "scheduled", 30 * SECOND);
  await abandoned.world.time.advance(2 * MINUTE);
  assert.deepEqual(abandoned.writes, [{ at: 250, lines: ["before"], progress: null }]);
  await abandoned.process.stop();

  const careless = await start(async (job, world) => {
    void world.work(100).then(() => job.log("late"));
  });
  await careless.world.reach(careless.id, "succeeded", SECOND);
  await careless.world.time.advance(SECOND);
  assert.deepEqual(careless.writes, []);
  await careless.process.stop();
});

test("whatever is logged, the handler does not see an error", async () => {
  const values = [undefined, null, 5n, Symbol("s"), {}, hostileProxy(), revokedProxy(), "\ud800\u0000", "", "\n"];
  const run = await start(async (job) => {
    const { log, progress } = job;
    for (const value of values) {
      assert.equal(log(value as string), undefined);
      assert.equal(progress(value as unknown as number), undefined);
    }
  });
  const job = await run.world.reach(run.id, "succeeded", SECOND);
  assert.equal(job.progress, null);
  const texts = await run.texts();
  assert.equal(texts.length, values.length);
  assert.deepEqual(texts.slice(-3), ["\ufffd", "", ""]);
  await run.process.stop();
});
