import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Batch } from "../../engine/batch.ts";
import { Client, type EnqueueOptions, type SpecOptions } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import type { NewJob } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { hostileProxy, problemsOf, revokedProxy, rulesOf, throwingGetter, world } from "./support.ts";

const mail = defineJob<{ to: string }>("mail");
const report = defineJob<{ of?: string }>("report");
const to = { to: "ana@example.com" };

/** What a batch and what is nested in it look like, in few words. */
async function shape(
  { client, record }: Awaited<ReturnType<typeof world>>,
  ids: readonly number[],
): Promise<unknown[]> {
  const shown: unknown[] = [];
  for (const id of ids) {
    const job = await record(id);
    shown.push([job.kind, job.batch, job.afterBatch, job.state]);
  }
  for (const { id, parent, total, sealed, nested } of (await client.batches()).batches.toReversed()) {
    shown.push({ id, parent, total, sealed, nested });
  }
  return shown;
}

test("a batch is written with its jobs, its nested batches and what goes on after them, and sealed", async () => {
  const { client, ...rest } = await world();
  const inner = new Batch({ description: "inner" });
  inner.add(mail.spec(to));
  inner.continueWith(report.spec({ of: "inner" }));
  const outer = new Batch({ description: "outer", meta: { customer: "7" } });
  assert.equal(outer.add(mail.spec(to)), 0);
  assert.equal(outer.add(mail.spec(to, { needs: [0] })), 1);
  outer.nest(inner);
  assert.equal(outer.continueWith(report.spec({ of: "outer" })), 0);
  assert.equal(outer.continueWith(report.spec({ of: "outer" }, { needs: [0] })), 1);
  const id = await client.startBatch(outer);
  const [first, second] = [id, id + 1];
  assert.deepEqual(await shape({ client, ...rest }, [1, 2, 3, 4, 5, 6]), [
    ["mail", first, null, "enqueued"],
    ["mail", first, null, "awaiting"],
    ["mail", second, null, "enqueued"],
    // The outer batch waits for what goes on after the inner one.
    ["report", first, second, "awaiting"],
    ["report", null, first, "awaiting"],
    ["report", null, first, "awaiting"],
    { id: first, parent: null, total: 3, sealed: true, nested: 1 },
    { id: second, parent: first, total: 1, sealed: true, nested: 0 },
  ]);
  assert.deepEqual((await rest.record(2)).parents, [1]);
  assert.deepEqual((await rest.record(6)).parents, [5]);
  const batch = await client.batch(id);
  assert.deepEqual([batch?.description, batch?.meta], ["outer", { customer: "7" }]);
  const view = await client.get(4);
  assert.deepEqual([view?.batch, view?.afterBatch, view?.pendingParents], [first, second, 1]);
  assert.deepEqual(
    (await client.list({ state: "awaiting", batch: first })).jobs.map((job) => job.id),
    [4, 2],
  );
  assert.equal(await client.delete({ state: "awaiting", batch: first, kind: "mail" }), 1);
});

test("an open batch takes jobs and batches until it is sealed and done", async () => {
  const { client, ...rest } = await world();
  const inner = new Batch();
  const outer = new Batch();
  outer.add(mail.spec(to));
  outer.nest(inner);
  outer.continueWith(report.spec({}));
  const id = await client.openBatch(outer);
  const late = await client.enqueue(mail, to, { batch: id });
  const nested = new Batch({ parent: id });
  nested.continueWith(report.spec({ of: "nested" }));
  await client.startBatch(nested);
  const waiter = await client.enqueue(report, {}, { afterBatch: id });
  assert.deepEqual(await shape({ client, ...rest }, [1, 2, late, 4, waiter]), [
    ["mail", id, null, "enqueued"],
    ["report", null, id, "awaiting"],
    ["mail", id, null, "enqueued"],
    ["report", id, id + 2, "enqueued"],
    ["report", null, id, "awaiting"],
    { id, parent: null, total: 3, sealed: false, nested: 2 },
    { id: id + 1, parent: id, total: 0, sealed: true, nested: 0 },
    { id: id + 2, parent: id, total: 0, sealed: true, nested: 0 },
  ]);
  await client.delete([1, late, 4]);
  assert.equal((await client.batch(id))?.finishedAt, null);
  await client.sealBatch(id);
  assert.ok((await client.batch(id))?.finishedAt);
  assert.equal((await client.get(waiter))?.state, "enqueued");
  await assert.rejects(client.enqueue(mail, to, { batch: id }), {
    code: "batch_closed",
    message: `can't insert: jobs[0].batch: batch ${id} has finished`,
  });
  await assert.rejects(client.startBatch(nested), { code: "batch_closed" });
  await assert.rejects(client.sealBatch(99), { code: "not_found" });
  assert.equal(await client.batch(99), null);
});

test("one Batch may be started more than once, and changed in between", async () => {
  const { client } = await world();
  const batch = new Batch();
  batch.add(mail.spec(to));
  const first = await client.startBatch(batch);
  batch.add(mail.spec(to));
  const second = await client.startBatch(batch);
  assert.deepEqual([(await client.batch(first))?.total, (await client.batch(second))?.total], [1, 2]);
});

test("interceptors are around the inserts, with the batches that they go to", async () => {
  const seen: (readonly NewJob[])[] = [];
  const { client } = await world([
    (jobs, next) => {
      seen.push(jobs);
      return next(jobs.map((job) => ({ ...job, meta: { trace: "1" } })));
    },
  ]);
  const batch = new Batch();
  batch.add(mail.spec(to));
  batch.continueWith(report.spec({}));
  const id = await client.startBatch(batch);
  assert.deepEqual(
    seen.map((jobs) => jobs.map((job) => [job.kind, job.batch, job.afterBatch])),
    [[["mail", id, null]], [["report", null, id]]],
  );
  assert.deepEqual((await client.get(1))?.meta, { trace: "1" });
});

for (const name of ["memory", "SQLite"]) {
  test(`${name}: a batch that can't be written whole leaves nothing`, async () => {
    const store = name === "memory" ? await MemoryStore.open() : await SqliteStore.open({ path: ":memory:" });
    const refused = new Error("refused by an interceptor");
    let inserts = 0;
    const client = new Client(store, {
      interceptors: [
        (jobs, next) => {
          inserts += 1;
          if (jobs.some(({ kind }) => kind === "refused")) throw refused;
          return next(jobs);
        },
      ],
    });
    const around = await client.openBatch(new Batch());
    const inner = new Batch();
    inner.add(mail.spec(to));
    const batch = new Batch({ parent: around });
    batch.add(mail.spec(to, { unique: { key: "once" } }));
    batch.nest(inner);
    batch.continueWith(report.spec({}, { after: 1_000 }));
    const before = [await client.batches(), await client.counts()];
    for (const call of ["startBatch", "openBatch"] as const) {
      inserts = 0;
      await assert.rejects(client[call](batch), { code: "not_found" });
      assert.equal(inserts, 3, "two had been written");
      assert.deepEqual([await client.batches(), await client.counts()], before);
    }
    const last = new Batch();
    last.add(mail.spec(to));
    last.continueWith(defineJob("refused").spec({}));
    await assert.rejects(client.startBatch(last), (error) => error === refused);
    assert.deepEqual([await client.batches(), await client.counts()], before);
    await client.enqueue(mail, to, { unique: { key: "once" } });
    assert.equal((await client.counts()).enqueued, 1, "nor a unique key");
    await store.close();
  });
}

test("a batch is never taken for a promise", () => {
  assert.ok(!("then" in new Batch()));
});

test("everything that is wrong is named with its place, and nothing is written", async () => {
  const { client } = await world();
  const wrong = new Batch({ description: 5, meta: { "kiln.a": "b" }, parent: 0, more: 1 } as never);
  wrong.add(mail.spec(to, { delay: "soon" as never }));
  wrong.add({} as never);
  wrong.add(mail.spec(to, { batch: 7, afterBatch: 7 }));
  const inner = new Batch({ parent: 3 });
  inner.add(mail.spec(to));
  inner.add(mail.spec(to, { priority: 1e9, needs: [2] }));
  wrong.nest(inner);
  wrong.nest({} as never);
  wrong.continueWith(report.spec({ of: 1n as never }));
  wrong.continueWith(report.spec({}, { afterBatch: 3 }));
  for (const call of ["startBatch", "openBatch"] as const) {
    assert.deepEqual(
      (await problemsOf(() => client[call](wrong))).map(({ field }) => field),
      [
        "batch.more",
        "batch.description",
        "batch.parent",
        "a key of batch.meta",
        "batch.jobs[0].delay",
        "batch.jobs[1]",
        "batch.jobs[2].batch",
        "batch.jobs[2].afterBatch",
        "batch.nested[0].parent",
        "batch.nested[0].jobs[1].priority",
        "batch.nested[0].jobs[1].needs[0]",
        "batch.nested[1]",
        "batch.continuations[0].args.of",
        "batch.continuations[1].afterBatch",
      ],
    );
  }
  const circle = new Batch();
  circle.add(mail.spec(to, { needs: [1] }));
  circle.add(mail.spec(to, { needs: [0] }));
  const around = new Batch();
  around.nest(circle);
  assert.deepEqual(await rulesOf(() => client.startBatch(around)), [
    "batch.nested[0].jobs[0].parents must not wait for itself (jobs 0 → 1 → 0 of the call)",
  ]);
  for (const value of [undefined, null, {}, 1, mail.spec(to), Batch, hostileProxy(), revokedProxy()]) {
    assert.deepEqual(await rulesOf(() => client.startBatch(value as never)), ["batch must be a Batch"]);
  }
  for (const options of [null, 1, [], hostileProxy(), throwingGetter("meta"), new Map()]) {
    assert.equal((await rulesOf(() => client.startBatch(new Batch(options as never)))).length, 1);
  }
  assert.deepEqual([(await client.batches()).batches, (await client.counts()).enqueued], [[], 0]);
});

test("batches within themselves, or twice in one call, are refused", async () => {
  const { client } = await world();
  const twice = "must not be in the call twice, nor within itself";
  const self = new Batch();
  self.nest(self);
  assert.deepEqual(await rulesOf(() => client.startBatch(self)), [`batch.nested[0] ${twice}`]);
  const [a, b] = [new Batch(), new Batch()];
  a.nest(b);
  b.nest(a);
  assert.deepEqual(await rulesOf(() => client.startBatch(a)), [`batch.nested[0].nested[0] ${twice}`]);
  const [outer, shared] = [new Batch(), new Batch()];
  outer.nest(shared);
  outer.nest(new Batch());
  outer.nest(shared);
  assert.deepEqual(await rulesOf(() => client.openBatch(outer)), [`batch.nested[2] ${twice}`]);
  let deep = new Batch();
  for (let n = 0; n < 99; n++) {
    const around = new Batch();
    around.nest(deep);
    deep = around;
  }
  const id = await client.startBatch(deep);
  assert.ok((await client.batch(id))?.finishedAt, "all are empty");
  for (let n = 0; n < 100_000; n++) {
    const around = new Batch();
    around.nest(deep);
    deep = around;
  }
  const [rule = "", ...more] = await rulesOf(() => client.startBatch(deep));
  assert.match(rule, /^batch\.nested.* must not be more than 100 levels deep$/);
  assert.deepEqual(more, []);
});

test("a description is cut, and an empty one is none", async () => {
  const { client } = await world();
  for (const [given, kept] of [
    ["", null],
    ["a\u0000\ud800", "a\ufffd"],
    ["ü".repeat(600), "ü".repeat(512)],
  ] as const) {
    const id = await client.startBatch(new Batch({ description: given }));
    assert.equal((await client.batch(id))?.description, kept);
  }
});

test("ids and queries that are none are refused", async () => {
  const { client } = await world();
  const id = `must be an integer from 1 to ${Number.MAX_SAFE_INTEGER}`;
  for (const value of [0, -1, 0.5, Number.NaN, 2 ** 53, "1", null, undefined, {}, hostileProxy()]) {
    assert.deepEqual(await rulesOf(() => client.batch(value as never)), [`id ${id}`]);
    assert.deepEqual(await rulesOf(() => client.sealBatch(value as never)), [`id ${id}`]);
    if (value === undefined) continue;
    assert.deepEqual(await rulesOf(() => client.batches({ parent: value as never })), [`parent ${id}`]);
    for (const field of ["batch", "afterBatch"] as const) {
      assert.deepEqual(await rulesOf(() => client.enqueue(mail, to, { [field]: value } as EnqueueOptions)), [
        `${field} ${id}`,
      ]);
    }
    assert.deepEqual(await rulesOf(() => client.list({ state: "failed", batch: value as never })), [`batch ${id}`]);
    assert.deepEqual(await rulesOf(() => client.delete({ state: "failed", batch: value as never })), [`batch ${id}`]);
  }
  assert.deepEqual(await rulesOf(() => client.batches({ limit: 0, cursor: 1, more: 1 } as never)), [
    "more is unknown (known are parent, limit, cursor)",
    `limit ${id}`,
    "cursor must be a non-empty string",
  ]);
  for (const recurringId of ["", "a b", 1, null]) {
    const [rule = ""] = await rulesOf(() => client.requeue({ state: "failed", recurringId: recurringId as never }));
    assert.match(rule, /^recurringId must be 1 to 200 letters/);
  }
  assert.deepEqual(await rulesOf(() => client.delete({ batch: 1 })), ["filter must have ids or a state"]);
  assert.deepEqual(await rulesOf(() => client.enqueue(mail, to, { batch: 1, afterBatch: 1 })), [
    "afterBatch must not be the batch that the job joins",
  ]);
});

test("a recurring job belongs to no batch and waits for none", async () => {
  const { client, store } = await world();
  for (const field of ["batch", "afterBatch"] as const) {
    const options = { cron: "@daily", [field]: 1 };
    const [rule = ""] = await rulesOf(() => client.setRecurring("a", report, {}, options));
    assert.match(rule, new RegExp(`^${field} is unknown`));
    await client.setRecurring("b", report, {}, { cron: "@daily" });
    const {
      version,
      createdAt: _c,
      updatedAt: _u,
      lastRunAt: _r,
      lastJobId: _j,
      ...row
    } = (await store.recurringJob("b")) ?? assert.fail();
    const template = { ...row.template, [field]: 1 };
    assert.deepEqual(await rulesOf(() => store.putRecurring({ ...row, version, template })), [
      `template.${field} must not be given: a run can't belong to a batch`,
    ]);
  }
});

test("whatever is collected is refused or written, never thrown on", async () => {
  const { store } = await world();
  const client = new Client(store);
  const any = fc.anything();
  await fc.assert(
    fc.asyncProperty(
      fc.record({ options: fc.oneof(any, fc.record({ description: any, meta: any, parent: any })), spec: any }),
      fc.record({ batch: any, afterBatch: any, needs: any }, { requiredKeys: [] }),
      async ({ options, spec }, specOptions) => {
        const batch = new Batch(options as never);
        batch.add(mail.spec(to, specOptions as SpecOptions));
        for (const add of ["add", "nest", "continueWith"] as const) batch[add](spec as never);
        const before = (await client.batches()).batches.length;
        const problems = await problemsOf(() => client.startBatch(batch));
        assert.ok(problems.length > 0, "a spec is never any value");
        assert.equal((await client.batches()).batches.length, before);
      },
    ),
  );
});
