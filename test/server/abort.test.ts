/** Every way in which a running handler is asked to stop, with handlers that obey and handlers that do not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CancelledError, ClaimLostError, StallError, TimeoutError } from "../../engine/errors.ts";
import { defineJob, type JobOptions } from "../../engine/job.ts";
import { constant } from "../../engine/retry.ts";
import type { JobState } from "../../engine/store.ts";
import { MINUTE, SECOND, World } from "./support.ts";

const HOUR = 60 * MINUTE;

/** Runs one job whose handler works for an hour, obeying its signal or not, and returns what is known a while later. */
async function runOne(options: JobOptions & { obeys: boolean; act?: (world: World, id: number) => Promise<void> }) {
  const { obeys, act, ...jobOptions } = options;
  const world = await World.make();
  const kind = defineJob("slow", { backoff: constant("1h"), ...jobOptions });
  let signal: AbortSignal | undefined;
  const slow = kind.handler((_job, context) => {
    signal = context.signal;
    return world.work(HOUR, obeys ? signal : undefined);
  });
  const process = world.start([slow]);
  const id = await world.client.enqueue(kind, {});
  await world.reach(id, "processing", SECOND);
  const started = world.time.now;
  await act?.(world, id);
  const ended = async (state: JobState): Promise<number> => {
    await world.reach(id, state, 10 * MINUTE);
    return world.time.now - started;
  };
  return { world, process, id, ended, reason: () => signal?.reason as unknown };
}

test("an attempt that takes longer than its timeout is aborted and retried", async () => {
  const run = await runOne({ timeout: "2m", obeys: true });
  const after = await run.ended("scheduled");
  assert.ok(Math.abs(after - 2 * MINUTE) <= 10, `after ${after} ms`);
  assert.ok(run.reason() instanceof TimeoutError);
  const job = await run.world.job(run.id);
  assert.equal(job.history.at(-1)?.reason, "retry");
  assert.match(job.history.at(-1)?.error ?? "", /timed out after 120000 ms/);
  assert.equal(run.process.server.stats().abandoned, 0);
  await run.process.stop();
});

test("a handler that ignores the abort is abandoned after killGrace and its worker is free again", async () => {
  const run = await runOne({ timeout: "2m", obeys: false });
  const after = await run.ended("scheduled");
  assert.ok(Math.abs(after - 2 * MINUTE - 5 * SECOND) <= 10, `after ${after} ms`);
  const { abandoned, inFlight } = run.process.server.stats();
  assert.deepEqual({ abandoned, inFlight }, { abandoned: 1, inFlight: 0 });
  assert.match((await run.world.job(run.id)).history.at(-1)?.error ?? "", /ignored its abort signal.*timed out/s);
  assert.ok(run.process.logs.some((line) => line.startsWith("abandoned")));
  await run.process.stop();
});

test("the timeout of the job goes before that of its kind, and that before the server's; false is none", async () => {
  const world = await World.make();
  const ends: Record<string, number> = {};
  const start = world.time.now;
  const kinds = {
    job: defineJob("job", { timeout: "3m" }),
    kind: defineJob("kind", { timeout: "2m" }),
    server: defineJob("server"),
    none: defineJob("none"),
  };
  const handlers = Object.values(kinds).map((kind) =>
    kind.handler(async (job, { signal }) => {
      await world.work(HOUR, signal).finally(() => {
        ends[job.kind] = world.time.now - start;
      });
    }),
  );
  const process = world.start(handlers, { timeout: "1m" });
  await world.client.enqueue(kinds.job, {}, { timeout: "4m", maxAttempts: 1 });
  await world.client.enqueue(kinds.kind, {}, { maxAttempts: 1 });
  await world.client.enqueue(kinds.server, {}, { maxAttempts: 1 });
  await world.client.enqueue(kinds.none, {}, { timeout: false, maxAttempts: 1 });
  await world.time.advance(2 * HOUR);
  assert.deepEqual(ends, { server: MINUTE, kind: 2 * MINUTE, job: 4 * MINUTE, none: HOUR });
  await process.stop();
});

test("a handler that shows no sign of life for its stall timeout is aborted and retried, however long it may run", async () => {
  const world = await World.make();
  const kind = defineJob("export", { stallTimeout: "20s", timeout: "2h", backoff: constant("1h") });
  let reason: unknown;
  const process = world.start([
    kind.handler(async (job, { signal }) => {
      signal.addEventListener("abort", () => {
        reason = signal.reason;
      });
      for (let n = 0; n < 100; n++) {
        await world.work(15 * SECOND, signal);
        if (n % 2 === 0) job.heartbeat();
        else await job.setParam("row", n);
      }
      await world.work(HOUR, signal);
    }),
  ]);
  const id = await world.client.enqueue(kind, {});
  await world.time.advance(100 * 15 * SECOND + 19 * SECOND);
  assert.equal((await world.job(id)).state, "processing");
  const job = await world.reach(id, "scheduled", 2 * SECOND);
  assert.ok(reason instanceof StallError);
  assert.equal(job.history.at(-1)?.reason, "retry");
  assert.match(job.history.at(-1)?.error ?? "", /no sign of life for 20000 ms/);
  assert.deepEqual(job.params, { row: "99" });
  await process.stop();
});

test("a hung handler, which does not even look at its signal, is noticed and retried within half a minute", async () => {
  const run = await runOne({ stallTimeout: "20s", timeout: "5h", obeys: false });
  const after = await run.ended("scheduled");
  assert.ok(after <= 30 * SECOND, `after ${after} ms`);
  run.process.kill();
});

test("deleting a running job aborts it at once in the same process", async () => {
  const act = async (world: World, id: number): Promise<void> => {
    await world.time.advance(1_234);
    assert.equal(await world.client.delete([id]), 1);
  };
  const run = await runOne({ obeys: true, act });
  const after = await run.ended("deleted");
  assert.ok(after <= 1_234 + 100, `after ${after} ms`);
  assert.ok(run.reason() instanceof CancelledError);
  assert.equal((await run.world.job(run.id)).history.at(-1)?.reason, "cancelled");
  await run.process.stop();
});

test("without events a cancellation is seen by the next heartbeat", async () => {
  const world = await World.make();
  const kind = defineJob("slow");
  const slow = kind.handler((_job, { signal }) => world.work(HOUR, signal));
  const process = world.start([slow]);
  // A server that gets no events at all: it has unsubscribed behind its back.
  const id = await world.client.enqueue(kind, {});
  await world.reach(id, "processing", 2 * SECOND);
  process.link.delay.set("heartbeat", 1);
  await world.client.delete([id]);
  await world.reach(id, "deleted", 6 * SECOND);
  await process.stop();
});

test("a cancelled handler that succeeds all the same has succeeded", async () => {
  const world = await World.make();
  const kind = defineJob("slow");
  const process = world.start([kind.handler(() => world.work(3 * SECOND))]);
  const id = await world.client.enqueue(kind, {});
  await world.reach(id, "processing", SECOND);
  await world.client.delete([id]);
  await world.reach(id, "succeeded", 10 * SECOND);
  await process.stop();
});

test("a job past its deadline is deleted without being run, also when that was to be a retry", async () => {
  const world = await World.make();
  let runs = 0;
  const kind = defineJob("quote", { backoff: constant("1m") });
  const process = world.start([
    kind.handler(() => {
      runs += 1;
      throw new Error("not now");
    }),
  ]);
  const deadline = new Date(world.time.now + 90 * SECOND);
  const id = await world.client.enqueue(kind, {}, { deadline });
  const job = await world.reach(id, "deleted", 10 * MINUTE);
  assert.equal(runs, 2);
  assert.deepEqual(
    job.history.map((h) => h.reason),
    ["retry", "retry", "deadline"],
  );
  await process.stop();
});

test("checkpoints survive the attempts, and are refused once the claim is lost", async () => {
  const world = await World.make();
  const seen: unknown[] = [];
  let late: Promise<void> | undefined;
  const kind = defineJob("import", { backoff: constant("1s"), timeout: "10s" });
  const process = world.start([
    kind.handler(async (job) => {
      seen.push(job.param("row"), job.param("none"));
      if (job.attempt === 1) {
        await job.setParam("row", { n: 7 });
        assert.deepEqual(job.param("row"), { n: 7 });
        throw new Error("once");
      }
      if (job.attempt === 2) {
        // Ignores its abort, is abandoned, and tries to save what it did all the same.
        late = world.work(MINUTE).then(() => job.setParam("row", 8));
        late.catch(() => {});
        await late;
      }
    }),
  ]);
  const id = await world.client.enqueue(kind, {});
  const job = await world.reach(id, "succeeded", MINUTE);
  assert.deepEqual(seen, [undefined, undefined, { n: 7 }, undefined, { n: 7 }, undefined]);
  assert.deepEqual(job.params, { row: '{"n":7}' });
  await world.time.advance(MINUTE);
  await assert.rejects(late as Promise<void>, ClaimLostError);
  await process.stop();
});

test("a checkpoint is saved again when a passing fault kept it from the store", async () => {
  const world = await World.make();
  const kind = defineJob("import");
  const process = world.start([kind.handler((job) => job.setParam("row", 1))]);
  process.link.loseReply.set("setParams", 3);
  const id = await world.client.enqueue(kind, {});
  const job = await world.reach(id, "succeeded", 10 * SECOND);
  assert.equal(job.attempt, 1);
  assert.deepEqual(job.params, { row: "1" });
  await process.stop();
});

test("an output that is no JSON, or too large, fails the job with a reason", async () => {
  const world = await World.make();
  const bad = defineJob("bad").handler(() => ({ n: Number.NaN }));
  const huge = defineJob("huge").handler(() => "x".repeat(1024 * 1024));
  const process = world.start([bad, huge]);
  for (const kind of ["bad", "huge"]) {
    const id = await world.client.enqueue(defineJob(kind), {});
    const job = await world.reach(id, "failed", SECOND);
    assert.equal(job.history.at(-1)?.reason, "output rejected");
    assert.match(job.history.at(-1)?.error ?? "", /output/);
  }
  await process.stop();
});
