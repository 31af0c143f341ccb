import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, type EnqueueInterceptor } from "../../engine/client.ts";
import { StoreError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import { systemRuntime } from "../../engine/runtime.ts";
import type { NewJob, Store } from "../../engine/store.ts";
import { hostileProxy, revokedProxy, rulesOf, world } from "./support.ts";

const mail = defineJob<{ to: string }>("mail", { queue: "mails" });
const order = defineJob<{ id: number }>("order");

test("many jobs are added in order, all or none", async () => {
  const { client, store, record } = await world();
  const inserted = await client.enqueueMany([
    mail.spec({ to: "a" }),
    order.spec({ id: 1 }, { delay: "1h" }),
    mail.spec({ to: "b" }),
  ]);
  assert.deepEqual(inserted, [
    { id: 1, state: "enqueued", duplicate: false, replaced: false },
    { id: 2, state: "scheduled", duplicate: false, replaced: false },
    { id: 3, state: "enqueued", duplicate: false, replaced: false },
  ]);
  assert.deepEqual(
    [(await record(1)).args, (await record(2)).kind, (await record(3)).args],
    ['{"to":"a"}', "order", '{"to":"b"}'],
  );

  const specs = [
    mail.spec({ to: "a" }),
    mail.spec({ to: 1n as unknown as string }),
    { args: {} },
    mail.spec({ to: "b" }, { dely: 5 } as object),
  ];
  assert.deepEqual(await rulesOf(() => Reflect.apply(client.enqueueMany, client, [specs])), [
    "jobs[1].args.to must be JSON, not a bigint",
    "jobs[2] must be made by the spec method of a job definition",
    "jobs[3].dely is unknown (did you mean delay?)",
  ]);
  assert.equal((await store.counts()).enqueued, 2);
});

test("no jobs are no call, and only an array is many", async () => {
  const unreached = { insert: assert.fail, job: assert.fail, jobs: assert.fail } as unknown as Store;
  const client = new Client(unreached);
  assert.deepEqual(await client.enqueueMany([]), []);
  for (const specs of [undefined, null, mail.spec({ to: "a" }), new Set(), hostileProxy([]), revokedProxy([])]) {
    assert.deepEqual(await rulesOf(() => Reflect.apply(client.enqueueMany, client, [specs])), [
      "specs must be an array",
    ]);
  }
});

test("of a thousand bad jobs twenty are named", async () => {
  const { client } = await world();
  const specs = Array.from({ length: 1_000 }, () => mail.spec({ to: "a" }, { priority: 0.5 }));
  await assert.rejects(client.enqueueMany(specs), (error: Error) => {
    assert.match(error.message, /^can't enqueue \(the first 20 of 1000 problems\):\n {2}jobs\[0\]\.priority must be/);
    return error.message.split("\n").length === 21;
  });
});

test("100,000 jobs are checked in slices, between which the loop is free", async () => {
  let turns = 0;
  const runtime = {
    ...systemRuntime,
    turn: () => {
      turns += 1;
      return systemRuntime.turn();
    },
  };
  let received: readonly NewJob[] = [];
  const store = {
    job: assert.fail,
    jobs: assert.fail,
    insert: async (jobs: readonly NewJob[]) => {
      received = jobs;
      return jobs.map((_, index) => ({ id: index + 1, state: "enqueued" }));
    },
  } as unknown as Store;
  const client = new Client(store, { runtime });
  const inserted = await client.enqueueMany(
    Array.from({ length: 100_000 }, (_, index) => mail.spec({ to: `${index}` })),
  );
  assert.deepEqual([inserted.length, received.length, turns], [100_000, 100_000, 100]);
  assert.equal(received[99_999]?.args, '{"to":"99999"}');

  turns = 0;
  await client.enqueueMany(Array.from({ length: 20 }, () => mail.spec({ to: "x".repeat(500_000) })));
  assert.equal(turns, 10, "large args make short slices");
});

test("interceptors run around every insert, the first outermost", async () => {
  const calls: string[] = [];
  const intercept =
    (name: string): EnqueueInterceptor =>
    async (jobs, next) => {
      calls.push(`${name} ${jobs.length} ${jobs[0]?.meta["trace"]}`);
      const inserted = await next(jobs.map((job) => ({ ...job, meta: { ...job.meta, trace: name } })));
      calls.push(`${name} done ${inserted.map(({ id }) => id)}`);
      return inserted;
    };
  const { client, record } = await world([intercept("outer"), intercept("inner")]);
  await client.enqueue(mail, { to: "a" });
  await client.enqueueMany([mail.spec({ to: "b" }), mail.spec({ to: "c" })]);
  assert.deepEqual(calls, [
    ...["outer 1 undefined", "inner 1 outer", "inner done 1", "outer done 1"],
    ...["outer 2 undefined", "inner 2 outer", "inner done 2,3", "outer done 2,3"],
  ]);
  assert.deepEqual((await record(3)).meta, { trace: "inner" });
});

test("an interceptor's error is the caller's, and bad jobs never reach one", async () => {
  let calls = 0;
  const { client, store } = await world([
    async () => {
      calls += 1;
      throw new RangeError("not today");
    },
  ]);
  await assert.rejects(client.enqueue(mail, { to: "a" }), RangeError);
  await assert.rejects(client.enqueue(mail, { to: "a" }, { priority: 0.5 }), { code: "invalid" });
  assert.deepEqual([calls, (await store.counts()).enqueued], [1, 0]);
});

test("another number of results than of jobs is an error", async () => {
  const failing = (
    interceptors: EnqueueInterceptor[],
    insert: (jobs: readonly NewJob[]) => unknown,
  ): Promise<unknown> => {
    const store = { job: assert.fail, jobs: assert.fail, insert: async (jobs: readonly NewJob[]) => insert(jobs) };
    return new Client(store as unknown as Store, { interceptors }).enqueue(mail, { to: "a" });
  };
  const good = (jobs: readonly NewJob[]): unknown => jobs.map((_, index) => ({ id: index + 1, state: "enqueued" }));
  await assert.rejects(
    failing([], () => []),
    (error) => {
      assert.ok(error instanceof StoreError && !error.retryable);
      return error.message === "the store gave 0 results for 1 jobs";
    },
  );
  await assert.rejects(
    failing([], () => undefined),
    /the store gave no results for 1 jobs/,
  );
  await assert.rejects(failing([async () => []], good), /an interceptor gave 0 results for 1 jobs/);
  await assert.rejects(
    failing([(jobs, next) => next([...jobs, ...jobs])], good),
    /an interceptor gave 2 results for 1 jobs/,
  );
});
