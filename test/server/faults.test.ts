import assert from "node:assert/strict";
import { test } from "node:test";
import type { Logger } from "../../engine/logger.ts";
import { systemRuntime } from "../../engine/runtime.ts";
import { Faults } from "../../engine/server/faults.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";

type Line = [level: string, message: string, fields: unknown];

function setup(): { time: VirtualTime; faults: Faults; lines: Line[] } {
  const time = new VirtualTime();
  const lines: Line[] = [];
  const at = (level: string) => (message: string, fields?: object) => void lines.push([level, message, fields]);
  const logger: Logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  return { time, faults: new Faults(time.runtime(), logger), lines };
}

test("a fault is counted and logged with what went wrong", () => {
  const { faults, lines } = setup();
  assert.equal(faults.count, 0);
  faults.report("claim", new Error("no route", { cause: new Error("the cable is cut") }));
  assert.equal(faults.count, 1);
  const error = "Error: no route; caused by Error: the cable is cut";
  assert.deepEqual(lines, [["error", "claim failed", { error }]]);
});

test("each operation is logged once in ten seconds, and counted always", async () => {
  const { time, faults, lines } = setup();
  const reported: number[] = [];
  // 20 seconds, a fault of each of two operations every 100 ms.
  for (let i = 0; i <= 200; i++) {
    faults.report("claim", new Error("no"));
    if (i > 0) faults.report("finish", new Error("no"));
    for (; reported.length < lines.length; ) reported.push(i * 100);
    await time.advance(100);
  }
  assert.equal(faults.count, 401);
  assert.deepEqual(
    lines.map(([, message], index) => [message, reported[index]]),
    [
      ["claim failed", 0],
      ["finish failed", 100],
      ["claim failed", 10_000],
      ["finish failed", 10_100],
      ["claim failed", 20_000],
    ],
  );
});

test("the ten seconds count from the last line, not from the last fault", async () => {
  const { time, faults, lines } = setup();
  faults.report("claim", new Error("first"));
  await time.advance(9_999);
  faults.report("claim", new Error("second"));
  assert.equal(lines.length, 1);
  await time.advance(1);
  faults.report("claim", new Error("third"));
  assert.deepEqual(lines[1], ["error", "claim failed", { error: "Error: third" }]);
});

test("other lines are not held back", () => {
  const { faults, lines } = setup();
  for (let i = 0; i < 3; i++) faults.log("warn", "abandoned", { job: i });
  faults.log("info", "started");
  assert.deepEqual(lines, [
    ["warn", "abandoned", { job: 0 }],
    ["warn", "abandoned", { job: 1 }],
    ["warn", "abandoned", { job: 2 }],
    ["info", "started", {}],
  ]);
  assert.equal(faults.count, 0);
});

test("a logger that throws does no harm", () => {
  const throws = (): never => {
    throw new Error("the disk is full");
  };
  const logger: Logger = { debug: throws, info: throws, warn: throws, error: throws };
  const faults = new Faults(new VirtualTime().runtime(), logger);
  faults.report("claim", new Error("no"));
  for (const level of ["debug", "info", "warn", "error"] as const) faults.log(level, "a line");
  assert.equal(faults.count, 1);
});

test("a logger is called as a method of its own", () => {
  class Lines implements Logger {
    readonly #lines: string[] = [];
    debug = this.error;
    info = this.error;
    warn = this.error;
    error(message: string): void {
      this.#lines.push(message);
    }
    get lines(): readonly string[] {
      return this.#lines;
    }
  }
  const logger = new Lines();
  new Faults(new VirtualTime().runtime(), logger).report("claim", new Error("no"));
  assert.deepEqual(logger.lines, ["claim failed"]);
});

test("whatever was thrown is logged as text", () => {
  const { faults, lines } = setup();
  const things = [undefined, null, "text", 5, Symbol("s"), Object.create(null), new Proxy({}, { get: () => 1n })];
  things.forEach((thing, index) => {
    faults.report(`operation ${index}`, thing);
  });
  assert.equal(lines.length, things.length);
  for (const [, , fields] of lines) assert.equal(typeof (fields as { error: unknown }).error, "string");
});

test("an async logger that rejects does not end the process", async (t) => {
  const unhandled: unknown[] = [];
  const note = (error: unknown): number => unhandled.push(error);
  process.on("unhandledRejection", note);
  t.after(() => process.off("unhandledRejection", note));
  const broken = async (): Promise<void> => {
    throw new Error("the disk is full");
  };
  const logger = { debug: broken, info: broken, warn: broken, error: broken };
  new Faults(new VirtualTime().runtime(), logger).report("claim", new Error("no"));
  await systemRuntime.turn();
  await systemRuntime.turn();
  assert.deepEqual(unhandled, []);
});
