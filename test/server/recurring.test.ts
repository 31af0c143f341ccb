/** Recurring jobs on whole servers, in virtual time. It starts at 2026-01-01T00:00Z. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreError } from "../../engine/errors.ts";
import { defineJob, type Handler, type Job } from "../../engine/job.ts";
import type { PutRecurring, Store } from "../../engine/store.ts";
import { MINUTE, SECOND, World } from "./support.ts";

const HOUR = 60 * MINUTE;
const START = Date.UTC(2026, 0, 1);
const report = defineJob<{ day: string }>("report");

interface Run {
  readonly at: number;
  readonly occurrence: number | null;
  readonly skipped: number | null;
}

/** A handler and what it has seen; instants are milliseconds from the start. */
function recorder(world: World, takes = 0): { runs: Run[]; handler: Handler } {
  const runs: Run[] = [];
  const run = async (job: Job<{ day: string }>, signal: AbortSignal): Promise<void> => {
    assert.equal(job.args.day, "today");
    assert.equal(job.recurringId, "r");
    const { occurrence } = job;
    const at = occurrence === null ? null : occurrence.at.getTime() - START;
    runs.push({ at: world.time.now - START, occurrence: at, skipped: occurrence?.skipped ?? null });
    if (takes > 0) await world.work(takes, signal);
  };
  return { runs, handler: report.handler((job, { signal }) => run(job, signal)) };
}

const onTime = (...instants: number[]): Run[] => instants.map((at) => ({ at, occurrence: at, skipped: 0 }));

type Options = Parameters<World["client"]["setRecurring"]>[3];

const set = (world: World, options: Options): Promise<void> =>
  world.client.setRecurring("r", report, { day: "today" }, options);

test("fires on time, to the millisecond, each occurrence once", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  const process = world.start([handler]);
  await world.time.advance(90 * SECOND);
  await set(world, { cron: "*/10 * * * *" });
  await world.time.advance(30 * MINUTE);
  assert.deepEqual(runs, onTime(10 * MINUTE, 20 * MINUTE, 30 * MINUTE));
  await process.stop();
});

test("one that is set while the leader sleeps fires from its first occurrence on", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  const process = world.start([handler]);
  await world.time.advance(10 * SECOND + 500);
  await set(world, { cron: "@every 1s" });
  await world.time.advance(3 * SECOND);
  assert.deepEqual(runs, onTime(11 * SECOND, 12 * SECOND, 13 * SECOND));
  await process.stop();
});

test("a recurring job that will not be due for long costs next to nothing", async () => {
  const world = await World.make();
  const process = world.start([recorder(world).handler]);
  await set(world, { cron: "@yearly" });
  await world.time.advance(MINUTE);
  process.link.calls.length = 0;
  await world.time.advance(10 * MINUTE);
  assert.equal(process.link.calls.filter((call) => call === "dueRecurring").length, 40);
  await process.stop();
});

for (const [misfire, expected] of [
  ["once", [{ at: 5 * HOUR + SECOND, occurrence: 5 * HOUR, skipped: 4 }]],
  ["skip", [{ at: 5 * HOUR + SECOND, occurrence: 5 * HOUR, skipped: 4 }]],
  ["all", [1, 2, 3, 4, 5].map((hour) => ({ at: 5 * HOUR + SECOND, occurrence: hour * HOUR, skipped: 0 }))],
] as const) {
  test(`after a time without servers: ${misfire}`, async () => {
    const world = await World.make();
    const { runs, handler } = recorder(world);
    await set(world, { cron: "@hourly", misfire });
    await world.time.advance(5 * HOUR + SECOND);
    const process = world.start([handler]);
    await world.time.advance(SECOND);
    assert.deepEqual(runs, expected);
    await world.time.advance(HOUR);
    assert.deepEqual(runs.slice(expected.length), onTime(6 * HOUR), "and on as usual");
    await process.stop();
  });
}

test("after a time without servers: skip, more than a minute late", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  await set(world, { cron: "@hourly", misfire: "skip" });
  await world.time.advance(5 * HOUR + MINUTE + 1);
  const process = world.start([handler]);
  await world.time.advance(HOUR);
  assert.deepEqual(runs, onTime(6 * HOUR));
  await process.stop();
});

test("all that were missed fire, also when they are more than fit at once", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  await set(world, { cron: "* * * * *", misfire: "all" });
  await world.time.advance(250 * MINUTE);
  const process = world.start([handler], { queues: { default: 1_000 } });
  await world.time.advance(SECOND);
  assert.deepEqual(
    runs.map(({ occurrence }) => occurrence),
    Array.from({ length: 250 }, (_, index) => (index + 1) * MINUTE),
  );
  await process.stop();
});

test("without overlap an occurrence is passed over while an earlier run lasts", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world, 25 * MINUTE);
  const process = world.start([handler]);
  await set(world, { cron: "*/10 * * * *", overlap: false, misfire: "all" });
  await world.time.advance(65 * MINUTE);
  assert.deepEqual(runs, onTime(10 * MINUTE, 40 * MINUTE));
  await process.stop();
});

test("with overlap, which is the default, runs may overlap", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world, 25 * MINUTE);
  const process = world.start([handler]);
  await set(world, { cron: "*/10 * * * *" });
  await world.time.advance(31 * MINUTE);
  assert.deepEqual(runs, onTime(10 * MINUTE, 20 * MINUTE, 30 * MINUTE));
  await process.stop();
});

test("pause, trigger, resume and remove", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  const process = world.start([handler]);
  await set(world, { cron: "@hourly" });
  await world.client.pauseRecurring("r");
  await world.time.advance(150 * MINUTE);
  assert.deepEqual(runs, []);
  const id = await world.client.triggerRecurring("r");
  await world.reach(id, "succeeded", SECOND);
  assert.deepEqual(runs, [{ at: 150 * MINUTE, occurrence: null, skipped: null }]);
  await world.client.resumeRecurring("r");
  await world.time.advance(HOUR);
  assert.deepEqual(runs.slice(1), onTime(3 * HOUR), "those that passed by during the pause do not run");
  await world.client.removeRecurring("r");
  await world.time.advance(5 * HOUR);
  assert.equal(runs.length, 2);
  await process.stop();
});

test("the leader changes at the very moment of an occurrence: it fires once", async () => {
  for (const offset of [-20, -1, 0, 1, 20]) {
    const world = await World.make();
    const { runs, handler } = recorder(world);
    const first = world.start([handler]);
    await world.time.advance(SECOND);
    const second = world.start([handler]);
    await set(world, { cron: "* * * * *", misfire: "all" });
    await world.time.advance(MINUTE - SECOND + offset);
    first.term();
    await world.time.advance(5 * MINUTE - offset);
    const occurrences = runs.map(({ occurrence }) => Number(occurrence) / MINUTE);
    assert.deepEqual(occurrences, [1, 2, 3, 4, 5, 6], `leader stops ${offset} ms after`);
    assert.equal(second.server.stats().leader, true);
    await second.stop();
  }
});

test("a killed leader's successor fires what was missed, and nothing twice", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  const first = world.start([handler]);
  await world.time.advance(SECOND);
  const second = world.start([handler]);
  await set(world, { cron: "* * * * *", misfire: "all" });
  await world.time.advance(MINUTE + 30 * SECOND);
  first.link.loseReply.set("fireRecurring", 100);
  await world.time.advance(MINUTE);
  first.kill();
  await world.time.advance(3 * MINUTE);
  assert.deepEqual(
    runs.map(({ occurrence }) => Number(occurrence) / MINUTE).sort(),
    [1, 2, 3, 4, 5],
    "also when replies are lost",
  );
  await second.stop();
});

test("two that both believe to lead fire each occurrence once", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  const everyoneLeads = (store: Store): Store =>
    new Proxy(store, {
      get: (target, name) =>
        name === "lead" ? async () => ({ held: true, heldFor: 0 }) : Reflect.get(target, name)?.bind?.(target),
    });
  const leaders = [world.store, world.store].map((store) => world.start([handler], {}, [], everyoneLeads(store)));
  await set(world, { cron: "*/5 * * * * *" });
  await world.time.advance(MINUTE);
  assert.equal(leaders.filter(({ server }) => server.stats().leader).length, 2);
  assert.deepEqual(
    runs.map(({ occurrence }) => occurrence),
    Array.from({ length: 12 }, (_, index) => (index + 1) * 5 * SECOND),
  );
  for (const leader of leaders) await leader.stop();
});

test("broken rows keep nobody waiting, do not spin and are told of", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  await set(world, { cron: "* * * * *" });
  const row = await world.store.recurringJob("r");
  assert.ok(row);
  for (let index = 0; index < 250; index++) {
    const broken = index % 2 === 0 ? { timeZone: "Mars/Olympus" } : { cron: "every now and then" };
    const put: PutRecurring = { ...row, ...broken, id: `broken-${index}`, version: 0, nextRunAt: new Date(START) };
    await world.store.putRecurring(put);
  }
  const process = world.start([handler]);
  await world.time.advance(5 * MINUTE);
  assert.deepEqual(runs, onTime(...[1, 2, 3, 4, 5].map((minute) => minute * MINUTE)));
  const looks = process.link.calls.filter((call) => call === "dueRecurring").length;
  assert.ok(looks < 60, `${looks} looks in 5 minutes`);
  const told = process.logs.filter((line) => line.startsWith("recurring failed"));
  assert.ok(told.length >= 5 && told.length <= 30, `${told.length} lines`);
  assert.match(told[0] ?? "", /recurring job broken-0 can't be fired.*Mars\/Olympus/);
  await process.stop();
});

test("args that are not JSON: the row is put off, others go on", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  await set(world, { cron: "* * * * *" });
  const damaged = (store: Store): Store =>
    new Proxy(store, {
      get: (target, name) =>
        name === "dueRecurring"
          ? async (limit: number) => {
              const due = await store.dueRecurring(limit);
              const rows = due.rows.map((row) =>
                row.id === "damaged" ? { ...row, template: { ...row.template, args: "{" } } : row,
              );
              return { ...due, rows };
            }
          : Reflect.get(target, name)?.bind?.(target),
    });
  await world.client.setRecurring("damaged", report, { day: "x" }, { cron: "* * * * *" });
  const process = world.start([handler], {}, [], damaged(world.store));
  await world.time.advance(3 * MINUTE);
  assert.deepEqual(runs, onTime(MINUTE, 2 * MINUTE, 3 * MINUTE));
  await process.stop();
});

test("a store that fails for a while: what was missed fires afterwards", async () => {
  const world = await World.make();
  const { runs, handler } = recorder(world);
  const process = world.start([handler]);
  await set(world, { cron: "* * * * *" });
  await world.time.advance(90 * SECOND);
  process.link.down = true;
  await world.time.advance(10 * SECOND);
  process.link.down = false;
  await world.time.advance(3 * MINUTE);
  assert.deepEqual(
    runs.map(({ occurrence }) => Number(occurrence) / MINUTE),
    [1, 2, 3, 4],
  );
  await process.stop();
});

for (const fault of ["busy", "silent"] as const) {
  test(`a ${fault} store at the very moment of an occurrence: it fires later, once`, async () => {
    const world = await World.make();
    const { runs, handler } = recorder(world);
    let faults = 2;
    const faulty = new Proxy(world.store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name !== "fireRecurring" || faults === 0) return typeof value === "function" ? value.bind(target) : value;
        faults -= 1;
        if (fault === "silent") return () => new Promise(() => {});
        return () => Promise.reject(new StoreError("store_busy", "locked"));
      },
    });
    const process = world.start([handler], {}, [], faulty);
    await set(world, { cron: "* * * * *" });
    await world.time.advance(2 * MINUTE);
    assert.deepEqual(
      runs.map(({ occurrence, skipped }) => [Number(occurrence) / MINUTE, skipped]),
      [
        [1, 0],
        [2, 0],
      ],
    );
    await process.stop();
  });
}
