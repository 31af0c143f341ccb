import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import { KIND_RULE, QUEUE_RULE } from "../../engine/rules/values.ts";
import type { JobId, Store } from "../../engine/store.ts";
import { hostileProxy, revokedProxy, rulesOf, throwingGetter, world } from "./support.ts";

const mail = defineJob<{ to: string }>("mail", { queue: "mails" });
const STATES = "awaiting, scheduled, throttled, enqueued, processing, succeeded, failed, deleted";

/** Claims the next job and ends it with an output, as a server does. */
async function finish(
  store: Store,
  output: string | null,
  state: "succeeded" | "failed" = "succeeded",
): Promise<JobId> {
  const server = {
    id: "s",
    hostname: "h",
    pid: 1,
    version: "1",
    queues: ["mails"],
    kinds: ["mail"],
    workers: 1,
    deadAfter: 60_000,
  };
  if ((await store.servers()).length === 0) await store.register(server);
  const { jobs } = await store.claim({ server: "s", sequence: 1, queues: ["mails"], kinds: [], limit: 1 });
  const [job] = jobs;
  assert.ok(job);
  await store.setParams(job, { step: '{"row":5}' });
  const outcome = {
    delay: 0,
    refund: false,
    error: null,
    trace: null,
    reason: state === "failed" ? "permanent" : null,
  };
  await store.finish("s", [{ id: job.id, claim: job.claim, state, output, ...outcome }]);
  return job.id;
}

/** A store that must not be reached. */
const UNREACHED = new Proxy({}, { get: () => assert.fail }) as Store;

test("a client needs a store and good options", async () => {
  const rules = (...args: unknown[]): Promise<string[]> => rulesOf(() => Reflect.construct(Client, args));
  for (const store of [undefined, null, 5, {}, hostileProxy(), revokedProxy()]) {
    assert.deepEqual(await rules(store), ["store must be a store"]);
  }
  const { store } = await world();
  assert.deepEqual(await rules(store, { interceptor: [] }), ["interceptor is unknown (did you mean interceptors?)"]);
  assert.deepEqual(await rules(store, { interceptors: [5], runtime: {} }), [
    "interceptors[0] must be a function",
    "runtime must be an object with turn",
  ]);
  assert.deepEqual(await rules(store, throwingGetter("runtime")), ["runtime must be readable"]);
  assert.deepEqual(await rules(store, null), ["options must be an object"]);
});

test("get shows a job with its JSON decoded, and null for one that is not there", async () => {
  const { client, store, now } = await world();
  const id = await client.enqueue(mail, { to: "ana" }, { tags: ["x"], meta: { a: "b" }, title: "Mail" });
  const waiting = await client.get(id);
  assert.equal(waiting?.output, undefined);
  await finish(store, '{"sent":true}');
  const at = new Date(now);
  assert.deepEqual(await client.get(id), {
    ...{ id, kind: "mail", queue: "mails", state: "succeeded", args: { to: "ana" }, priority: 0, attempt: 1 },
    ...{ maxAttempts: 10, timeout: null, createdAt: at, runAt: at, deadline: null, attemptedAt: at },
    ...{
      finalizedAt: at,
      title: "Mail",
      tags: ["x"],
      meta: { a: "b" },
      recurringId: null,
      limitKey: null,
      batch: null,
      afterBatch: null,
      params: { step: { row: 5 } },
    },
    ...{ output: { sent: true }, server: "s", cancelRequested: false, history: [], progress: null },
    ...{ parents: [], pendingParents: 0, children: [] },
  });
  assert.equal(await client.get(id + 1), null);
  assert.equal(await client.get(Number.MAX_SAFE_INTEGER), null);
});

test("console shows what was logged, by pages", async () => {
  const { client, store, now } = await world();
  const id = await client.enqueue(mail, { to: "ana" });
  await finish(store, null);
  await client.requeue(id);
  const { jobs } = await store.claim({ server: "s", sequence: 1, queues: ["mails"], kinds: [], limit: 1 });
  const [job] = jobs;
  assert.ok(job);
  assert.deepEqual(await client.console(id), []);
  await store.writeConsole(job, { lines: Array.from({ length: 150 }, (_, n) => `line ${n}`), progress: 12.5 });
  assert.equal((await client.get(id))?.progress, 12.5);
  assert.equal((await client.list({ state: "processing" })).jobs[0]?.progress, 12.5);
  const first = await client.console(id);
  assert.equal(first.length, 100);
  assert.deepEqual(first[0], { seq: first[0]?.seq, attempt: 1, at: new Date(now), text: "line 0" });
  const after = first[99]?.seq ?? 0;
  const texts = (await client.console(id, { after, limit: 2 })).map(({ text }) => text);
  assert.deepEqual(texts, ["line 100", "line 101"]);
  assert.deepEqual(await client.console(id + 1), []);
});

test("console refuses what is no id, no line and no length of a page", async () => {
  const client = new Client(UNREACHED);
  const rules = (...args: unknown[]): Promise<string[]> =>
    rulesOf(() => Reflect.apply(client.console, client, args) as Promise<unknown>);
  const idRule = `id must be an integer from 1 to ${Number.MAX_SAFE_INTEGER}`;
  for (const id of [undefined, null, 0, 1.5, "1", Number.NaN]) assert.deepEqual(await rules(id), [idRule]);
  assert.deepEqual(await rules(0, { after: -1, limit: 501, from: 1 }), [
    "from is unknown (known are after, limit)",
    idRule,
    `after must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}`,
    "limit must be an integer from 1 to 500",
  ]);
  assert.deepEqual(await rules(1, { limit: 0 }), ["limit must be an integer from 1 to 500"]);
  assert.deepEqual(await rules(1, null), ["options must be an object"]);
  assert.deepEqual(await rules(1, throwingGetter("after")), ["after must be readable"]);
});

test("an output of null is null, and none is undefined", async () => {
  const { client, store } = await world();
  await client.enqueueMany([mail.spec({ to: "a" }), mail.spec({ to: "b" })]);
  const withNull = await finish(store, "null");
  const without = await finish(store, null);
  assert.strictEqual((await client.get(withNull))?.output, null);
  assert.strictEqual((await client.get(without))?.output, undefined);
});

test("what a store holds that is not JSON is a damaged store", async () => {
  const { client, store } = await world();
  const id = await client.enqueue(mail, { to: "a" });
  const record = await store.job(id);
  const damaged = new Client(
    new Proxy(store, {
      get: (target, name) => (name === "job" ? async () => ({ ...record, args: "{" }) : Reflect.get(target, name)),
    }),
  );
  await assert.rejects(damaged.get(id), { code: "store_corrupt", message: `args of job ${id} is not JSON` });
});

test("ids must be positive integers", async () => {
  const client = new Client(UNREACHED);
  const rule = `must be an integer from 1 to ${Number.MAX_SAFE_INTEGER}`;
  for (const id of [0, -1, 1.5, Number.NaN, 2 ** 53, "7", 7n, null, undefined, hostileProxy()]) {
    assert.deepEqual(await rulesOf(() => client.get(id as number)), [`id ${rule}`]);
  }
  assert.deepEqual(await rulesOf(() => client.delete([1, 0, "2" as unknown as number])), [
    `ids[1] ${rule}`,
    `ids[2] ${rule}`,
  ]);
  assert.deepEqual(await rulesOf(() => client.requeue(-3)), [`ids[0] ${rule}`]);
});

test("list gives pages of decoded jobs", async () => {
  const { client } = await world();
  await client.enqueueMany(
    Array.from({ length: 5 }, (_, n) => mail.spec({ to: `${n}` }, n % 2 ? {} : { tags: ["even"] })),
  );
  const first = await client.list({ state: "enqueued", limit: 3 });
  assert.deepEqual(
    first.jobs.map(({ args }) => args),
    [{ to: "0" }, { to: "1" }, { to: "2" }],
  );
  assert.ok(first.next);
  const second = await client.list({ state: "enqueued", limit: 3, cursor: first.next });
  assert.deepEqual([second.jobs.length, second.next], [2, null]);
  const filtered = await client.list({ state: "enqueued", queue: "mails", kind: "mail", tag: "even" });
  assert.equal(filtered.jobs.length, 3);
  assert.equal((await client.list({ state: "failed" })).jobs.length, 0);
});

test("a bad query is refused, with every unknown field named", async () => {
  const client = new Client(UNREACHED);
  const rules = (query: unknown): Promise<string[]> => rulesOf(() => Reflect.apply(client.list, client, [query]));
  assert.deepEqual(
    await rules({ state: "done", queue: "", kind: 5, tag: "", limit: 0, cursor: 7, sort: "id", tags: [] }),
    [
      "sort is unknown (known are state, queue, kind, batch, recurringId, tag, limit, cursor)",
      "tags is unknown (did you mean tag?)",
      `state must be one of ${STATES}`,
      `queue ${QUEUE_RULE}`,
      `kind ${KIND_RULE}`,
      "tag must be a non-empty string",
      `limit must be an integer from 1 to ${Number.MAX_SAFE_INTEGER}`,
      "cursor must be a non-empty string",
    ],
  );
  assert.deepEqual(await rules({}), ["state is required"]);
  assert.deepEqual(await rules(undefined), ["state is required"]);
  assert.deepEqual(await rules(hostileProxy()), ["options must be an object", "state is required"]);
  const { client: real } = await world();
  assert.deepEqual(await rulesOf(() => real.list({ state: "failed", cursor: "nonsense" })), [
    "cursor must be the `next` of a page of the same query",
  ]);
});

test("delete and requeue take an id, ids or a filter, and count", async () => {
  const { client, store } = await world();
  await client.enqueueMany(Array.from({ length: 6 }, (_, n) => mail.spec({ to: `${n}` })));
  assert.equal(await client.delete(1), 1);
  assert.equal(await client.delete([2, 3, 3, 999]), 2);
  assert.equal(await client.delete(999), 0);
  assert.equal(await client.requeue([1, 2]), 2);
  assert.equal(await client.delete({ state: "enqueued", queue: "mails", kind: "mail" }), 5);
  assert.equal(await client.delete({ state: "enqueued" }), 0);
  assert.equal(await client.requeue({ state: "deleted", ids: [5, 6, 999] }), 2);
  assert.equal(await client.requeue({ state: "deleted", queue: "other" }), 0);
  const failed = await finish(store, null, "failed");
  assert.equal(await client.requeue({ state: "failed" }), 1);
  assert.equal((await client.get(failed))?.state, "enqueued");
});

test("no ids are no jobs, and no call", async () => {
  const client = new Client(UNREACHED);
  assert.equal(await client.delete([]), 0);
  assert.equal(await client.requeue([]), 0);
  assert.equal(await client.delete({ ids: [] }), 0);
  assert.equal(await client.requeue({ ids: [], state: "failed" }), 0);
});

test("a selection that could mean everything, or nothing that is known, is refused", async () => {
  const client = new Client(UNREACHED);
  const rules = (selection: unknown): Promise<string[]> =>
    rulesOf(() => Reflect.apply(client.delete, client, [selection]));
  for (const selection of [undefined, null, "7", true, 7n, () => 1]) {
    assert.deepEqual(await rules(selection), ["jobs must be an id, an array of ids or a filter"]);
  }
  assert.deepEqual(await rules({}), ["filter must have ids or a state"]);
  assert.deepEqual(await rules({ queue: "mails", kind: "mail" }), ["filter must have ids or a state"]);
  assert.deepEqual(await rules({ stat: "failed" }), ["stat is unknown (did you mean state?)"]);
  assert.deepEqual(await rules({ ids: 7, state: "x" }), ["ids must be an array", `state must be one of ${STATES}`]);
  assert.deepEqual(await rules(hostileProxy()), ["options must be an object"]);
  assert.deepEqual(await rules(revokedProxy([])), ["options must be an object"]);
  assert.deepEqual(await rules(throwingGetter("ids")), ["ids must be readable"]);
});

test("queues are paused and resumed, by good names", async () => {
  const { client } = await world();
  await client.pauseQueue("mails");
  await client.pauseQueue("mails");
  assert.deepEqual(
    (await client.queues()).map(({ name, paused }) => [name, paused]),
    [["mails", true]],
  );
  await client.resumeQueue("mails");
  assert.deepEqual(await client.queues(), []);
  const unreached = new Client(UNREACHED);
  for (const queue of ["", "Mails", "..", undefined, 5, hostileProxy()] as string[]) {
    assert.deepEqual(await rulesOf(() => unreached.pauseQueue(queue)), [`queue ${QUEUE_RULE}`]);
    assert.deepEqual(await rulesOf(() => unreached.resumeQueue(queue)), [`queue ${QUEUE_RULE}`]);
  }
});

test("counts, series and servers are the store's", async () => {
  const { client, store, now } = await world();
  await client.enqueueMany([mail.spec({ to: "a" }), mail.spec({ to: "b" }, { delay: "1h" })]);
  await finish(store, null);
  assert.deepEqual(await client.counts(), await store.counts());
  assert.equal((await client.counts()).succeeded, 1);
  assert.equal((await client.servers())[0]?.id, "s");
  const from = new Date(now - 60_000);
  const to = new Date(now + 120_000);
  const points = await client.series({ from, to, step: "1h" });
  assert.equal(points[0]?.succeeded, 1);
  assert.deepEqual(points, await store.series({ from, to, step: 3_600_000 }));
});

test("a bad series is refused", async () => {
  const client = new Client(UNREACHED);
  const rules = (options: unknown): Promise<string[]> => rulesOf(() => Reflect.apply(client.series, client, [options]));
  const from = new Date(0);
  assert.deepEqual(await rules({ from, to: from, step: "90s" }), ["step must be whole minutes"]);
  assert.deepEqual(await rules({ from: 0, to: new Date(Number.NaN), step: 5, steps: 1 }), [
    "steps is unknown (did you mean step?)",
    "from must be a valid Date from 1970 to 9999",
    "to must be a valid Date from 1970 to 9999",
    'step must be a duration, in ms or such as "30s", of at least 1m and at most a hundred years',
  ]);
  assert.deepEqual(await rules(undefined), ["from is required", "to is required", "step is required"]);
});
