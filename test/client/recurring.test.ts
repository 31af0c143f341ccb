import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { Client, type RecurringOptions } from "../../engine/client.ts";
import { ConflictError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import type { PutRecurring, RecurringRecord, Store } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { asyncSchema, hostileProxy, problemsOf, rulesOf, throwingGetter } from "./support.ts";

const HOUR = 3_600_000;
const report = defineJob<{ day: string }>("report", { queue: "reports", priority: 3, maxAttempts: 4 });
const checked = defineJob("checked", { args: z.object({ id: z.number() }) });
const args = { day: "today" };

async function recurringWorld() {
  const time = new VirtualTime();
  const store = await MemoryStore.open({ runtime: time.runtime() });
  const puts: PutRecurring[] = [];
  const spied = new Proxy(store, {
    get: (target, name) => {
      if (name === "putRecurring") {
        return (put: PutRecurring) => {
          puts.push(put);
          return target.putRecurring(put);
        };
      }
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const client = new Client(spied);
  const row = async (id = "r"): Promise<RecurringRecord> => {
    const found = await store.recurringJob(id);
    assert.ok(found, `recurring job ${id} exists`);
    return found;
  };
  const ids = async (): Promise<string[]> => (await client.recurring()).map(({ id }) => id);
  return { time, store, client, puts, row, ids };
}

test("what was set is shown", async () => {
  const { client, time } = await recurringWorld();
  await client.setRecurring("r", report, args, {
    ...{ cron: " 0  03 * * mon#1", timeZone: "Europe/London", misfire: "all", overlap: false },
    ...{ queue: "slow", priority: 7, maxAttempts: 2, timeout: "5m", title: "Report", tags: ["a"], meta: { b: "c" } },
  });
  const at = new Date(time.now);
  assert.deepEqual(await client.recurring(), [
    {
      ...{ id: "r", group: null, cron: "0 3 * * MON#1", timeZone: "Europe/London", misfire: "all", overlap: false },
      ...{ paused: false, kind: "report", queue: "slow", args, priority: 7, maxAttempts: 2, timeout: 300_000 },
      ...{ title: "Report", tags: ["a"], meta: { b: "c" }, nextRunAt: new Date("2026-01-05T03:00Z") },
      ...{ lastRunAt: null, lastJobId: null, createdAt: at, updatedAt: at },
    },
  ]);
});

test("what is left out is as the kind says, in UTC, once, with overlap", async () => {
  const { client, row } = await recurringWorld();
  await client.setRecurring("r", report, args, { cron: "@daily" });
  const { template, timeZone, misfire, overlap } = await row();
  assert.deepEqual({ timeZone, misfire, overlap }, { timeZone: "UTC", misfire: "once", overlap: true });
  assert.deepEqual([template.queue, template.priority, template.maxAttempts], ["reports", 3, 4]);
});

test("all that is wrong is named at once and nothing is written", async () => {
  const { client, ids } = await recurringWorld();
  const rules = (id: unknown, options: unknown, definition: unknown = report, given: unknown = args) =>
    rulesOf(() => Reflect.apply(client.setRecurring, client, [id, definition, given, options]));
  const name = 'must be 1 to 200 letters, digits, "_", ".", ":" or "-", not "." or ".."';
  assert.deepEqual(
    await rules("a b", { cron: "* * *", timeZone: "Local", misfire: "never", overlap: 1, priority: 1.5 }),
    [
      `id ${name}`,
      "cron must be a cron expression (it has 3 fields, not 5 or 6)",
      'timeZone must be a time zone such as "Europe/London" or "UTC"',
      "misfire must be one of once, all, skip",
      "overlap must be true or false",
      "priority must be an integer from -32768 to 32767",
    ],
  );
  for (const id of ["", ".", "..", "ü", "a".repeat(201), null, 5]) {
    assert.deepEqual(await rules(id, { cron: "@daily" }), [`id ${name}`]);
  }
  assert.deepEqual(await rules("r", {}), ["cron is required"]);
  assert.deepEqual(await rules("r", undefined), ["options must be an object", "cron is required"]);
  assert.deepEqual(await rules("r", { cron: "0 0 30 2 *" }), ["cron must fire some day"]);
  assert.match((await rules("r", { cron: "@daily", delay: "1s" })).join(), /^delay is unknown/);
  assert.match((await rules("r", { cron: "@daily", runAt: new Date(0) })).join(), /^runAt is unknown/);
  assert.deepEqual(await rules("r", { cron: "@daily", meta: { "kiln.a": "b" } }), [
    'a key of meta must not begin with "kiln."',
  ]);
  assert.deepEqual(await rules("r", { cron: "@daily" }, "report"), ["definition must be what defineJob returned"]);
  assert.match((await rules("r", { cron: "@daily" }, checked, { id: "7" })).join(), /^args\.id must fit the schema/);
  assert.deepEqual(await rules("r", throwingGetter("cron")), ["cron must be readable", "cron is required"]);
  assert.ok((await rules("r", hostileProxy())).length > 0);
  assert.deepEqual(await ids(), []);
});

test("an asynchronous schema is waited for", async () => {
  const { client, ids } = await recurringWorld();
  const slow = defineJob("slow", { args: asyncSchema<string>(async (value) => (value === "a" ? undefined : "no")) });
  assert.deepEqual(await rulesOf(() => client.setRecurring("r", slow, "b", { cron: "@daily" })), [
    "args must fit the schema (no)",
  ]);
  await client.setRecurring("r", slow, "a", { cron: "@daily" });
  assert.deepEqual(await ids(), ["r"]);
});

test("the same again writes nothing; whatever else has changed is written and keeps the next run", async () => {
  const { client, time, puts, row } = await recurringWorld();
  const same: RecurringOptions = { cron: "@every 1h", tags: ["a"], meta: { x: "1", y: "2" }, title: "T" };
  await client.setRecurring("r", report, args, same);
  await time.advance(10 * 60_000);
  await client.setRecurring("r", report, { ...args }, { ...same, cron: "@EVERY 60m", meta: { y: "2", x: "1" } });
  assert.equal(puts.length, 1);
  const { nextRunAt } = await row();
  const changes: Partial<RecurringOptions>[] = [
    ...[{ misfire: "skip" as const }, { overlap: false }, { queue: "q" }, { priority: 1 }, { maxAttempts: 1 }],
    ...[{ timeout: "1s" }, { timeout: false as const }, { title: "U" }, { tags: ["b"] }, { meta: { x: "2" } }],
  ];
  for (const [index, change] of changes.entries()) {
    await client.setRecurring("r", report, args, { ...same, ...change });
    assert.equal(puts.length, index + 2, JSON.stringify(change));
    assert.deepEqual((await row()).nextRunAt, nextRunAt);
  }
  await client.setRecurring("r", report, { day: "tomorrow" }, same);
  await client.setRecurring("r", defineJob<{ day: string }>("other"), { day: "tomorrow" }, same);
  assert.equal(puts.length, changes.length + 3);
  assert.deepEqual((await row()).nextRunAt, nextRunAt);
});

test("another cron expression or time zone sets the next run anew, and a pause stays", async () => {
  const { client, row } = await recurringWorld();
  await client.setRecurring("r", report, args, { cron: "0 3 * * *" });
  assert.deepEqual((await row()).nextRunAt, new Date("2026-01-01T03:00Z"));
  await client.pauseRecurring("r");
  await client.setRecurring("r", report, args, { cron: "0 3 * * *", timeZone: "America/New_York" });
  assert.deepEqual((await row()).nextRunAt, new Date("2026-01-01T08:00Z"));
  await client.setRecurring("r", report, args, { cron: "0 4 * * *", timeZone: "America/New_York" });
  assert.deepEqual((await row()).nextRunAt, new Date("2026-01-01T09:00Z"));
  assert.equal((await row()).paused, true);
});

test("the next run comes after the last one, also when the clock was put back", async () => {
  const { client, store, time, row } = await recurringWorld();
  await client.setRecurring("r", report, args, { cron: "0 * * * *" });
  const { version } = await row();
  const lastRunAt = new Date(time.now + 5 * HOUR);
  await store.fireRecurring({ id: "r", version, nextRunAt: null, lastRunAt, jobs: [] });
  await client.setRecurring("r", report, args, { cron: "0 * * * *" });
  assert.deepEqual((await row()).nextRunAt, new Date(time.now + 6 * HOUR));
});

test("a group is kept in step with the code", async () => {
  const { client, puts, row, ids } = await recurringWorld();
  const spec = (id: string, cron = "@daily") => report.recurring(id, args, { cron });
  await client.setRecurring("alone", report, args, { cron: "@daily" });
  await client.syncRecurring("other", [spec("x"), spec("taken")]);
  await client.syncRecurring("app", [spec("a"), spec("b"), spec("taken")]);
  assert.deepEqual(await ids(), ["a", "alone", "b", "taken", "x"]);
  assert.equal((await row("taken")).group, "app");
  const written = puts.length;
  await client.syncRecurring("app", [spec("a"), spec("c", "@hourly"), spec("taken")]);
  assert.equal(puts.length, written + 1, "only what has changed is written");
  assert.deepEqual(await ids(), ["a", "alone", "c", "taken", "x"]);
  await client.setRecurring("taken", report, args, { cron: "@daily" });
  assert.equal((await row("taken")).group, null, "set by itself it leaves the group");
  await client.syncRecurring("app", []);
  assert.deepEqual(await ids(), ["alone", "taken", "x"]);
});

test("a group is checked as a whole before anything is written", async () => {
  const { client, ids } = await recurringWorld();
  const rules = (group: unknown, specs: unknown) =>
    rulesOf(() => Reflect.apply(client.syncRecurring, client, [group, specs]));
  const good = report.recurring("a", args, { cron: "@daily" });
  const specs = [good, report.recurring("b", args, { cron: "61 * * * *" }), good, 5, report.spec(args)];
  const made = "must be made by the recurring method of a job definition";
  assert.deepEqual(await rules("my group", specs), [
    'group must be 1 to 200 letters, digits, "_", ".", ":" or "-", not "." or ".."',
    "recurring[1].cron must be a cron expression (minute: 61 is not from 0 to 59)",
    `recurring[3] ${made}`,
    `recurring[4] ${made}`,
    "recurring[2].id must not be given twice",
  ]);
  const never = report.recurring("b", args, { cron: "0 0 30 2 *" });
  assert.deepEqual(await rules("app", [good, never]), ["recurring[1].cron must fire some day"]);
  assert.deepEqual(await rules("app", good), ["recurring must be an array"]);
  assert.deepEqual(await ids(), []);
});

test("pause, resume, trigger and remove need one that is there, and an id", async () => {
  const { client } = await recurringWorld();
  for (const call of ["pauseRecurring", "resumeRecurring", "triggerRecurring", "removeRecurring"] as const) {
    await assert.rejects(client[call]("r"), { code: "not_found", message: "there is no recurring job r" });
    assert.deepEqual(
      (await problemsOf(() => client[call]("a b"))).map(({ field }) => field),
      ["id"],
    );
  }
});

test("pause and resume twice write once; a resumed one goes on from now", async () => {
  const { client, time, puts, row } = await recurringWorld();
  await client.setRecurring("r", report, args, { cron: "@hourly" });
  await client.resumeRecurring("r");
  await client.pauseRecurring("r");
  await client.pauseRecurring("r");
  assert.equal(puts.length, 2);
  await time.advance(5.5 * HOUR);
  await client.resumeRecurring("r");
  await client.resumeRecurring("r");
  assert.equal(puts.length, 3);
  const { paused, nextRunAt } = await row();
  assert.deepEqual({ paused, nextRunAt }, { paused: false, nextRunAt: new Date("2026-01-01T06:00Z") });
});

test("a triggered job goes through the interceptors and leaves the schedule", async () => {
  const { store, client, row } = await recurringWorld();
  await client.setRecurring("r", report, args, { cron: "@hourly", meta: { a: "b" } });
  const before = await row();
  const seen: unknown[] = [];
  const watching = new Client(store, {
    interceptors: [
      (jobs, next) => {
        seen.push(...jobs.map(({ recurringId }) => recurringId));
        return next(jobs.map((job) => ({ ...job, meta: { ...job.meta, trace: "1" } })));
      },
    ],
  });
  const id = await watching.triggerRecurring("r");
  const job = await client.get(id);
  assert.deepEqual(seen, ["r"]);
  assert.deepEqual([job?.recurringId, job?.meta, job?.args], ["r", { a: "b", trace: "1" }, args]);
  const { nextRunAt, lastRunAt, lastJobId } = await row();
  assert.deepEqual({ nextRunAt, lastRunAt, lastJobId }, { ...pick(before), lastJobId: id });
  const again = await watching.triggerRecurring("r");
  assert.ok(again > id);
});

const pick = ({ nextRunAt, lastRunAt }: RecurringRecord) => ({ nextRunAt, lastRunAt });

test("without overlap a trigger gives the job that has not ended", async () => {
  const { client } = await recurringWorld();
  await client.setRecurring("r", report, args, { cron: "@hourly", overlap: false });
  const id = await client.triggerRecurring("r");
  assert.equal(await client.triggerRecurring("r"), id);
  await client.delete(id);
  assert.ok((await client.triggerRecurring("r")) > id);
});

test("who is overtaken tries three times", async () => {
  const { store } = await recurringWorld();
  for (const [conflicts, succeeds] of [
    [2, true],
    [3, false],
  ] as const) {
    let calls = 0;
    const contended = new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name !== "putRecurring") return typeof value === "function" ? value.bind(target) : value;
        return async (put: PutRecurring) => {
          calls += 1;
          if (calls <= conflicts) throw new ConflictError("changed");
          return target.putRecurring(put);
        };
      },
    }) as Store;
    const set = new Client(contended).setRecurring(`r${conflicts}`, report, args, { cron: "@daily" });
    if (succeeds) await set;
    else await assert.rejects(set, { code: "conflict" });
    assert.equal(calls, 3);
  }
});

test("concurrent changes all arrive", async () => {
  const { client, row } = await recurringWorld();
  await client.setRecurring("r", report, args, { cron: "@daily" });
  await Promise.all([client.pauseRecurring("r"), client.setRecurring("r", report, args, { cron: "@hourly" })]);
  const { paused, cron } = await row();
  assert.deepEqual({ paused, cron }, { paused: true, cron: "@hourly" });
});

test("kiln's own meta can't be set", async () => {
  const { client } = await recurringWorld();
  assert.deepEqual(await rulesOf(() => client.enqueue(report, args, { meta: { "kiln.occurrence": "x", kiln: "y" } })), [
    'a key of meta must not begin with "kiln."',
  ]);
});

test("runs have the limit of their kind, or one of their own", async () => {
  const { client, store, row } = await recurringWorld();
  const mail = defineJob("mail", { limit: { max: 2 } });
  await client.setRecurring("r", mail, {}, { cron: "@daily" });
  assert.deepEqual((await row()).template.limit?.max, 2);
  await client.setRecurring("r", mail, {}, { cron: "@daily", limit: { key: "own", max: 3 } });
  assert.deepEqual((await row()).template.limit?.max, 3);
  const id = await client.triggerRecurring("r");
  const job = await store.job(id);
  assert.deepEqual([job?.state, job?.limitKey], ["throttled", (await row()).template.limit?.key]);
});
