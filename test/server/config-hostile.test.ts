/** Configs as no type checker would let them through: each ends as an `InvalidError` that names what is wrong. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { InvalidError } from "../../engine/errors.ts";
import { resolveConfig, type ServerConfig } from "../../engine/server/config.ts";
import { BASE, problemsOf } from "./config-support.ts";

const FIELDS = [
  ...[
    "handlers",
    "queues",
    "pools",
    "fetchBatch",
    "name",
    "pollInterval",
    "heartbeatInterval",
    "deadAfter",
    "leaderTtl",
  ],
  ...["shutdownTimeout", "killGrace", "timeout", "unknownKindTtl", "retention", "backoff", "maintenance"],
  ...["interceptors", "onDuration", "logger", "runtime"],
];

const fieldsOf = (config: unknown): string[] => problemsOf(config).map(({ field }) => field);

test("every problem is named at once, each with its field, its value and its rule", () => {
  const config = {
    handlers: [],
    queues: { mail: 0 },
    pollInterval: "1ms",
    killGrace: -1,
    maintenance: "yes",
    nam: "web",
    retention: { failed: "soon" },
  };
  assert.throws(
    () => resolveConfig(config as unknown as ServerConfig),
    (error) => {
      assert.ok(error instanceof InvalidError);
      assert.equal(error.code, "invalid");
      const lines = error.message.split("\n");
      assert.equal(lines[0], "can't make a server:");
      for (const line of [
        /handlers must have at least one handler, got \[\]/,
        /queues\.mail must be an integer from 1 to 10000, got 0/,
        /pollInterval must be a duration.* of from 10ms to 1h, got "1ms"/,
        /killGrace must be a duration.* got -1/,
        /maintenance must be true or false, got "yes"/,
        /nam is unknown.*did you mean name\?.* got "web"/,
        /retention\.failed must be a duration.* got "soon"/,
      ]) {
        assert.ok(
          lines.some((text) => line.test(text)),
          `${line} in ${error.message}`,
        );
      }
      assert.equal(error.problems.length, 7);
      return true;
    },
  );
});

test("an unknown field is refused, with the one that it resembles", () => {
  const hints: [given: string, meant: string][] = [
    ["queue", "queues"],
    ["pollinterval", "pollInterval"],
    ["heartbeatIntreval", "heartbeatInterval"],
    ["handler", "handlers"],
    ["leaderTTL", "leaderTtl"],
  ];
  for (const [given, meant] of hints) {
    const [problem, ...others] = problemsOf({ ...BASE, [given]: 5 });
    assert.equal(others.length, 0);
    assert.equal(problem?.field, given);
    assert.match(problem?.rule ?? "", new RegExp(`is unknown.*did you mean ${meant}\\?`));
  }
  assert.match(problemsOf({ ...BASE, colour: "red" })[0]?.rule ?? "", /is unknown.*known are handlers, queues, /);
  const [pool] = problemsOf({
    handlers: BASE.handlers,
    pools: [{ queues: ["mail"], workers: 1, weight: { mail: 2 } }],
  });
  assert.equal(pool?.field, "pools[0].weight");
  assert.match(pool?.rule ?? "", /is unknown.*did you mean weights\?/);
});

test("something else than an object is refused", () => {
  for (const config of [undefined, null, 5, "config", [], () => {}]) assert.ok(fieldsOf(config).length > 0);
});

describe("what throws when it is looked at", () => {
  const throwing = (): never => {
    throw new Error("not for you");
  };
  const revoked = (): object => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  };
  const hostile = (): object[] => [
    revoked(),
    new Proxy({}, { get: throwing, ownKeys: throwing, has: throwing, getPrototypeOf: throwing }),
    new Proxy([], { get: throwing }),
    Object.defineProperty({}, "workers", { get: throwing, enumerable: true }),
    { toString: throwing, valueOf: throwing, toJSON: throwing, [Symbol.toPrimitive]: throwing },
  ];

  test("is refused as a config", () => {
    for (const config of hostile()) assert.ok(fieldsOf(config).length > 0);
  });

  test("is refused as a field, which is named", () => {
    for (const field of FIELDS) {
      for (const value of hostile()) {
        const fields = fieldsOf({ ...BASE, [field]: value });
        assert.ok(
          fields.some((name) => name.startsWith(field)),
          `${field} among ${fields}`,
        );
      }
      const unreadable = Object.defineProperty({ ...BASE }, field, { get: throwing, enumerable: true });
      assert.ok(fieldsOf(unreadable).includes(field), field);
    }
  });

  test("is refused inside a field", () => {
    for (const value of hostile()) {
      assert.deepEqual(fieldsOf({ ...BASE, handlers: [value] }), ["handlers[0]"]);
      assert.deepEqual(fieldsOf({ ...BASE, interceptors: [value] }), ["interceptors[0]"]);
      assert.deepEqual(fieldsOf({ ...BASE, queues: { mail: value } }), ["queues.mail"]);
      assert.ok(fieldsOf({ ...BASE, pools: [value] }).every((field) => field.startsWith("pools[0]")));
      assert.deepEqual(fieldsOf({ ...BASE, pools: [{ queues: [value], workers: 1 }] }), ["pools[0].queues[0]"]);
      assert.deepEqual(fieldsOf({ ...BASE, retention: { failed: value } }), ["retention.failed"]);
    }
  });
});

test("anything at all is either a config or a list of problems", () => {
  const anyField = fc.constantFrom(...FIELDS);
  const config = fc.oneof(
    fc.anything(),
    fc.dictionary(anyField, fc.anything()),
    fc.dictionary(anyField, fc.anything()).map((fields) => ({ ...BASE, ...fields })),
    fc.anything({ withNullPrototype: true }).map((pool) => ({ ...BASE, pools: [pool] })),
  );
  fc.assert(
    fc.property(config, (given) => {
      for (const { field, value, rule } of problemsOf(given)) {
        assert.ok(typeof field === "string" && typeof value === "string" && rule !== "");
      }
    }),
    { numRuns: 1_000 },
  );
});
