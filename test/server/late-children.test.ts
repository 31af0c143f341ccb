/**
 * What a handler enqueues belongs to the attempt: a run whose job was taken away adds nothing beside the run that has it now.
 * Fences and claim numbers each see to it, with the other one taken away.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../../engine/batch.ts";
import { Client } from "../../engine/client.ts";
import { ClaimLostError } from "../../engine/errors.ts";
import { defineJob, type HandlerContext } from "../../engine/job.ts";
import { MINUTE, type OpenStore, SECOND, STORES, World } from "./support.ts";

const parent = defineJob("parent");
const child = defineJob<{ by: string }>("child", { queue: "children" });
const idle = defineJob("other").handler(() => {});

type Enqueue = (by: string, context: HandlerContext) => Promise<unknown>;
const enqueue: Enqueue = (by, { client }) => client.enqueue(child, { by });

interface Options {
  readonly open?: OpenStore;
  readonly serverBuggify?: string[];
  readonly storeBuggify?: string[];
  /** It goes on whatever its signal says. */
  readonly stubborn?: boolean;
  readonly enqueue?: (world: World) => Enqueue;
  readonly client?: (world: World) => Client;
}

/** `victim` runs a job, is cut off until others have it, and enqueues a child while the rescued run is under way. */
async function cutOff({ open, serverBuggify = [], storeBuggify = [], stubborn = false, ...options }: Options) {
  const world = await World.make(storeBuggify, open);
  const enqueues = options.enqueue?.(world) ?? enqueue;
  const errors: unknown[] = [];
  const handler = (process: string) =>
    parent.handler(async (_job, context) => {
      const signal = stubborn ? undefined : context.signal;
      await world.work(2 * MINUTE, signal);
      await enqueues(process, context).catch((error: unknown) => {
        errors.push(error);
        throw error;
      });
      // So that the other run adds its child before this one ends.
      await world.work(150 * SECOND, signal);
    });
  const config = options.client ? { client: options.client(world) } : {};
  const leader = world.start([idle]);
  await world.time.advance(2 * MINUTE);
  const victim = world.start([handler("victim")], config, serverBuggify);
  const id = await world.client.enqueue(parent, {}, { timeout: "1h" });
  await world.reach(id, "processing", SECOND);
  const other = world.start([handler("other")], { ...config, maintenance: false });
  await world.time.advance(10 * SECOND);
  victim.link.down = true;
  await world.time.advance(100 * SECOND);
  victim.link.down = false;
  await world.reach(id, "succeeded", 5 * MINUTE);
  const { jobs } = await world.client.list({ state: "enqueued", queue: "children" });
  for (const process of [victim, other, leader]) await process.stop();
  await world.store.close();
  return { errors, children: jobs.map(({ args }) => (args as { by: string }).by) };
}

const BATCH: Enqueue = (by, { client }) => {
  const batch = new Batch();
  batch.add(child.spec({ by }));
  return client.startBatch(batch);
};
const WAYS: Readonly<Record<string, (world: World) => Enqueue>> = {
  enqueue: () => enqueue,
  enqueueMany:
    () =>
    (by, { client }) =>
      client.enqueueMany([child.spec({ by })]),
  startBatch: () => BATCH,
  "within a transaction":
    ({ store }) =>
    (by, { client }) =>
      store.transaction((tx) => client.within(tx).enqueue(child, { by })),
};

for (const [name, open] of Object.entries(STORES)) {
  for (const [way, enqueue] of Object.entries(WAYS)) {
    test(`${name}, ${way}: a handler that ignored its fence adds no child beside the rescued run`, async () => {
      const { errors, children } = await cutOff({ open, stubborn: true, enqueue });
      assert.deepEqual(children, ["other"]);
      assert.equal(errors.length, 1);
      assert.ok(errors[0] instanceof ClaimLostError);
    });
  }

  test(`${name}: without the fence the claim's number keeps the late child out`, async () => {
    const { errors, children } = await cutOff({ open, serverBuggify: ["heartbeat.no-fence"] });
    assert.deepEqual(children, ["other"]);
    assert.ok(errors[0] instanceof ClaimLostError);
  });

  test(`${name}: without the claim's number the fence keeps a handler that obeys from adding it`, async () => {
    const { errors, children } = await cutOff({ open, storeBuggify: ["store.no-claim-check"] });
    assert.deepEqual([children, errors], [["other"], []]);
  });

  test(`${name}: without either the child is there twice: this test can see what it guards against`, async () => {
    const without = { serverBuggify: ["heartbeat.no-fence"], storeBuggify: ["store.no-claim-check"] };
    const { children } = await cutOff({ open, ...without });
    assert.deepEqual([...children].sort(), ["other", "victim"]);
  });
}

test("the same with a client of the user's, which goes on as it was itself", async () => {
  const seen: string[] = [];
  let given: Client | undefined;
  const client = ({ store }: World): Client => {
    given ??= new Client(store, {
      interceptors: [
        (jobs, next) => {
          seen.push(...jobs.map(({ args }) => args));
          return next(jobs);
        },
      ],
    });
    return given;
  };
  const { errors, children } = await cutOff({
    ...{ stubborn: true, client },
    enqueue: (world) => async (by, context) => {
      assert.notEqual(context.client, given);
      await client(world).enqueue(child, { by: `${by} by itself` });
      return enqueue(by, context);
    },
  });
  assert.deepEqual(children, ["victim by itself", "other by itself", "other"]);
  assert.deepEqual(
    seen,
    ["victim by itself", "victim", "other by itself", "other"].map((by) => JSON.stringify({ by })),
  );
  assert.equal(errors.length, 1);
});

for (const [name, open] of Object.entries(STORES)) {
  test(`${name}: what a handler did not wait for is refused once the attempt has ended`, async () => {
    const world = await World.make([], open);
    const late: Promise<unknown>[] = [];
    const process = world.start([
      parent.handler(async (_job, context) => {
        await enqueue("in time", context);
        const later = async (): Promise<unknown> => {
          await world.work(SECOND);
          return Promise.allSettled(Object.values(WAYS).map((way) => way(world)("late", context)));
        };
        late.push(later());
      }),
    ]);
    const id = await world.client.enqueue(parent, {});
    await world.reach(id, "succeeded", SECOND / 2);
    await world.time.advance(2 * SECOND);
    const [results] = (await Promise.all(late)) as PromiseSettledResult<unknown>[][];
    assert.equal(results?.length, Object.keys(WAYS).length);
    for (const result of results ?? [])
      assert.ok(result.status === "rejected" && result.reason instanceof ClaimLostError);
    const { jobs } = await world.client.list({ state: "enqueued", queue: "children" });
    assert.deepEqual(
      jobs.map(({ args }) => args),
      [{ by: "in time" }],
    );
    await process.stop();
    await world.store.close();
  });
}
