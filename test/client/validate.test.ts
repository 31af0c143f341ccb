import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Problems } from "../../engine/problems.ts";
import { QUEUE } from "../../engine/rules/limits.ts";
import { QUEUE_RULE } from "../../engine/rules/values.ts";
import { Checker, closest } from "../../engine/validate.ts";
import { hostileProxy, problemsOf, revokedProxy, rulesOf, throwingGetter } from "./support.ts";

const FIELDS = ["interval", "workers", "queue", "name", "on", "mode", "fn", "at", "list", "sub", "store"] as const;
const RANGE = { min: 10, max: 60_000 };

/** Checks every kind of field once. */
function checkAll(options: unknown): unknown {
  const check = new Checker("can't start", options, FIELDS);
  const values = {
    interval: check.duration("interval", { ...RANGE, default: 1_000 }),
    workers: check.integer("workers", { min: 1, max: 9, default: 3 }),
    queue: check.name("queue", QUEUE, QUEUE_RULE, { default: "default" }),
    name: check.text("name", { maxBytes: 5, default: null }),
    on: check.boolean("on", { default: true }),
    mode: check.oneOf("mode", ["fast", "slow"]),
    fn: check.function<() => number>("fn")?.(),
    at: check.date("at"),
    list: check.array("list"),
    sub: check.record("sub")?.keys,
    store: check.object<{ get(): void }>("store", ["get"]) !== undefined,
  };
  check.end();
  return values;
}

test("good options are read, those left out get their default", () => {
  const defaults = {
    ...{ interval: 1_000, workers: 3, queue: "default", name: null, on: true, mode: undefined, fn: undefined },
    ...{ at: undefined, list: undefined, sub: undefined, store: false },
  };
  assert.deepEqual(checkAll(undefined), defaults);
  assert.deepEqual(checkAll({}), defaults);
  assert.deepEqual(checkAll({ interval: undefined, name: undefined }), defaults);
  const options = {
    ...{ interval: "30s", workers: 9, queue: "mail", name: "é123", on: false, mode: "slow", fn: () => 7 },
    ...{ at: new Date(5), list: [1], sub: { a: 1, b: 2 }, store: { get: () => {} } },
  };
  assert.deepEqual(checkAll(options), {
    ...{ interval: 30_000, workers: 9, queue: "mail", name: "é123", on: false, mode: "slow", fn: 7 },
    ...{ at: new Date(5), list: [1], sub: ["a", "b"], store: true },
  });
});

test("every problem is named at once, with field, value and rule", async () => {
  const options = {
    ...{ interval: 5, workers: 1.5, queue: "Mail Out", name: "toolong", on: "yes", mode: "medium", fn: 3 },
    ...{ at: new Date(Number.NaN), list: { length: 0 }, sub: [], store: {} },
  };
  assert.deepEqual(
    (await problemsOf(() => checkAll(options))).map(({ field, value, rule }) => [field, value, rule]),
    [
      ["interval", "5", 'must be a duration, in ms or such as "30s", of from 10ms to 1m'],
      ["workers", "1.5", "must be an integer from 1 to 9"],
      ["queue", '"Mail Out"', QUEUE_RULE],
      ["name", '"toolong"', "must be a non-empty string of at most 5 bytes"],
      ["on", '"yes"', "must be true or false"],
      ["mode", '"medium"', "must be one of fast, slow"],
      ["fn", "3", "must be a function"],
      ["at", "an invalid Date", "must be a valid Date from 1970 to 9999"],
      ["list", '{"length":0}', "must be an array"],
      ["sub", "[]", "must be an object"],
      ["store", "{}", "must be an object with get"],
    ],
  );
});

test("the message says what can't be done", () => {
  assert.throws(() => checkAll({ workers: 0 }), {
    code: "invalid",
    message: "can't start: workers must be an integer from 1 to 9, got 0",
  });
  assert.throws(() => checkAll({ workers: 0, on: 1 }), {
    message: "can't start:\n  workers must be an integer from 1 to 9, got 0\n  on must be true or false, got 1",
  });
});

test("an unknown option is refused, with the one that was meant", async () => {
  assert.deepEqual(await rulesOf(() => checkAll({ intervall: 5, WORKERS: 2 })), [
    "intervall is unknown (did you mean interval?)",
    "WORKERS is unknown (did you mean workers?)",
  ]);
  assert.deepEqual(await rulesOf(() => checkAll({ colour: undefined })), [
    `colour is unknown (known are ${FIELDS.join(", ")})`,
  ]);
  assert.deepEqual(await rulesOf(() => checkAll(JSON.parse('{ "__proto__": 1 }'))), [
    `__proto__ is unknown (known are ${FIELDS.join(", ")})`,
  ]);
});

test("names that are no identifiers are quoted", async () => {
  assert.deepEqual(
    (await problemsOf(() => checkAll({ "": 1, "a b": 2, "a\n": 3 }))).map(({ field }) => field),
    ['[""]', '["a b"]', '["a\\n"]'],
  );
});

test("closest finds typing errors and nothing far-fetched", () => {
  const options = [
    "queue",
    "priority",
    "delay",
    "runAt",
    "maxAttempts",
    "timeout",
    "deadline",
    "title",
    "tags",
    "meta",
  ];
  const meant: [string, string | null][] = [
    ["maxAttemps", "maxAttempts"],
    ["maxattempts", "maxAttempts"],
    ["max_attempts", "maxAttempts"],
    ["attempts", "maxAttempts"],
    ["prioritiy", "priority"],
    ["run_at", "runAt"],
    ["tag", "tags"],
    ["que", null],
    ["queu", "queue"],
    ["limit", null],
    ["", null],
    ["constructor", null],
    ["x".repeat(100_000), null],
  ];
  for (const [name, expected] of meant) assert.equal(closest(name, options), expected, name.slice(0, 20));
});

test("a nested object and a list of objects are checked under their path", async () => {
  const check = (options: unknown): Promise<string[]> =>
    rulesOf(() => {
      const outer = new Checker("x", options, ["pools", "queues", "keep"]);
      for (const pool of outer.items("pools", ["queues", "workers"]) ?? []) {
        pool.required("queues", "workers");
        pool.integer("workers", { min: 1, max: 5 });
      }
      const queues = outer.record("queues");
      for (const name of queues?.keys ?? []) queues?.integer(name, { min: 1, max: 5 });
      outer.record("keep", ["failed"])?.boolean("failed");
      outer.end();
    });
  assert.deepEqual(
    await check({ pools: [{ queues: [], workers: 5 }], queues: { mail: 1 }, keep: { failed: true } }),
    [],
  );
  assert.deepEqual(
    await check({ pools: [{ workers: 0 }, null, undefined, { queue: 1 }], queues: { a: 6 }, keep: { faild: true } }),
    [
      "pools[1] must be an object",
      "pools[2] must be an object",
      "pools[3].queue is unknown (did you mean queues?)",
      "pools[0].queues is required",
      "pools[0].workers must be an integer from 1 to 5",
      "pools[1].queues is required",
      "pools[1].workers is required",
      "pools[2].queues is required",
      "pools[2].workers is required",
      "pools[3].queues is required",
      "pools[3].workers is required",
      "queues.a must be an integer from 1 to 5",
      "keep.faild is unknown (did you mean failed?)",
    ],
  );
});

test("false stands for none only where that is offered", async () => {
  const read = (value: unknown, off?: number): number | undefined => {
    const check = new Checker("x", { timeout: value }, ["timeout"]);
    const timeout = check.duration("timeout", { ...RANGE, ...(off !== undefined && { off }) });
    check.end();
    return timeout;
  };
  assert.equal(read(false, 0), 0);
  assert.deepEqual(await rulesOf(() => read(false)), [
    'timeout must be a duration, in ms or such as "30s", of from 10ms to 1m',
  ]);
  assert.deepEqual(await rulesOf(() => read(0, 0)), [
    'timeout must be a duration, in ms or such as "30s", of from 10ms to 1m, or false',
  ]);
});

test("text must be such that every database can hold it", async () => {
  for (const name of ["a\u0000", "\ud800"]) {
    assert.deepEqual(await rulesOf(() => checkAll({ name })), [
      "name must be text without NUL and without lone surrogates",
    ]);
  }
});

test("twenty problems are named and the rest counted", () => {
  const problems = new Problems();
  for (let n = 0; n < 57; n++) problems.add(`jobs[${n}]`, n, "must be odd");
  const error = problems.error("can't enqueue");
  assert.equal(error?.problems.length, 20);
  assert.match(
    error?.message ?? "",
    /^can't enqueue \(the first 20 of 57 problems\):\n {2}jobs\[0\] must be odd, got 0\n/,
  );
});

test("options that can't be read are problems like any other", async () => {
  for (const options of [null, 5, "text", [], () => 1, Symbol("x"), hostileProxy(), hostileProxy([]), revokedProxy()]) {
    assert.deepEqual(await rulesOf(() => checkAll(options)), ["options must be an object"]);
  }
  assert.deepEqual(await problemsOf(() => checkAll(throwingGetter("interval"))), [
    { field: "interval", value: "an error", rule: "must be readable" },
  ]);
  assert.deepEqual(await rulesOf(() => checkAll(throwingGetter("intervall"))), [
    "intervall is unknown (did you mean interval?)",
  ]);
  for (const value of [hostileProxy(), revokedProxy(), hostileProxy([]), revokedProxy([]), hostileProxy(new Date())]) {
    for (const field of FIELDS) {
      const rules = await rulesOf(() => checkAll({ [field]: value }));
      assert.equal(rules.length, 1, field);
      assert.ok(rules[0]?.startsWith(`${field} must`), rules[0]);
    }
  }
});

test("every option is read once", () => {
  const reads: string[] = [];
  const options = new Proxy({ interval: 20, workers: 2, list: [1] } as Record<string, unknown>, {
    get: (target, name) => {
      reads.push(String(name));
      return target[String(name)];
    },
  });
  checkAll(options);
  assert.deepEqual(reads.sort(), [...FIELDS].sort());
});

test("any options whatever are read or refused with an InvalidError", async () => {
  const options = fc.oneof(
    fc.anything(),
    fc.dictionary(fc.oneof(fc.constantFrom(...FIELDS), fc.string()), fc.anything({ withNullPrototype: true })),
  );
  await fc.assert(
    fc.asyncProperty(options, async (value) => {
      for (const { field, rule } of await problemsOf(() => checkAll(value)))
        assert.ok(field.length > 0 && rule.length > 0);
    }),
  );
});
