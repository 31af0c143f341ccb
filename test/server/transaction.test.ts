/** Handlers that write what they have done and that they have done it in one transaction. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "../../engine/client.ts";
import { defineJob, type Job } from "../../engine/job.ts";
import { constant } from "../../engine/retry.ts";
import { Server } from "../../engine/server/server.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { problemsOf } from "../client/support.ts";
import { MINUTE, World } from "./support.ts";

const settle = defineJob<{ orders: number[] }>("settle", { maxAttempts: 5, backoff: constant("1s") });

test("an effect and its checkpoint happen once, whatever happens in between", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-tx-"));
  const time = new VirtualTime();
  const store = await SqliteStore.open({ path: join(directory, "jobs.db"), runtime: time.runtime() });
  t.after(async () => {
    await store.close();
    rmSync(directory, { recursive: true });
  });
  await store.transaction((tx) => tx.db.exec("CREATE TABLE ledger (order_id INTEGER)"));
  let steps = 0;
  const handler = settle.handler(async (job) => {
    for (let next = job.param<number>("next") ?? 0; next < job.args.orders.length; next += 1) {
      await store.transaction(async (tx) => {
        tx.db.prepare("INSERT INTO ledger VALUES (?)").run(job.args.orders[next] ?? 0);
        await job.setParam("next", next + 1, { within: tx });
        steps += 1;
        if (steps === 2) throw new Error("before the commit");
      });
      if (steps === 4) throw new Error("after the commit");
    }
  });
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const server = new Server(store, { handlers: [handler], queues: { default: 1 }, runtime: time.runtime(), logger });
  const stop = new AbortController();
  const ended = server.run({ signal: stop.signal });
  const client = new Client(store);
  const id = await client.enqueue(settle, { orders: [11, 12, 13, 14] });
  for (const end = time.now + MINUTE; (await client.get(id))?.state !== "succeeded"; ) {
    assert.ok(time.now < end, "within a minute");
    await time.advance(50);
  }
  const job = await client.get(id);
  assert.deepEqual([job?.attempt, job?.params], [3, { next: 4 }]);
  const ledger = await store.transaction((tx) => tx.db.prepare("SELECT order_id FROM ledger").all());
  assert.deepEqual(
    ledger.map((row) => row["order_id"]),
    [11, 12, 13, 14],
  );
  stop.abort();
  await time.settled(ended, MINUTE);
});

test("an attempt that no longer holds its job takes its whole transaction back", async () => {
  const world = await World.make();
  const other = defineJob("other", { queue: "elsewhere" });
  const errors: string[] = [];
  const kind = defineJob("kind");
  let attempts = 0;
  const handler = kind.handler(async (job, { client }) => {
    attempts += 1;
    if (attempts > 1) return;
    // Deaf to its signal, and cut off for so long that its job goes to another.
    await world.work(3 * MINUTE);
    const transaction = world.store.transaction(async (tx) => {
      await client.within(tx).enqueue(other, {});
      await job.setParam("done", true, { within: tx });
    });
    await transaction.catch((error: { code: string }) => errors.push(error.code));
  });
  const first = world.start([handler]);
  const id = await world.client.enqueue(kind, {});
  await world.time.advance(1_000);
  first.link.down = true;
  world.start([handler]);
  await world.reach(id, "succeeded", 5 * MINUTE);
  await world.time.advance(3 * MINUTE);
  assert.deepEqual([attempts, errors], [2, ["claim_lost"]]);
  assert.deepEqual([(await world.client.counts()).enqueued, (await world.job(id)).params], [0, {}]);
});

test("a checkpoint within a transaction shows in the next attempt, is not tried again and may not be nonsense", async () => {
  const world = await World.make();
  const kind = defineJob("kind", { backoff: constant("1s") });
  const shown: unknown[] = [];
  const hostile = async (job: Job<unknown>): Promise<void> => {
    for (const within of [null, 7, {}, { setParams() {} }]) {
      const problems = await problemsOf(() => job.setParam("a", 1, { within: within as never }));
      assert.deepEqual(
        problems.map(({ field }) => field),
        ["within"],
      );
    }
    assert.equal((await problemsOf(() => job.setParam("a", 1, { witin: undefined } as never))).length, 1);
    assert.equal((await problemsOf(() => job.setParam("a", 1n))).length, 1);
  };
  const process = world.start([
    kind.handler(async (job) => {
      shown.push(job.param("a"));
      if (job.attempt > 1) return;
      await hostile(job);
      await world.store.transaction((tx) => job.setParam("a", 1, { within: tx }));
      shown.push(job.param("a"));
      const gone = await world.store.transaction((tx) => tx);
      await assert.rejects(job.setParam("a", 2, { within: gone }), { code: "conflict" });
      await job.setParam("b", 2, { within: undefined } as never);
      shown.push(job.param("b"));
      throw new Error("again");
    }),
  ]);
  const id = await world.client.enqueue(kind, {});
  await world.reach(id, "succeeded", MINUTE);
  assert.deepEqual(shown, [undefined, undefined, 2, 1]);
  assert.deepEqual((await world.job(id)).params, { a: "1", b: "2" });
  assert.equal(process.link.calls.filter((name) => name === "setParams").length, 1);
});
