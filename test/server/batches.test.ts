import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../../engine/batch.ts";
import { defineJob } from "../../engine/job.ts";
import { constant } from "../../engine/retry.ts";
import { assertEnqueued, TestServer } from "../../engine/testing/index.ts";
import { MINUTE, SECOND, World } from "./support.ts";

const options = { maxAttempts: 3, backoff: constant("10s") };
const invoice = defineJob<{ order: number }>("invoice", options);
const report = defineJob<{ of: string }>("report", options);

test("a batch of jobs with retries runs to its end, then what goes on after it, at once", async () => {
  const world = await World.make();
  const runs: [string, number | null, number][] = [];
  world.start([
    invoice.handler(async (job) => {
      await world.work(job.args.order * SECOND);
      if (job.attempt < job.args.order) throw new Error("refused");
      runs.push([`invoice ${job.args.order}`, job.batch, world.time.now]);
    }),
    report.handler((job) => void runs.push([`report of ${job.args.of}`, job.batch, world.time.now])),
  ]);
  const inner = new Batch();
  inner.add(invoice.spec({ order: 3 }));
  inner.continueWith(report.spec({ of: "inner" }));
  const batch = new Batch();
  for (const order of [1, 2]) batch.add(invoice.spec({ order }));
  batch.nest(inner);
  batch.continueWith(report.spec({ of: "all" }));
  const start = world.time.now;
  const id = await world.client.startBatch(batch);
  const last = (await world.client.list({ state: "awaiting" })).jobs[0]?.id ?? 0;
  await world.reach(last, "succeeded", 2 * MINUTE);
  assert.deepEqual(
    runs.map(([what, of]) => [what, of]),
    [
      ["invoice 1", id],
      ["invoice 2", id],
      ["invoice 3", id + 1],
      ["report of inner", id],
      ["report of all", null],
    ],
  );
  const wait = (runs[4]?.[2] ?? 0) - (start + (3 + 10 + 3 + 10 + 3) * SECOND);
  assert.ok(wait >= 0 && wait < 500, `${wait} ms after the last`);
  const { finishedAt, counts } = (await world.client.batch(id)) ?? assert.fail();
  assert.ok(finishedAt && finishedAt.getTime() <= (runs[4]?.[2] ?? 0));
  assert.deepEqual([counts.succeeded, counts.failed], [3, 0]);
});

test("a failed job holds its batch open until it is requeued and succeeds", async () => {
  const world = await World.make();
  let refused = true;
  world.start([
    invoice.handler(() => {
      if (refused) throw new Error("refused");
    }),
    report.handler(() => {}),
  ]);
  const batch = new Batch();
  const job = batch.add(invoice.spec({ order: 1 }));
  assert.equal(job, 0);
  batch.continueWith(report.spec({ of: "all" }));
  const id = await world.client.startBatch(batch);
  await world.reach(1, "failed", MINUTE);
  await world.time.advance(MINUTE);
  assert.deepEqual([(await world.job(2)).state, (await world.client.batch(id))?.finishedAt], ["awaiting", null]);
  refused = false;
  assert.equal(await world.client.requeue({ state: "failed", batch: id }), 1);
  await world.reach(2, "succeeded", SECOND);
});

test("a handler adds to its own batch, which goes on until that is done too", async () => {
  const runs: string[] = [];
  const server = new TestServer({
    handlers: [
      invoice.handler(async (job, { client }) => {
        runs.push(`invoice ${job.args.order}`);
        if (job.args.order < 3 && job.batch !== null) {
          await client.enqueue(invoice, { order: job.args.order + 1 }, { batch: job.batch, delay: "1h" });
        }
      }),
      report.handler(() => void runs.push("report")),
    ],
  });
  const batch = new Batch();
  batch.add(invoice.spec({ order: 1 }));
  batch.continueWith(report.spec({ of: "all" }));
  const id = await server.client.startBatch(batch);
  await assertEnqueued(server.client, invoice, (job) => job.batch === id);
  await assertEnqueued(server.client, report, (job) => job.afterBatch === id);
  const jobs = await server.drain();
  assert.deepEqual(runs, ["invoice 1", "invoice 2", "invoice 3", "report"]);
  assert.deepEqual([jobs.length, (await server.client.batch(id))?.total], [4, 3]);
});
