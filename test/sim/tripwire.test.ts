import assert from "node:assert/strict";
import { randomBytes, randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { performance as performanceOfHooks } from "node:perf_hooks";
import { it } from "node:test";
import { makeSchedule } from "../../engine/cron.ts";
import { systemRuntime } from "../../engine/runtime.ts";
import { run } from "../../sim/run/run.ts";
import { type Touch, watch } from "../../sim/world/tripwire.ts";
import { scenarioWith } from "./support.ts";

/** What was touched while it ran, as if the engine had done it. */
function touches(fn: () => unknown, inEvent = true): readonly Touch[] {
  const seen: Touch[] = [];
  const unwatch = watch({ inEvent }, (touch) => seen.push(touch));
  try {
    fn();
  } finally {
    unwatch();
  }
  return seen;
}

/** Each stands on a line of its own, which has to be named. */
const USES: Readonly<Record<string, () => unknown>> = {
  "Date.now": () => Date.now(),
  "new Date()": () => new Date(),
  "Date()": () => Date(),
  "Math.random": () => Math.random(),
  "performance.now": () => performance.now(),
  "process.hrtime": () => process.hrtime(),
  "process.hrtime.bigint": () => process.hrtime.bigint(),
  "process.nextTick": () => process.nextTick(() => {}),
  setTimeout: () => clearTimeout(setTimeout(() => {}, 0)),
  setInterval: () => clearInterval(setInterval(() => {}, 0)),
  setImmediate: () => clearImmediate(setImmediate(() => {})),
  "AbortSignal.timeout": () => AbortSignal.timeout(1),
  "crypto.randomUUID": () => crypto.randomUUID(),
  "crypto.getRandomValues": () => crypto.getRandomValues(new Uint8Array(1)),
  "crypto.randomBytes": () => randomBytes(1),
  "crypto.randomInt": () => randomInt(9),
};

const SOURCE = readFileSync(import.meta.filename, "utf8").split("\n");

for (const [api, use] of Object.entries(USES)) {
  it(`names ${api} with its file and line`, () => {
    const line = SOURCE.findIndex((text) => text.endsWith(`${use.toString()},`)) + 1;
    assert.ok(line > 0);
    assert.deepEqual(touches(use), [{ api, where: `test/sim/tripwire.test.ts:${line}` }]);
  });
}

it("names whoever uses the runtime of production, not the runtime", () => {
  const [touch] = touches(() => systemRuntime.now());
  assert.deepEqual(touch?.api, "Date.now");
  assert.match(touch?.where ?? "", /^test\/sim\/tripwire\.test\.ts:\d+$/);
});

it("sees other names of the same", () => {
  assert.equal(touches(() => performanceOfHooks.now()).length, 1);
});

it("has nothing against dates that read no clock", () => {
  const made = touches(() => {
    assert.equal(new Date(7).getTime(), 7);
    assert.equal(new Date(2026, 0).getFullYear(), 2026);
    assert.ok(new Date(7) instanceof Date);
    assert.equal(Date.UTC(1970, 0), 0);
    class Later extends Date {}
    assert.ok(new Later(7) instanceof Later);
  });
  assert.deepEqual(made, []);
});

it("is silent between events, and puts everything back", () => {
  const before = [Date, Date.now, Math.random, setTimeout, performance.now, crypto.randomUUID, process.hrtime];
  assert.deepEqual(
    touches(() => Date.now(), false),
    [],
  );
  const after = [Date, Date.now, Math.random, setTimeout, performance.now, crypto.randomUUID, process.hrtime];
  for (const [index, value] of before.entries()) assert.equal(after[index], value);
  assert.equal(Object.hasOwn(performance, "now"), false);
});

it("lets pass that cron asks for a time it does not look at", () => {
  const { nextAfter } = makeSchedule("*/5 * * * *", "Europe/London");
  assert.deepEqual(
    touches(() => assert.equal(nextAfter(0), 300_000)),
    [],
  );
});

it("fails a run in which something real was touched", async () => {
  const scenario = scenarioWith([], { duration: 10_000 });
  let events = 0;
  const { failure } = await run(scenario, {
    store: "memory",
    checkers: () => [
      {
        name: "planted",
        see: (event) => {
          if (event.type === "commit" && ++events === 5) Math.random();
        },
      },
    ],
  });
  assert.equal(failure?.invariant, "tripwire");
  assert.match(failure?.message ?? "", /^Math\.random at test\/sim\/tripwire\.test\.ts:\d+$/);
});
