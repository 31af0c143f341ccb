import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { InvalidError } from "../../engine/errors.ts";
import { decodeJson, encodeJson, JSON_MAX_DEPTH, tryEncodeJson } from "../../engine/json.ts";
import { JSON_MAX_BYTES } from "../../engine/rules/limits.ts";
import { hostileProxy, revokedProxy, throwingGetter } from "./support.ts";

const encode = (value: unknown): string => encodeJson(value, "can't enqueue", "args");

/** The one thing that is wrong, as `field rule`. */
function refusal(value: unknown): string {
  const { problem } = tryEncodeJson(value, "args");
  return problem === null ? "none" : `${problem.field} ${problem.rule}`;
}

/** Nested `depth` levels deep. */
function nested(depth: number): unknown {
  let value: unknown = [];
  for (let n = 1; n < depth; n++) value = n % 2 === 0 ? [value] : { a: value };
  return value;
}

test("JSON values come back exactly", () => {
  fc.assert(
    fc.property(fc.jsonValue({ depthSize: "medium", noUnicodeString: false }), (value) => {
      const text = encode(value);
      assert.equal(text, JSON.stringify(value));
      assert.deepEqual(decodeJson(text), JSON.parse(JSON.stringify(value)));
    }),
  );
});

test("texts come back exactly, NUL and lone surrogates included", () => {
  const units = fc.array(fc.integer({ min: 0, max: 0xffff })).map((codes) => String.fromCharCode(...codes));
  fc.assert(
    fc.property(units, units, (key, value) => {
      assert.equal(decodeJson(encode(value)), value);
      assert.deepEqual(decodeJson(encode([{ [key]: value }])), [{ [key]: value }]);
    }),
  );
  assert.equal(encode("a\u0000\ud800"), '"a\\u0000\\ud800"');
});

test("the same text comes of plain values and of those that need care", () => {
  class Money {
    amount = 5;
    #cents = 0;
    get cents(): number {
      return this.#cents;
    }
  }
  const date = new Date(0);
  const nullPrototype = Object.assign(Object.create(null), { a: 1, b: [null] });
  const cases: unknown[] = [
    { at: date, list: [date, { date }] },
    new Money(),
    [new Money()],
    nullPrototype,
    { a: undefined, b: { c: undefined }, d: 1 },
    { toJSON: () => ({ x: [1] }) },
    { a: { toJSON: () => undefined }, b: 1 },
    { a: { toJSON: (key: string) => `key ${key}` }, list: [{ toJSON: (key: string) => `key ${key}` }] },
    new URL("https://example.com/"),
    Buffer.from("ab"),
    { [Symbol("hidden")]: 1, shown: 2 },
    Object.defineProperty({ a: 1 }, "b", { value: 2, enumerable: false }),
    -0,
    [-0, 1e21, 5e-324, 1.7976931348623157e308],
    { "": 1, "a b": 2, "\u0000": 3 },
    nested(200),
    "x".repeat(JSON_MAX_BYTES - 2),
  ];
  for (const value of cases) assert.equal(encode(value), JSON.stringify(value));
});

test("an own __proto__ key survives and pollutes nothing", () => {
  const value = JSON.parse('{"__proto__":{"admin":true},"a":[{"__proto__":1}]}');
  assert.equal(encode(value), '{"__proto__":{"admin":true},"a":[{"__proto__":1}]}');
  assert.deepEqual(decodeJson(encode(value)), value);
  assert.equal(({} as { admin?: boolean }).admin, undefined);
  assert.equal(
    encode({ at: new Date(0), ...value }),
    '{"at":"1970-01-01T00:00:00.000Z","__proto__":{"admin":true},"a":[{"__proto__":1}]}',
  );
});

test("what would not come back is refused, by its path", () => {
  const cases: [unknown, string][] = [
    [undefined, "args must be given"],
    [Number.NaN, "args must be a finite number"],
    [{ items: [0, 1, 2, { price: Number.POSITIVE_INFINITY }] }, "args.items[3].price must be a finite number"],
    [{ n: 10n }, "args.n must be JSON, not a bigint"],
    [{ fn: () => 1 }, "args.fn must be JSON, not a function"],
    [Symbol("x"), "args must be JSON, not a symbol"],
    [[1, undefined], "args[1] must not be undefined (in an array use null)"],
    // biome-ignore format: a hole
    [Array(2), "args[0] must not be undefined (in an array use null)"],
    [{ at: new Date(Number.NaN) }, "args.at must be a valid Date"],
    [{ "a b": { "": Number.NaN } }, 'args["a b"][""] must be a finite number'],
    [{ m: new Map([[1, 2]]) }, "args.m must be JSON, not a Map, which would lose its content"],
    [new Set(), "args must be JSON, not a Set, which would lose its content"],
    [{ p: Promise.resolve(1) }, "args.p must be JSON, not a Promise, which would lose its content"],
    [[new Error("x")], "args[0] must be JSON, not a Error, which would lose its content"],
    [/x/, "args must be JSON, not a RegExp, which would lose its content"],
    [new Uint8Array(2), "args must be JSON, not a Uint8Array, which would lose its content"],
    [new ArrayBuffer(2), "args must be JSON, not a ArrayBuffer, which would lose its content"],
    [new WeakMap(), "args must be JSON, not a WeakMap, which would lose its content"],
    [Object(5), "args must be JSON, not a Number, which would lose its content"],
    [{ toJSON: () => undefined }, "args must be given"],
    [{ a: { toJSON: () => Number.NaN } }, "args.a must be a finite number"],
    [[{ toJSON: () => undefined }], "args[0] must not be undefined (in an array use null)"],
  ];
  for (const [value, expected] of cases) assert.equal(refusal(value), expected);
});

test("a problem is found at its path wherever it stands", () => {
  const key = fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constantFrom("a", "bc", "d_1"));
  fc.assert(
    fc.property(fc.array(key, { maxLength: 12 }), (path) => {
      const value = path.reduceRight<unknown>(
        (inner, step) => (typeof step === "number" ? [...Array(step).fill(null), inner] : { x: 1, [step]: inner }),
        Number.NaN,
      );
      const text = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("");
      assert.equal(refusal(value), `args${text} must be a finite number`);
    }),
  );
});

test("cycles and endless depth are refused, shared objects are not", () => {
  const loop: { a: { b: unknown[] } } = { a: { b: [] } };
  loop.a.b.push(1, loop.a);
  assert.equal(refusal(loop), "args.a.b[1] must not contain an object that it is part of");
  const self: unknown[] = [];
  self.push(self, self, self);
  assert.equal(refusal(self), "args[0] must not contain an object that it is part of");
  const endless = (): unknown => ({ toJSON: () => ({ a: endless() }) });
  assert.equal(refusal(endless()), `args must be at most ${JSON_MAX_DEPTH} levels deep`);

  assert.equal(refusal(nested(JSON_MAX_DEPTH)), "none");
  assert.deepEqual(decodeJson(encode(nested(JSON_MAX_DEPTH))), nested(JSON_MAX_DEPTH));
  assert.equal(refusal(nested(JSON_MAX_DEPTH + 1)), `args must be at most ${JSON_MAX_DEPTH} levels deep`);
  assert.equal(refusal(nested(100_000)), `args must be at most ${JSON_MAX_DEPTH} levels deep`);

  const shared = { x: 1 };
  assert.equal(encode([shared, { shared }, shared]), '[{"x":1},{"shared":{"x":1}},{"x":1}]');
});

test("values of more than 1 MiB are refused, and huge ones at once", () => {
  const rule = `args must be at most ${JSON_MAX_BYTES} bytes as JSON`;
  assert.equal(refusal("x".repeat(JSON_MAX_BYTES - 2)), "none");
  assert.equal(refusal("x".repeat(JSON_MAX_BYTES - 1)), rule);
  assert.equal(refusal("é".repeat(JSON_MAX_BYTES / 2 - 1)), "none");
  assert.equal(refusal(["é".repeat(JSON_MAX_BYTES / 2)]), rule);
  assert.equal(refusal("\u0000".repeat(JSON_MAX_BYTES / 6 + 1)), rule);
  // 2^40 leaves, if it were written out.
  let doubled: unknown = "leaf";
  for (let n = 0; n < 40; n++) doubled = [doubled, doubled];
  assert.equal(refusal(doubled), rule);
  assert.equal(refusal(new Proxy([], { get: (_, name) => (name === "length" ? 2 ** 32 : 1) })), rule);
});

test("hostile values are refused, not crashed on", () => {
  const cases: [unknown, string][] = [
    [hostileProxy(), "args must be readable (Error: hostile)"],
    [
      revokedProxy(),
      "args must be readable (TypeError: Cannot perform 'getPrototypeOf' on a proxy that has been revoked)",
    ],
    [{ a: [throwingGetter("b")] }, "args.a[0].b must be readable (Error: hostile)"],
    [{ a: throwingGetter("toJSON") }, "args.a must be readable (Error: hostile)"],
  ];
  for (const [value, expected] of cases) {
    const { problem } = tryEncodeJson(value, "args");
    assert.match(problem?.field ?? "", /^args/, expected);
    assert.match(problem?.rule ?? "", /must be readable/, expected);
  }
});

test("any value whatever is JSON or has one problem", () => {
  const anything = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withNullPrototype: true,
    withSparseArray: true,
    withTypedArray: true,
    withBoxedValues: true,
    withUnicodeString: true,
  });
  fc.assert(
    fc.property(anything, (value) => {
      const { json, problem } = tryEncodeJson(value, "args");
      if (problem === null) assert.equal(json, JSON.stringify(value));
      else assert.ok(problem.field.startsWith("args") && problem.rule.startsWith("must"));
    }),
    { numRuns: 500 },
  );
});

test("encodeJson throws the problem", () => {
  assert.throws(
    () => encode({ a: 1n }),
    (error) =>
      error instanceof InvalidError && error.message === "can't enqueue: args.a must be JSON, not a bigint, got 1n",
  );
});
