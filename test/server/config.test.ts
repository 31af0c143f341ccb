import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import { defaultBackoff } from "../../engine/retry.ts";
import { LONGEST_DURATION } from "../../engine/rules/limits.ts";
import { systemRuntime } from "../../engine/runtime.ts";
import { resolveConfig, type ServerConfig } from "../../engine/server/config.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { hostileProxy } from "../client/support.ts";
import { BASE, DAY, HOUR, handler, MINUTE, problemsOf, refused, SECOND } from "./config-support.ts";

describe("defaults", () => {
  test("are those of the design", () => {
    const { handlers, pools, logger, onDuration, ...rest } = resolveConfig(BASE);
    assert.deepEqual(rest, {
      name: systemRuntime.host.hostname,
      pollInterval: SECOND,
      heartbeatInterval: 5 * SECOND,
      deadAfter: MINUTE,
      leaderTtl: 15 * SECOND,
      shutdownTimeout: 30 * SECOND,
      killGrace: 5 * SECOND,
      timeout: 30 * MINUTE,
      unknownKindTtl: DAY,
      retention: { succeeded: DAY, deleted: DAY, failed: null },
      backoff: defaultBackoff,
      maintenance: true,
      client: null,
      interceptors: [],
      runtime: systemRuntime,
    });
    assert.deepEqual(pools, [{ queues: ["default"], workers: 1, fetchBatch: 1, weights: null }]);
    assert.deepEqual([...handlers.keys()], ["task"]);
    for (const level of ["debug", "info", "warn", "error"] as const) assert.equal(logger[level]("a line"), undefined);
    onDuration({ kind: "task", queue: "default", succeeded: true, duration: 1 });
  });

  test("stand for fields that are undefined", () => {
    const undefinedFields = Object.fromEntries(Object.keys(resolveConfig(BASE)).map((name) => [name, undefined]));
    const { pools: _, ...fields } = { ...undefinedFields, ...BASE };
    assert.equal(resolveConfig(fields).pollInterval, SECOND);
  });

  test("take the name from the runtime's host", () => {
    const runtime = new VirtualTime().runtime({ hostname: "web-3" });
    const config = resolveConfig({ ...BASE, runtime });
    assert.equal(config.name, "web-3");
    assert.equal(config.runtime, runtime);
    assert.equal(resolveConfig({ ...BASE, runtime, name: "api" }).name, "api");
  });
});

test("what is given is what is used", () => {
  const given = {
    backoff: () => 5,
    maintenance: false,
    interceptors: [async (_job: unknown, _context: unknown, next: () => Promise<unknown>) => next()],
    onDuration: () => {},
    logger: console,
  };
  const { backoff, maintenance, interceptors, onDuration, logger } = resolveConfig({ ...BASE, ...given });
  assert.deepEqual({ backoff, maintenance, interceptors, onDuration, logger }, given);
  given.interceptors.length = 0;
  assert.equal(interceptors.length, 1, "a copy");
});

test("a client must be one, for handlers get copies of it", () => {
  const client = new Client(new MemoryStore());
  assert.equal(resolveConfig({ ...BASE, client }).client, client);
  class Own extends Client {}
  const lookalike = { enqueue() {}, enqueueMany() {} };
  const others = [
    lookalike,
    new Own(new MemoryStore()),
    new Proxy(client, {}),
    Client,
    null,
    7,
    "client",
    hostileProxy(),
  ];
  for (const other of others) refused({ client: other }, "client", /^must be a Client, and of no subclass$/);
});

describe("durations", () => {
  type DurationField = keyof ServerConfig & keyof ReturnType<typeof resolveConfig>;
  const RANGES: readonly (readonly [DurationField, min: number, max: number])[] = [
    ["pollInterval", 10, HOUR],
    ["heartbeatInterval", 100, 5 * MINUTE],
    ["leaderTtl", SECOND, 10 * MINUTE],
    ["shutdownTimeout", 0, DAY],
    ["killGrace", 0, HOUR],
    ["timeout", 1, LONGEST_DURATION],
    ["unknownKindTtl", 0, LONGEST_DURATION],
  ];

  test("are taken from the shortest to the longest, as numbers and as text", () => {
    for (const [field, min, max] of RANGES) {
      for (const ms of [min, min + 1, max - 1, max]) {
        assert.equal(resolveConfig({ ...BASE, deadAfter: DAY, [field]: ms })[field], ms, `${field}: ${ms}`);
      }
      assert.equal(resolveConfig({ ...BASE, deadAfter: DAY, [field]: "4m" })[field], 4 * MINUTE, field);
    }
  });

  test("too short, too long, or none at all are refused", () => {
    for (const [field, min, max] of RANGES) {
      const wrong = [min - 1, max + 1, -1, Number.NaN, Number.POSITIVE_INFINITY, "", "soon", "-5s", null, true, {}, []];
      for (const value of wrong) refused({ [field]: value }, field, /must be a duration.* of /);
    }
  });

  test("name their range when they are refused", () => {
    refused({ pollInterval: 9 }, "pollInterval", /of from 10ms to 1h$/);
    refused({ heartbeatInterval: "6m" }, "heartbeatInterval", /of from 100ms to 5m$/);
    refused({ leaderTtl: "900ms" }, "leaderTtl", /of from 1s to 10m$/);
    refused({ timeout: 0 }, "timeout", /at least 1ms and at most a hundred years, or false$/);
    assert.equal(problemsOf({ ...BASE, heartbeatInterval: "6m" })[0]?.value, '"6m"');
  });

  test("below a millisecond are refused where a millisecond is", () => {
    for (const field of ["pollInterval", "heartbeatInterval", "leaderTtl"]) {
      for (const tiny of [2e-6, 0.9]) refused({ [field]: tiny }, field, /must be a duration/);
    }
  });

  test("false means no timeout, and nothing for the others", () => {
    assert.equal(resolveConfig({ ...BASE, timeout: false }).timeout, 0);
    for (const [field] of RANGES.filter(([name]) => name !== "timeout")) {
      refused({ [field]: false }, field, /must be a duration/);
    }
  });
});

describe("deadAfter", () => {
  test("leaves room for three heartbeats and the killing of handlers", () => {
    const cases: [fields: Partial<ServerConfig>, bound: number, text: string][] = [
      [{}, 25 * SECOND, "25s"],
      [{ heartbeatInterval: "30s" }, 100 * SECOND, "100s"],
      [{ heartbeatInterval: 100, killGrace: 0 }, 5_300, "5300ms"],
      [{ heartbeatInterval: "5m", killGrace: "1h" }, HOUR + 15 * MINUTE + 5 * SECOND, "4505s"],
    ];
    for (const [fields, bound, text] of cases) {
      assert.equal(resolveConfig({ ...BASE, ...fields, deadAfter: bound + 1 }).deadAfter, bound + 1);
      const rule = new RegExp(`must exceed 3 × heartbeatInterval \\+ killGrace \\+ 5s, which is ${text}$`);
      refused({ ...fields, deadAfter: bound }, "deadAfter", rule);
    }
  });

  test("may be up to a day", () => {
    assert.equal(resolveConfig({ ...BASE, deadAfter: DAY }).deadAfter, DAY);
    refused({ deadAfter: DAY + 1 }, "deadAfter", /to 1d$/);
    for (const value of [-1, "soon", false]) refused({ deadAfter: value }, "deadAfter", /must be a duration/);
  });

  test("has a default that may be too short for other settings", () => {
    refused({ heartbeatInterval: "30s" }, "deadAfter", /which is 100s$/);
    assert.equal(resolveConfig({ ...BASE, heartbeatInterval: "30s", deadAfter: "2m" }).deadAfter, 2 * MINUTE);
  });
});

describe("retention", () => {
  test("is a duration or, as false, forever, for each state by itself", () => {
    const retention = (given: ServerConfig["retention"]): unknown =>
      resolveConfig({ ...BASE, ...(given && { retention: given }) }).retention;
    assert.deepEqual(retention({}), { succeeded: DAY, deleted: DAY, failed: null });
    assert.deepEqual(retention({ succeeded: "1h" }), { succeeded: HOUR, deleted: DAY, failed: null });
    assert.deepEqual(retention({ succeeded: false, deleted: 0, failed: "14d" }), {
      ...{ succeeded: null, deleted: 0, failed: 14 * DAY },
    });
    assert.deepEqual(retention({ failed: LONGEST_DURATION }), {
      succeeded: DAY,
      deleted: DAY,
      failed: LONGEST_DURATION,
    });
  });

  test("is refused when it is out of range, of an unknown state, or no object", () => {
    for (const value of [-1, LONGEST_DURATION + 1, "soon", null, true]) {
      refused({ retention: { failed: value } }, "retention.failed", /must be a duration.*or false/);
    }
    refused({ retention: { enqueued: "1h" } }, "retention.enqueued", /is unknown.*succeeded, deleted, failed/);
    for (const value of [null, 5, "1h", false, []]) refused({ retention: value }, "retention", /must be an object/);
  });
});

describe("handlers", () => {
  test("are found by their kind", () => {
    const [a, b] = [handler("a"), handler("b")];
    const { handlers } = resolveConfig({ ...BASE, handlers: [a, b] });
    assert.deepEqual(
      [...handlers],
      [
        ["a", a],
        ["b", b],
      ],
    );
  });

  test("are needed", () => {
    refused({ handlers: [] }, "handlers", /at least one handler/);
    refused({ handlers: undefined }, "handlers", /is required/);
    for (const value of [handler(), "task", null, {}]) {
      refused({ handlers: value }, "handlers", /must be an array/);
    }
  });

  test("are made by a definition, and one for each kind", () => {
    const lookAlike = { definition: defineJob("task"), kind: "task", options: {}, run: () => {} };
    for (const value of [lookAlike, defineJob("task"), () => {}, null, undefined, "task", new Proxy(handler(), {})]) {
      refused({ handlers: [handler(), value] }, "handlers[1]", /must be a handler, as made by/);
    }
    refused({ handlers: [handler("a"), handler("b"), handler("a")] }, "handlers[2]", /the only handler of its kind/);
  });
});

test("the other fields are of their type", () => {
  const wrong: [field: string, values: unknown[], rule: RegExp][] = [
    ["name", ["", 5, null, {}, "n".repeat(201), "a\u0000b", "\ud800"], /must be/],
    ["maintenance", [0, 1, "true", null], /must be true or false/],
    ["backoff", ["5s", 5, null, {}], /must be a function/],
    ["onDuration", ["log", null, {}], /must be a function/],
    ["interceptors", [() => {}, "x", null, {}], /must be an array/],
    ["logger", ["console", null, {}, { ...silent(), warn: "yes" }, () => {}], /must be an object with debug, info/],
    ["runtime", ["system", null, {}, { ...systemRuntime, timer: 5 }], /must be an object with now, /],
  ];
  for (const [field, values, rule] of wrong) for (const value of values) refused({ [field]: value }, field, rule);
  refused({ interceptors: [async () => {}, "x"] }, "interceptors[1]", /must be a function/);
  assert.equal(resolveConfig({ ...BASE, name: "n".repeat(200) }).name.length, 200);

  function silent(): object {
    return { debug() {}, info() {}, warn() {}, error() {} };
  }
});

test("a deadAfter that is out of range is named once, with the value given", () => {
  const problems = problemsOf({ ...BASE, heartbeatInterval: "30s", deadAfter: "25h" });
  assert.deepEqual(
    problems.map(({ field, value }) => [field, value]),
    [["deadAfter", '"25h"']],
  );
});

test("a runtime must be whole", () => {
  const { onSignal: _, ...withoutSignals } = systemRuntime;
  const { host: __, ...withoutHost } = systemRuntime;
  for (const runtime of [withoutSignals, withoutHost]) {
    assert.equal(problemsOf({ ...BASE, runtime } as never)[0]?.field, "runtime");
  }
});
