import assert from "node:assert/strict";
import type {
  FireRecurring,
  InsertedJob,
  NewJob,
  PutRecurring,
  RecurringRecord,
  RecurringTemplate,
  Store,
} from "../../engine/store.ts";
import { fickle } from "./hostile.ts";
import {
  assertNear,
  at,
  claimIds,
  claimOne,
  clock,
  end,
  type Group,
  HOUR,
  idsOf,
  MINUTE,
  newJob,
  only,
  record,
  refused,
  register,
  SECOND,
  snapshot,
  subscribe,
} from "./support.ts";

const { delay: _delay, runAt: _runAt, deadline: _deadline, recurringId: _recurringId, ...rest } = newJob();
const { batch: _batch, afterBatch: _afterBatch, ...TEMPLATE } = rest;

/** A recurring job `a` that is new and never due. */
export function recurringOf(fields: Partial<PutRecurring> = {}): PutRecurring {
  return {
    ...{ id: "a", group: null, cron: "@hourly", timeZone: "UTC", misfire: "once", overlap: true, template: TEMPLATE },
    ...{ paused: false, nextRunAt: null, version: 0 },
    ...fields,
  };
}

const FULL: RecurringTemplate = {
  ...TEMPLATE,
  ...{ kind: "report", queue: "reports", args: '{ "day":1.0 ,"ü":"\\u0000"}', priority: -7, maxAttempts: 3 },
  ...{ timeout: 1_500, title: "Täglich", tags: ["b", "a"], meta: { z: "1", a: "", ["__proto__"]: "own" } },
};

async function put(store: Store, fields: Partial<PutRecurring> = {}): Promise<RecurringRecord> {
  const recurring = recurringOf(fields);
  await store.putRecurring(recurring);
  return row(store, recurring.id);
}

async function row(store: Store, id = "a"): Promise<RecurringRecord> {
  const found = await store.recurringJob(id);
  assert.ok(found, `recurring job ${id} exists`);
  return found;
}

const all = (store: Store): Promise<RecurringRecord[]> => store.recurring();

/** A new recurring job that has been due for `ms` milliseconds. */
async function putDue(store: Store, ms: number, fields: Partial<PutRecurring> = {}): Promise<RecurringRecord> {
  return put(store, { nextRunAt: new Date((await clock(store)) - ms), ...fields });
}

function firing({ id, version }: RecurringRecord, fields: Partial<FireRecurring> = {}): FireRecurring {
  return { id, version, nextRunAt: null, lastRunAt: null, jobs: [newJob({ recurringId: id })], ...fields };
}

async function fire(store: Store, from: RecurringRecord, fields: Partial<FireRecurring> = {}): Promise<InsertedJob[]> {
  return store.fireRecurring(firing(from, fields));
}

const conflict = { code: "conflict" };
const notFound = { code: "not_found" };

export const recurringCases: Group = {
  async Put({ store }) {
    const before = await clock(store);
    const nextRunAt = new Date(before + HOUR);
    const given = recurringOf({
      ...{ id: "Nightly_report.eu:1-2", group: "app", cron: "0 3 * * MON#1", timeZone: "Europe/London" },
      ...{ misfire: "all", overlap: false, paused: true, nextRunAt, template: FULL },
    });
    const version = await store.putRecurring(given);
    assert.ok(Number.isSafeInteger(version) && version > 0);
    const { createdAt, updatedAt, ...rest } = await row(store, given.id);
    assert.deepEqual(rest, { ...given, version, lastRunAt: null, lastJobId: null });
    assertNear(createdAt, before, "createdAt");
    assert.deepEqual(updatedAt, createdAt);
    assert.equal(await store.recurringJob("other"), null);
  },

  async List({ store }) {
    assert.deepEqual(await all(store), []);
    for (const id of ["b", "B", "a", "a.b"]) await store.putRecurring(recurringOf({ id }));
    const rows = await all(store);
    assert.deepEqual(
      rows.map(({ id }) => id),
      ["B", "a", "a.b", "b"],
    );
    assert.deepEqual(rows[1], await row(store));
  },

  async Copies({ store }) {
    const nextRunAt = new Date(HOUR);
    const meta: Record<string, string> = { a: "1" };
    const put = recurringOf({ nextRunAt, template: { ...TEMPLATE, meta } });
    await store.putRecurring(put);
    nextRunAt.setTime(0);
    meta["a"] = "changed";
    const found = await row(store);
    found.nextRunAt?.setTime(1);
    assert.deepEqual((await row(store)).nextRunAt, new Date(HOUR));
    assert.deepEqual((await row(store)).template.meta, { a: "1" });
  },

  /** What was checked is what is stored, also when an object says something else each time that it is asked. */
  async Fickle({ store }) {
    const content = ({ createdAt: _created, updatedAt: _updated, version: _version, ...fields }: RecurringRecord) =>
      fields;
    const expected = content(await put(store, { template: FULL }));
    for (const later of [undefined, -1, "\u0000", Symbol("later")]) {
      await store.removeRecurring("a");
      await store.putRecurring(fickle(recurringOf({ template: FULL }), later));
      const found = await row(store);
      assert.deepEqual(content(found), expected);
      const fired = await store.fireRecurring(fickle(firing(found, { jobs: [newJob({ title: "x" })] }), later));
      assert.equal((await record(store, only(fired).id)).title, "x");
    }
  },

  async CAS({ store, advance }) {
    const first = await put(store);
    await assert.rejects(store.putRecurring(recurringOf()), conflict, "create over an existing one");
    await advance(MINUTE);
    const change = {
      cron: "@daily",
      group: "g",
      paused: true,
      misfire: "skip",
      overlap: false,
      template: FULL,
    } as const;
    const second = await store.putRecurring(recurringOf({ ...change, version: first.version }));
    assert.ok(second > first.version);
    const changed = await row(store);
    assert.deepEqual(
      { ...changed, updatedAt: null },
      { ...first, ...change, version: second, createdAt: first.createdAt, updatedAt: null },
    );
    assertNear(changed.updatedAt, first.createdAt.getTime() + MINUTE, "updatedAt");
    for (const version of [first.version, second + 1, 0]) {
      await assert.rejects(store.putRecurring(recurringOf({ version })), conflict, `version ${version}`);
    }
    assert.deepEqual(await row(store), changed);
    await assert.rejects(store.putRecurring(recurringOf({ id: "b", version: 1 })), conflict, "update of a missing one");
    assert.equal(await store.recurringJob("b"), null);
  },

  async PutInvalid({ store }) {
    const bad: readonly (readonly [Partial<Record<keyof PutRecurring, unknown>>, string])[] = [
      [{ id: "" }, "id"],
      [{ id: ".." }, "id"],
      [{ id: "a b" }, "id"],
      [{ id: "a".repeat(201) }, "id"],
      [{ group: "ü" }, "group"],
      [{ cron: "" }, "cron"],
      [{ cron: "\u0000" }, "cron"],
      [{ timeZone: "\ud800" }, "timeZone"],
      [{ misfire: "never" }, "misfire"],
      [{ overlap: 1 }, "overlap"],
      [{ paused: null }, "paused"],
      [{ nextRunAt: new Date(Number.NaN) }, "nextRunAt"],
      [{ nextRunAt: new Date(-1) }, "nextRunAt"],
      [{ version: -1 }, "version"],
      [{ version: Number.NaN }, "version"],
      [{ template: { ...TEMPLATE, kind: "a b" } }, "template.kind"],
      [{ template: { ...TEMPLATE, args: "{" } }, "template.args"],
      [{ template: { ...TEMPLATE, priority: 40_000 } }, "template.priority"],
    ];
    for (const [fields, field] of bad) await refused(store.putRecurring(recurringOf(fields as PutRecurring)), field);
    assert.deepEqual(await all(store), []);
  },

  async Remove({ store }) {
    const first = await putDue(store, 0);
    const job = only(await fire(store, first));
    await store.removeRecurring("a");
    assert.equal(await store.recurringJob("a"), null);
    await assert.rejects(store.removeRecurring("a"), notFound);
    assert.equal((await record(store, job.id)).recurringId, "a", "its jobs stay");
    const second = await put(store);
    assert.deepEqual([second.lastRunAt, second.lastJobId], [null, null]);
    assert.ok(second.version > first.version, "a version is never used again");
    await assert.rejects(fire(store, first), conflict);
  },

  async Due({ store, advance }) {
    const before = await clock(store);
    const none = await store.dueRecurring(10);
    assert.deepEqual([none.rows, none.nextIn], [[], null]);
    assertNear(none.now, before, "now");
    await put(store, { id: "never" });
    await put(store, { id: "paused", paused: true, nextRunAt: new Date(before) });
    await put(store, { id: "later", nextRunAt: new Date(before + 2 * HOUR) });
    const waiting = await store.dueRecurring(10);
    assert.deepEqual(waiting.rows, []);
    assert.equal(waiting.nextIn, before + 2 * HOUR - waiting.now.getTime());
    await putDue(store, 0, { id: "now" });
    await putDue(store, HOUR, { id: "overdue" });
    const due = await store.dueRecurring(10);
    assert.deepEqual(due.rows, [await row(store, "overdue"), await row(store, "now")]);
    assert.equal(due.nextIn, 0);
    assert.deepEqual((await store.dueRecurring(1)).rows, [await row(store, "overdue")]);
    await advance(2 * HOUR);
    assert.equal((await store.dueRecurring(10)).rows.length, 3);
    assert.deepEqual(idsOfRows(await store.dueRecurring(10)), ["overdue", "now", "later"]);
  },

  async Fire({ store, advance }) {
    await register(store);
    const due = await putDue(store, MINUTE);
    await advance(SECOND);
    const before = await clock(store);
    const occurrence = new Date(before - MINUTE);
    const nextRunAt = new Date(before + HOUR);
    const lastRunAt = new Date(before);
    const jobs: NewJob[] = [
      newJob({ recurringId: "a", runAt: occurrence, meta: { "kiln.occurrence": "x" }, tags: ["t"] }),
      newJob({ recurringId: "a", delay: HOUR }),
    ];
    const inserted = await fire(store, due, { nextRunAt, lastRunAt, jobs });
    assert.deepEqual(
      inserted.map(({ state }) => state),
      ["enqueued", "scheduled"],
    );
    const [id = 0, second = 0] = idsOf(inserted);
    const after = await row(store);
    assert.ok(after.version > due.version);
    assertNear(after.updatedAt, before, "updatedAt");
    const moved = { nextRunAt, lastRunAt, lastJobId: second, version: after.version, updatedAt: after.updatedAt };
    assert.deepEqual(after, { ...due, ...moved });
    const job = await record(store, id);
    assert.deepEqual([job.recurringId, job.runAt, job.meta], ["a", occurrence, { "kiln.occurrence": "x" }]);
    const counts = await store.counts();
    await assert.rejects(fire(store, due, { nextRunAt, lastRunAt, jobs }), conflict, "the same again");
    assert.deepEqual(await store.counts(), counts);
    assert.deepEqual(await row(store), after);
    await assert.rejects(fire(store, { ...due, id: "missing" }), notFound);
    assert.equal((await claimOne(store)).recurringId, "a", "a claim says whose run it is");
    const plain = only(await store.insert([newJob({ queue: "other" })]));
    assert.equal((await record(store, plain.id)).recurringId, null);
  },

  /** Whose run it is stays with the job wherever it goes. */
  async RecurringId({ store }) {
    await register(store);
    const { id } = only(await fire(store, await putDue(store, 0)));
    const job = await claimOne(store);
    await end(store, job, "succeeded");
    assert.equal((await record(store, id)).recurringId, "a");
    await store.requeue({ ids: [id] });
    assert.equal((await record(store, id)).recurringId, "a");
    await store.delete({ ids: [id] });
    const page = await store.jobs({ state: "deleted" });
    assert.deepEqual(
      page.jobs.map(({ recurringId }) => recurringId),
      ["a"],
    );
  },

  async FireEmpty({ store }) {
    const due = await putDue(store, 0);
    const jobs = only(await fire(store, due));
    const lastRunAt = new Date(await clock(store));
    assert.deepEqual(await fire(store, await row(store), { jobs: [], lastRunAt }), []);
    const after = await row(store);
    assert.deepEqual([after.nextRunAt, after.lastRunAt, after.lastJobId], [null, lastRunAt, jobs.id]);
  },

  async FireInvalid({ store }) {
    const due = await putDue(store, 0);
    const before = await snapshot(store);
    const jobs = [newJob({ recurringId: "a" }), newJob({ recurringId: "a", args: "{" })];
    await refused(fire(store, due, { jobs }), "jobs[1].args");
    await refused(fire(store, due, { nextRunAt: new Date(Number.NaN) }), "nextRunAt");
    await refused(fire(store, due, { lastRunAt: new Date(-1) }), "lastRunAt");
    assert.deepEqual(await snapshot(store), before);
    assert.deepEqual(await row(store), due);
  },

  /** A run that is a duplicate of a unique job adds nothing, and the schedule moves all the same. */
  async FireDuplicate({ store }) {
    const unique = { key: "0".repeat(32), window: null, onConflict: "keep" } as const;
    const jobs = [newJob({ recurringId: "a", unique })];
    const first = await putDue(store, 0, { template: { ...TEMPLATE, unique } });
    const { id } = only(await fire(store, first, { jobs }));
    const second = await row(store);
    const nextRunAt = new Date((await clock(store)) + HOUR);
    const again = only(await fire(store, second, { jobs, nextRunAt }));
    assert.deepEqual(again, { id, state: "enqueued", duplicate: true, replaced: false });
    const after = await row(store);
    assert.ok(after.version > second.version);
    assert.deepEqual([after.nextRunAt, after.lastJobId], [nextRunAt, id]);
    assert.equal((await store.counts()).enqueued, 1);
  },

  async FireConcurrent({ store }) {
    const due = await putDue(store, 0);
    const fires = await Promise.allSettled(Array.from({ length: 8 }, () => fire(store, due)));
    const won = fires.filter(({ status }) => status === "fulfilled");
    assert.equal(won.length, 1);
    for (const result of fires) if (result.status === "rejected") assert.equal(result.reason.code, "conflict");
    assert.equal((await store.counts()).enqueued, 1);
  },

  async FireWakes(harness) {
    const { store } = harness;
    const due = await putDue(store, 0);
    const subscriber = await subscribe(harness);
    await fire(store, due, { jobs: [newJob({ queue: "reports", recurringId: "a" })] });
    await subscriber.next((event) => event.type === "ready" && (event.queue ?? "reports") === "reports");
    await subscriber.stop();
  },

  async PutWakes(harness) {
    const { store } = harness;
    const subscriber = await subscribe(harness);
    await put(store);
    await subscriber.next(({ type }) => type === "recurring");
    await subscriber.stop();
  },

  /** Without overlap the last job must have ended, whichever way, before there is another one. */
  async FireOverlap({ store }) {
    await register(store);
    const fireNow = async (jobs = 1): Promise<number[]> => {
      const from = await row(store);
      const fired = await fire(store, from, { jobs: Array.from({ length: jobs }, () => newJob({ recurringId: "a" })) });
      assert.ok((await row(store)).version > from.version, "the schedule moves all the same");
      return idsOf(fired);
    };
    await putDue(store, 0, { overlap: false });
    const [first = 0, ...more] = await fireNow(3);
    assert.deepEqual(more, [], "never more than the first");
    assert.deepEqual(await fireNow(), [], "enqueued");
    assert.equal((await row(store)).lastJobId, first);
    let job = await claimOne(store);
    assert.deepEqual(await fireNow(), [], "processing");
    await end(store, job, "scheduled", { delay: HOUR });
    assert.deepEqual(await fireNow(), [], "scheduled");
    await store.delete({ ids: [first] });
    assert.equal((await fireNow()).length, 1, "deleted");
    job = await claimOne(store);
    await end(store, job, "succeeded");
    assert.equal((await fireNow()).length, 1, "succeeded");
    job = await claimOne(store);
    await end(store, job, "failed");
    assert.equal((await fireNow()).length, 1, "failed");
    assert.equal((await claimIds(store)).length, 1);
  },

  /** A row whose schedule nobody understands is a row like any other to the store. */
  async Opaque({ store }) {
    const broken = await putDue(store, 0, { cron: "not a cron", timeZone: "Mars/Olympus" });
    await putDue(store, 0, { id: "b" });
    assert.deepEqual(idsOfRows(await store.dueRecurring(10)), ["a", "b"]);
    await fire(store, broken, { jobs: [], nextRunAt: new Date((await clock(store)) + HOUR) });
    assert.deepEqual(idsOfRows(await store.dueRecurring(10)), ["b"]);
    assert.equal(at(await all(store), 0).cron, "not a cron");
  },
};

const idsOfRows = ({ rows }: { readonly rows: readonly RecurringRecord[] }): string[] => rows.map(({ id }) => id);
