/** Arguments of all other calls × every hostile value × every store, and ids as large as they get. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { Batch } from "../../engine/batch.ts";
import type { Client } from "../../engine/client.ts";
import { NotFoundError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import { JOB_STATES } from "../../engine/store.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { runJob, type TestServer, VirtualTime } from "../../engine/testing/index.ts";
import { allJobs, assertNotStuck, everything, refusalOf, runAll, STORES, serverOn } from "./support.ts";
import { VALUES } from "./values.ts";

const task = defineJob<{ n: number }>("task");
const handler = task.handler(({ args }) => {
  if (args.n === 1) throw new Error("x");
  return args.n;
});

type Call = (client: Client, value: never) => Promise<unknown>;

const IDS = ["2^31 - 1", "2^31", "2^53 - 1"];
const QUEUES = ["__proto__", "constructor", "number as text", "duration as text", "largest text"];
const KINDS = ["constructor", "toJSON", "x", "largest text"];
/** Of recurring jobs. */
const NAMES = [...QUEUES, "constructor", "toJSON"].filter((name, place, all) => all.indexOf(name) === place);
const FITTING = ["blank", "every plane", "__proto__", "constructor", "toJSON", "SQL and JSON path", "number as text"];
const TEXTS = [...FITTING, "duration as text", "largest text", "too large text", "1 MiB", "1 MiB + 1"];
const RECURRING = ["__proto__", "constructor", "toJSON", "number as text", "duration as text", "largest text"];
/** There is no such recurring job, or batch: that counts as nothing found. */
const unknown = async (call: Promise<unknown>): Promise<void> => {
  const error = await call.then(
    () => assert.fail(),
    (error: unknown) => error,
  );
  if (!(error instanceof NotFoundError)) throw error;
};
const none = async (call: Promise<unknown>): Promise<void> => assert.ok([0, null].includes((await call) as never));
const empty = async (call: ReturnType<Client["list"]>): Promise<void> => {
  assert.deepEqual(await call, { jobs: [], next: null });
};
const lines = async (call: Promise<unknown>): Promise<void> => assert.deepEqual(await call, []);
const state = "failed";

/** Calls that, if they take a value, find nothing; and the names of the values that they take. */
const HARMLESS: Readonly<Record<string, readonly [Call, readonly string[]]>> = {
  get: [(client, id) => none(client.get(id)), IDS],
  "delete(id)": [(client, id) => none(client.delete(id)), IDS],
  "delete([id])": [(client, id) => none(client.delete([id])), IDS],
  "delete({ ids })": [(client, ids) => none(client.delete({ ids })), []],
  "delete({ ids: [id] })": [(client, id) => none(client.delete({ ids: [id] })), IDS],
  "delete({ state })": [(client, value) => none(client.delete({ state: value })), []],
  "delete({ queue })": [(client, queue) => none(client.delete({ state, queue })), QUEUES],
  "delete({ kind })": [(client, kind) => none(client.delete({ state, kind })), KINDS],
  "requeue(id)": [(client, id) => none(client.requeue(id)), IDS],
  "requeue([id])": [(client, id) => none(client.requeue([id])), IDS],
  "requeue({ ids: [id] })": [(client, id) => none(client.requeue({ ids: [id] })), IDS],
  "requeue({ state })": [(client, value) => none(client.requeue({ state: value })), []],
  "requeue({ queue })": [(client, queue) => none(client.requeue({ state, queue })), QUEUES],
  "requeue({ kind })": [(client, kind) => none(client.requeue({ state, kind })), KINDS],
  "delete({ batch })": [(client, batch) => none(client.delete({ state, batch })), IDS],
  "requeue({ recurringId })": [(client, recurringId) => none(client.requeue({ state, recurringId })), NAMES],
  batch: [(client, id) => none(client.batch(id)), IDS],
  sealBatch: [(client, id) => unknown(client.sealBatch(id)), IDS],
  startBatch: [(client, batch) => client.startBatch(batch), []],
  openBatch: [(client, batch) => client.openBatch(batch), []],
  batches: [(client, query) => client.batches(query), []],
  "batches({ parent })": [(client, parent) => client.batches({ parent }), IDS],
  "batches({ limit })": [(client, limit) => client.batches({ limit }), IDS],
  "batches({ cursor })": [(client, cursor) => client.batches({ cursor }), []],
  "a batch's parent": [(client, parent) => unknown(client.startBatch(new Batch({ parent }))), IDS],
  "enqueue({ batch })": [(client, batch) => unknown(client.enqueue(task, { n: 1 }, { batch })), IDS],
  "enqueue({ afterBatch })": [(client, afterBatch) => unknown(client.enqueue(task, { n: 1 }, { afterBatch })), IDS],
  "list({ batch })": [(client, batch) => empty(client.list({ state, batch })), IDS],
  "list({ recurringId })": [(client, recurringId) => empty(client.list({ state, recurringId })), NAMES],
  list: [(client, query) => client.list(query), []],
  "list({ state })": [(client, value) => client.list({ state: value }), []],
  "list({ queue })": [(client, queue) => empty(client.list({ state, queue })), QUEUES],
  "list({ kind })": [(client, kind) => empty(client.list({ state, kind })), KINDS],
  "list({ tag })": [(client, tag) => empty(client.list({ state, tag })), TEXTS],
  "list({ limit })": [(client, limit) => client.list({ state, limit }), IDS],
  "list({ cursor })": [(client, cursor) => client.list({ state, cursor }), []],
  "series({ from })": [
    (client, from) => client.series({ from, to: new Date(1), step: "1m" }),
    ["year 1970", "year 9999", "Date that lies"],
  ],
  "series({ to })": [
    (client, to) => client.series({ from: new Date(0), to, step: "1m" }),
    ["year 1970", "year 9999", "Date that lies"],
  ],
  within: [async (client, writer) => client.within(writer), []],
  "console(id)": [(client, id) => lines(client.console(id)), IDS],
  "console(id, options)": [(client, options) => client.console(1, options), []],
  "console(id, { after })": [(client, after) => lines(client.console(9, { after })), ["-0", ...IDS]],
  "console(id, { limit })": [(client, limit) => client.console(9, { limit }), []],
  limits: [(client, query) => client.limits(query), []],
  "limits({ after })": [(client, after) => lines(client.limits({ after })), ["empty text", ...TEXTS]],
  "limits({ limit })": [(client, limit) => lines(client.limits({ limit })), IDS],
  removeRecurring: [(client, id) => unknown(client.removeRecurring(id)), RECURRING],
  pauseRecurring: [(client, id) => unknown(client.pauseRecurring(id)), RECURRING],
  resumeRecurring: [(client, id) => unknown(client.resumeRecurring(id)), RECURRING],
  triggerRecurring: [(client, id) => unknown(client.triggerRecurring(id)), RECURRING],
  "series({ step })": [(client, step) => client.series({ from: new Date(0), to: new Date(1), step }), []],
};

/** Filters and pages where undefined stands for "any", so that all is found. */
const ANY: Readonly<Record<string, Call>> = {
  "delete({ queue: undefined })": (client) => client.delete({ state: "processing", queue: undefined as never }),
  "list({ cursor: undefined })": (client) => client.list({ state, cursor: undefined as never }),
};

/** Cursors that have the right form. */
const CURSORS = [
  ...[[], [1], [1, 2, 3], [null, null], ["1", "2"], [[1], 2], { length: 2, 0: 1, 1: 2 }, 5, null, "x"],
  ...[
    [1e308, -1e308],
    [-1, -1],
    [0.5, 0.5],
    [2 ** 53, 2 ** 53],
    [8.64e15, 1],
    [-8.64e15, 1],
  ],
].map((key) => Buffer.from(JSON.stringify(key)).toString("base64url"));

for (const [store, open] of Object.entries(STORES)) {
  const started = async (): Promise<TestServer> => {
    const server = await serverOn(open, [handler]);
    await server.client.enqueueMany([1, 2, 3].map((n) => task.spec({ n }, { maxAttempts: 1 })));
    await runAll(server);
    await server.client.enqueueMany([task.spec({ n: 4 }), task.spec({ n: 5 }, { delay: "1h" })]);
    return server;
  };

  for (const [name, [call, accepts]] of Object.entries(HARMLESS)) {
    test(`${store}: ${name} of anything is refused, or finds nothing and changes nothing`, async () => {
      const server = await started();
      const before = await everything(server);
      const accepted: string[] = [];
      for (const { name, make } of VALUES) {
        const value = make(name.startsWith("largest") ? 64 : 200);
        if (value === undefined) continue;
        const refusal = await refusalOf(() => call(server.client, value as never));
        if (refusal === undefined) accepted.push(name);
        assert.deepEqual(await everything(server), before, name);
      }
      assert.deepEqual(accepted.sort(), accepts.filter((name) => VALUES.some((value) => value.name === name)).sort());
      await server.store.close();
    });
  }

  test(`${store}: undefined is no id, state or selection, and as a filter it is none`, async () => {
    const server = await started();
    const nothing = undefined as never;
    const before = await everything(server);
    for (const call of [
      () => server.client.get(nothing),
      () => server.client.delete(nothing),
      () => server.client.delete([nothing]),
      () => server.client.delete({ ids: nothing }),
      () => server.client.requeue({ state: nothing, queue: "default" }),
      () => server.client.list(nothing),
      () => server.client.series(nothing),
      () => server.client.pauseQueue(nothing),
    ]) {
      assert.ok(await refusalOf(call));
    }
    for (const call of Object.values(ANY)) await call(server.client, nothing);
    assert.deepEqual(await everything(server), before);
    await server.store.close();
  });

  test(`${store}: a cursor made by hand is refused or gives a page`, async () => {
    const server = await started();
    for (const state of JOB_STATES) {
      for (const cursor of CURSORS) {
        await refusalOf(async () => {
          const { jobs, next } = await server.client.list({ state, cursor });
          assert.ok(jobs.every((job) => job.state === state));
          assert.equal(next, null);
        });
      }
    }
    await server.store.close();
  });

  test(`${store}: queues of any name are paused and resumed, or refused`, async () => {
    const server = await started();
    const accepted: string[] = [];
    for (const { name, make } of VALUES) {
      const queue = make(64) as string;
      const before = await everything(server);
      const refusals = [
        await refusalOf(() => server.client.pauseQueue(queue)),
        await refusalOf(() => server.client.resumeQueue(queue)),
      ];
      if (!refusals.includes(undefined)) assert.deepEqual(await everything(server), before);
      else accepted.push(name);
    }
    assert.deepEqual(accepted.sort(), [...QUEUES].sort());
    assert.deepEqual(
      (await server.client.queues()).map(({ name }) => name),
      ["default"],
    );
    await server.store.close();
  });

  test(`${store}: a server of any name runs jobs and is shown by it, or is refused`, async () => {
    const accepted: string[] = [];
    for (const { name, make } of VALUES) {
      const time = new VirtualTime();
      const opened = await open(time);
      const config = { handlers: [handler], queues: { default: 1 }, runtime: time.runtime() };
      const given = make(200) as string;
      const server = await refusalOf(async () => {
        const server = new Server(opened, { ...config, name: given });
        const stop = new AbortController();
        const ended = server.run({ signal: stop.signal });
        await opened.insert([{ ...NEW, kind: "task" }]);
        await time.advance(1_000);
        const [record] = await opened.servers();
        assert.ok(record?.id.startsWith(given === undefined ? "host" : given), name);
        const job = await opened.job(1);
        assert.deepEqual([job?.state, job?.server], ["succeeded", record?.id]);
        stop.abort(make(10));
        await time.settled(ended, 60_000);
        accepted.push(name);
      });
      assert.equal(server === undefined, accepted.at(-1) === name, name);
      await opened.close();
    }
    assert.deepEqual(accepted.sort(), ["undefined", ...TEXTS.filter((text) => !/too large|MiB/.test(text))].sort());
  });
}

const NEW = {
  ...{ queue: "default", args: '{"n":2}', priority: 0, maxAttempts: 1, timeout: null, delay: 0, runAt: null },
  ...{ deadline: null, title: null, tags: [], meta: {}, recurringId: null, unique: null, parents: [], limit: null },
  ...{ batch: null, afterBatch: null },
} as const;

test("events, run and runJob take no other options than they should", async () => {
  for (const { name, make } of VALUES) {
    const time = new VirtualTime();
    const store = await (STORES["memory"] ?? assert.fail())(time);
    const server = new Server(store, { handlers: [handler], queues: { default: 1 }, runtime: time.runtime() });
    const value = make(100) as never;
    const buffers = ["undefined", "2^31 - 1", "2^31", "2^53 - 1"];
    const events = await refusalOf(() => server.events({ buffer: value }).return?.());
    assert.equal(events === undefined, buffers.includes(name), name);
    if (value !== undefined) {
      assert.ok(await refusalOf(() => server.events(value)), name);
      assert.ok(await refusalOf(() => server.run({ signal: value })), name);
      assert.ok(await refusalOf(() => server.run(value)), name);
      assert.ok(await refusalOf(() => new Server(value, { handlers: [handler], queues: { default: 1 } })), name);
      assert.ok(await refusalOf(() => new Server(store, value)), name);
      assert.ok(await refusalOf(() => runJob(value, {})), name);
      assert.ok(await refusalOf(() => runJob(handler, { n: 1 }, value)), name);
    }
    // A signal may be aborted for any reason.
    const result = await runJob(handler, { n: 1 }, { signal: AbortSignal.abort(value) });
    assert.equal(result.state, "deleted");
    const aborted = new AbortController();
    const ended = server.run({ signal: aborted.signal });
    aborted.abort(value);
    await time.settled(ended, 60_000);
  }
});

for (const [name, last] of [
  ["2^31", 2 ** 31 - 3],
  ["2^53", 2 ** 53 - 10],
] as const) {
  test(`SQLite: jobs with ids about ${name} are like any others`, async (t) => {
    const directory = mkdtempSync(join(tmpdir(), "kiln-hostile-"));
    t.after(() => rmSync(directory, { recursive: true }));
    const path = join(directory, "jobs.db");
    const server = await serverOn((time) => SqliteStore.open({ path, runtime: time.runtime() }), [handler]);
    const db = new DatabaseSync(path);
    db.prepare("UPDATE kiln_sequences SET value = ? WHERE name = 'jobs'").run(BigInt(last));
    db.close();
    const jobs = await server.client.enqueueMany(Array.from({ length: 6 }, () => task.spec({ n: 2 })));
    const ids = jobs.map(({ id }) => id);
    assert.deepEqual(
      ids,
      [1, 2, 3, 4, 5, 6].map((n) => last + n),
    );
    const pages: number[] = [];
    for (let cursor: string | null = null; ; ) {
      const page: Awaited<ReturnType<Client["list"]>> = await server.client.list({
        ...{ state: "enqueued", limit: 1 },
        ...(cursor !== null && { cursor }),
      });
      pages.push(...page.jobs.map(({ id }) => id));
      cursor = page.next;
      if (cursor === null) break;
    }
    assert.deepEqual(pages, ids);
    await runAll(server);
    assert.ok((await allJobs(server.client)).every(({ state, output }) => state === "succeeded" && output === 2));
    await assertNotStuck(server, ids);
    await server.store.close();
  });
}

test("SQLite: when there are no more ids nothing is written, and the jobs that are there run", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-hostile-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const path = join(directory, "jobs.db");
  const server = await serverOn((time) => SqliteStore.open({ path, runtime: time.runtime() }), [handler]);
  const db = new DatabaseSync(path);
  db.prepare("UPDATE kiln_sequences SET value = ? WHERE name = 'jobs'").run(BigInt(2 ** 53 - 3));
  db.close();
  await server.client.enqueue(task, { n: 2 });
  const last = await server.client.enqueue(task, { n: 2 });
  assert.equal(last, Number.MAX_SAFE_INTEGER);
  const before = await everything(server);
  await assert.rejects(server.client.enqueue(task, { n: 2 }), { code: "store_failed" });
  assert.deepEqual(await everything(server), before);
  await runAll(server);
  await assertNotStuck(server, [last - 1, last]);
  await server.store.close();
});
