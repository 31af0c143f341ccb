import assert from "node:assert/strict";
import { test } from "node:test";
import { defineJob } from "../../engine/job.ts";
import { constant } from "../../engine/retry.ts";
import { MINUTE, SECOND, World } from "./support.ts";

const index = defineJob<{ page: string }>("index", { maxAttempts: 2, backoff: constant("10s") });

test("a debounced job runs once, with the latest args, when it has been left alone", async () => {
  const world = await World.make();
  const runs: [number, string][] = [];
  world.start([index.handler(({ args }) => void runs.push([world.time.now, args.page]))]);
  const push = (page: string): Promise<number> =>
    world.client.enqueue(index, { page }, { unique: { key: "k", debounce: "30s" } });
  const id = await push("1");
  for (const page of ["2", "3", "4"]) {
    await world.time.advance(20 * SECOND);
    assert.equal(await push(page), id);
  }
  const pushed = world.time.now;
  await world.time.advance(2 * MINUTE);
  const [[at = 0, page] = [], ...more] = runs;
  assert.deepEqual([page, more], ["4", []]);
  assert.ok(at - pushed >= 30 * SECOND && at - pushed <= 31 * SECOND, `${at - pushed} ms after the last push`);
  assert.notEqual(await push("5"), id, "the key is free again");
});

test("a replaced job that is due now starts now, on a server that waits for nothing", async () => {
  const world = await World.make();
  const runs: string[] = [];
  world.start([index.handler(({ args }) => void runs.push(args.page))]);
  const id = await world.client.enqueue(index, { page: "old" }, { unique: { key: "k" }, delay: "1h" });
  await world.time.advance(MINUTE);
  await world.client.enqueue(index, { page: "new" }, { unique: { key: "k", replace: true } });
  await world.reach(id, "succeeded", 20);
  assert.deepEqual(runs, ["new"]);
});

test("a job keeps its key through retries and gives it up when it has failed", async () => {
  const world = await World.make();
  let runs = 0;
  const ids: number[] = [];
  world.start([
    index.handler(async (job, { client }) => {
      runs += 1;
      ids.push(await client.enqueue(index, job.args, { unique: true }));
      throw new Error("no");
    }),
  ]);
  const id = await world.client.enqueue(index, { page: "1" }, { unique: true });
  await world.time.advance(5 * SECOND);
  assert.equal(await world.client.enqueue(index, { page: "1" }, { unique: true }), id, "while it waits for its retry");
  await world.reach(id, "failed", MINUTE);
  assert.deepEqual([runs, ids], [2, [id, id]]);
  assert.notEqual(await world.client.enqueue(index, { page: "1" }, { unique: true }), id);
});
