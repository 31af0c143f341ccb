/** The copy of a client that a handler gets: what it adds is refused unless its claim holds its job. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../../engine/batch.ts";
import { Client } from "../../engine/client.ts";
import { ClaimLostError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import type { JobRef, NewJob, Writer } from "../../engine/store.ts";
import { end, register, running, snapshot } from "../conformance/support.ts";
import { hostileProxy, revokedProxy, type World, world } from "./support.ts";

const child = defineJob<{ n: number }>("child");
const specs = [child.spec({ n: 1 }), child.spec({ n: 2 })];

const batchOf = (jobs: number): Batch => {
  const batch = new Batch({ description: "children" });
  for (let n = 0; n < jobs; n++) batch.add(child.spec({ n }));
  if (jobs > 0) batch.continueWith(child.spec({ n: jobs }));
  return batch;
};
const nested = (): Batch => {
  const batch = new Batch();
  batch.nest(batchOf(0));
  return batch;
};

type Adds = (client: Pick<Client, "enqueue" | "enqueueMany" | "startBatch" | "openBatch">) => Promise<unknown>;

const CALLS: Readonly<Record<string, Adds>> = {
  enqueue: (client) => client.enqueue(child, { n: 1 }, { unique: { key: "one" } }),
  enqueueMany: (client) => client.enqueueMany(specs),
  startBatch: (client) => client.startBatch(batchOf(2)),
  "startBatch without jobs": (client) => client.startBatch(batchOf(0)),
  "startBatch of batches": (client) => client.startBatch(nested()),
  openBatch: (client) => client.openBatch(batchOf(1)),
  "openBatch without jobs": (client) => client.openBatch(batchOf(0)),
};

interface Held extends World {
  /** Holds its job. */
  readonly job: JobRef;
  readonly handlers: (ref?: JobRef) => Client;
}

async function held(...given: Parameters<typeof world>): Promise<Held> {
  const made = await world(...given);
  await register(made.store);
  const job = await running(made.store);
  return { ...made, job, handlers: (ref = job) => Client.whileHeld(made.client, ref) };
}

for (const [name, call] of Object.entries(CALLS)) {
  test(`${name} is done while the claim holds, and leaves nothing when it does not`, async () => {
    const { store, job, handlers } = await held();
    const lost = handlers({ id: job.id, claim: job.claim + 1 });
    const before = await snapshot(store);
    await assert.rejects(call(lost), ClaimLostError);
    // Caught, so that the transaction is committed: nothing may have been written even there.
    await store.transaction(async (tx) => assert.rejects(call(lost.within(tx)), ClaimLostError));
    assert.deepEqual(await snapshot(store), before);

    await call(handlers());
    const once = await snapshot(store);
    assert.notDeepEqual(once, before);
    const stop = new Error("stop");
    const rolledBack = store.transaction(async (tx: Writer) => {
      await call(handlers().within(tx));
      throw stop;
    });
    await assert.rejects(rolledBack, (error) => error === stop);
    assert.deepEqual(await snapshot(store), once);
    await store.transaction((tx) => call(handlers().within(tx)));

    await end(store, job, "succeeded");
    const ended = await snapshot(store);
    await assert.rejects(call(handlers()), ClaimLostError, "the attempt has ended");
    assert.deepEqual(await snapshot(store), ended);
  });
}

test("interceptors see the same jobs as those of the client that it was made of, and no empty calls", async () => {
  const seen: unknown[] = [];
  const { store, client, job, handlers } = await held([
    async (jobs, next) => {
      seen.push(jobs.map(({ kind, batch }) => [kind, batch !== null]));
      return next(jobs.map((each: NewJob) => ({ ...each, tags: ["traced"] })));
    },
  ]);
  const calls = Object.values(CALLS);
  for (const call of calls) await call(client);
  const expected = seen.splice(0);
  for (const call of calls) await call(handlers());
  assert.deepEqual(seen.splice(0), expected);
  await store.transaction(async (tx) => {
    for (const call of calls) await call(handlers().within(tx));
  });
  assert.deepEqual(seen, expected);
  const { jobs } = await client.list({ state: "enqueued", tag: "traced", limit: 500 });
  assert.ok(jobs.length > 0);
  await end(store, job, "succeeded");
});

test("an interceptor that catches the refusal has added nothing", async () => {
  const errors: unknown[] = [];
  const { store, job, handlers } = await held([
    async (jobs, next) => {
      try {
        return await next(jobs);
      } catch (error) {
        errors.push(error);
        throw error;
      }
    },
  ]);
  await end(store, job, "succeeded");
  await assert.rejects(handlers().enqueue(child, { n: 1 }), (error) => error === errors[0]);
  assert.ok(errors[0] instanceof ClaimLostError);
});

test("the client that it was made of goes on as before, and so does all that adds nothing", async () => {
  const { store, client, job, handlers } = await held();
  const copy = handlers();
  await end(store, job, "succeeded");
  const id = await client.enqueue(child, { n: 1 });
  await client.startBatch(batchOf(1));
  const batch = await client.openBatch(batchOf(0));
  await copy.sealBatch(batch);
  assert.equal((await copy.get(id))?.state, "enqueued");
  assert.deepEqual(await copy.counts(), await client.counts());
  assert.deepEqual(await copy.enqueueMany([]), []);
  assert.equal(await copy.delete(id), 1);
  assert.equal(await copy.requeue(id), 1);
  await copy.pauseQueue("mail");
  await copy.setRecurring("nightly", child, { n: 1 }, { cron: "0 3 * * *" });
  assert.ok(await copy.triggerRecurring("nightly"));
});

test("a copy of a copy has the later claim", async () => {
  const { job, handlers } = await held();
  const lost = { id: job.id, claim: 7 };
  await Client.whileHeld(handlers(lost), job).enqueue(child, { n: 1 });
  await assert.rejects(Client.whileHeld(handlers(), lost).enqueue(child, { n: 1 }), ClaimLostError);
});

test("a client is what this class has made, and nothing that looks like it", async () => {
  const { store, client, handlers } = await held();
  class Own extends Client {}
  assert.deepEqual([client, handlers(), new Client(store)].map(Client.is), [true, true, true]);
  const others = [new Own(store), Object.create(Client.prototype), new Proxy(client, {}), { enqueue() {} }];
  for (const other of [...others, null, undefined, 7, hostileProxy(), hostileProxy(client), revokedProxy()]) {
    assert.equal(Client.is(other), false);
  }
});
