import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { Batch } from "../../engine/batch.ts";
import type { Client } from "../../engine/client.ts";
import { Flow } from "../../engine/flow.ts";
import { defineJob } from "../../engine/job.ts";
import type { NewJob, Writer } from "../../engine/store.ts";
import { asyncSchema, hostileProxy, problemsOf, revokedProxy, rulesOf, throwingGetter, world } from "./support.ts";

const charge = defineJob("charge", { args: z.object({ order: z.number() }), queue: "payments" });
const receipt = defineJob<{ order: number }>("receipt");

const enqueued = async (client: Client): Promise<number> => (await client.counts()).enqueued;

test("within a transaction jobs are there by the commit, with the same checks and the same options", async () => {
  const { store, client, record } = await world();
  const [first, flow] = await store.transaction(async (tx) => {
    const within = client.within(tx);
    const id = await within.enqueue(charge, { order: 1 }, { priority: 3, unique: { key: "order-1" } });
    assert.equal(await within.enqueue(charge, { order: 1 }, { unique: { key: "order-1" } }), id);
    const pair = new Flow();
    const charged = pair.add(charge.spec({ order: 2 }));
    pair.add(receipt.spec({ order: 2 }, { needs: [charged], after: id }));
    assert.deepEqual(await within.enqueueMany([]), []);
    return [id, await within.enqueueMany(pair.specs)];
  });
  const job = await record(first);
  assert.deepEqual([job.kind, job.queue, job.args, job.priority], ["charge", "payments", '{"order":1}', 3]);
  assert.deepEqual(
    flow.map(({ state }) => state),
    ["enqueued", "awaiting"],
  );
  assert.deepEqual((await record(flow[1]?.id ?? 0)).parents, [first, flow[0]?.id]);
});

test("what is refused within a transaction leaves the rest to be committed", async () => {
  const { store, client } = await world();
  await store.transaction(async (tx) => {
    const within = client.within(tx);
    assert.deepEqual(await rulesOf(() => within.enqueue(charge, { order: "x" } as never)), [
      "args.order must fit the schema (Invalid input: expected number, received string)",
    ]);
    assert.equal((await problemsOf(() => within.enqueueMany([{}] as never))).length, 1);
    await assert.rejects(within.enqueue(charge, { order: 1 }, { after: 1_000 }), { code: "not_found" });
    await within.enqueue(charge, { order: 2 });
  });
  assert.equal(await enqueued(client), 1);
});

test("a rollback takes the jobs with it, and lets through what was thrown", async () => {
  const { store, client } = await world();
  const declined = new Error("card declined");
  const failing = store.transaction(async (tx) => {
    await client.within(tx).enqueue(charge, { order: 1 });
    throw declined;
  });
  await assert.rejects(failing, (error) => error === declined);
  assert.equal(await enqueued(client), 0);
});

test("interceptors run around inserts within a transaction too", async () => {
  const seen: string[] = [];
  const tagged = (jobs: readonly NewJob[]): NewJob[] => jobs.map((job) => ({ ...job, tags: ["traced"] }));
  const { store, client, record } = await world([
    async (jobs, next) => {
      seen.push(...jobs.map(({ kind }) => kind));
      return next(tagged(jobs));
    },
  ]);
  const id = await store.transaction((tx) => client.within(tx).enqueue(charge, { order: 1 }));
  assert.deepEqual([seen, (await record(id)).tags], [["charge"], ["traced"]]);
});

test("within a transaction batches are started, opened and sealed, or never were", async () => {
  const seen: unknown[] = [];
  const { store, client } = await world([
    (jobs, next) => {
      seen.push(jobs.map(({ kind, batch, afterBatch }) => [kind, batch, afterBatch]));
      return next(jobs);
    },
  ]);
  const write = async (tx: Writer): Promise<number[]> => {
    const within = client.within(tx);
    const [started, opened] = [new Batch(), new Batch()];
    started.add(charge.spec({ order: 1 }));
    started.continueWith(receipt.spec({ order: 1 }));
    opened.add(charge.spec({ order: 2 }));
    const ids = [await within.startBatch(started), await within.openBatch(opened)];
    assert.deepEqual(await rulesOf(() => within.startBatch({} as never)), ["batch must be a Batch"]);
    assert.equal((await rulesOf(() => within.sealBatch(0))).length, 1);
    await within.sealBatch(await within.openBatch(new Batch({ parent: ids[1] ?? 0 })));
    return ids;
  };
  const stop = new Error("stop");
  const failing = store.transaction(async (tx) => {
    await write(tx);
    throw stop;
  });
  await assert.rejects(failing, (error) => error === stop);
  assert.deepEqual([(await client.batches()).batches, await enqueued(client)], [[], 0]);
  seen.length = 0;
  const [started = 0, opened = 0] = await store.transaction(write);
  assert.deepEqual(seen, [[["charge", started, null]], [["receipt", null, started]], [["charge", opened, null]]]);
  const shown = (await client.batches()).batches.map(({ id, sealed, total, parent }) => [id, sealed, total, parent]);
  assert.deepEqual(shown, [
    [opened + 1, true, 0, opened],
    [opened, false, 1, null],
    [started, true, 1, null],
  ]);
});

test("a job that is checked for longer than its transaction lasts is refused, not lost in silence", async () => {
  const { store, client } = await world();
  const checked = Promise.withResolvers<undefined>();
  const slow = defineJob("slow", { args: asyncSchema<{ n: number }>(() => checked.promise) });
  let late: Promise<number> | undefined;
  await store.transaction((tx) => {
    late = client.within(tx).enqueue(slow, { n: 1 });
    late.catch(() => {});
  });
  checked.resolve(undefined);
  await assert.rejects(late ?? Promise.resolve(), { code: "conflict", message: /has ended/ });
  assert.equal(await enqueued(client), 0);
});

test("what is no writer is refused by name", async () => {
  const { client } = await world();
  const values = [undefined, null, 7, "tx", {}, { insert() {} }, () => {}];
  for (const value of [...values, hostileProxy(), revokedProxy(), throwingGetter("insert")]) {
    assert.deepEqual(await rulesOf(() => client.within(value as never)), [
      "writer must be an object with insert, openBatch, sealBatch, setParams",
    ]);
  }
});
