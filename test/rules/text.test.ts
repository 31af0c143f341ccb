import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { cleanText, cutText, shown } from "../../engine/rules/text.ts";

/** Text of all lengths of UTF-8, whole and broken surrogate pairs, and NULs. */
const text = fc
  .array(fc.constantFrom("a", "\u0000", "é", "日", "😀", "\ud83d", "\ude00", "\ufffd", "\n"), { maxLength: 60 })
  .map((parts) => parts.join(""));

test("cleanText leaves neither NUL nor lone surrogates and changes nothing else", () => {
  fc.assert(
    fc.property(text, (value) => {
      const clean = cleanText(value);
      assert.ok(clean.isWellFormed());
      assert.ok(!clean.includes("\u0000"));
      assert.equal(cleanText(clean), clean);
      if (value.isWellFormed()) assert.equal(clean, value.replaceAll("\u0000", ""));
    }),
  );
  assert.equal(cleanText("\ud83d\u0000\ude00"), "\ufffd\ufffd", "taking out a NUL makes no new character");
});

test("cutText is a whole-character prefix of at most so many bytes, and idempotent", () => {
  fc.assert(
    fc.property(text, fc.nat(70), (value, maxBytes) => {
      const cut = cutText(value, maxBytes);
      assert.ok(Buffer.byteLength(cut) <= maxBytes);
      assert.ok(cut.isWellFormed());
      assert.ok(cleanText(value).startsWith(cut));
      assert.equal(cutText(cut, maxBytes), cut);
    }),
    { numRuns: 1_000 },
  );
});

test("cutText cuts no more than it must", () => {
  fc.assert(
    fc.property(text, fc.nat(70), (value, maxBytes) => {
      // Of longer text, only the beginning is looked at.
      fc.pre(value.length <= 2 * maxBytes);
      const cut = cutText(value, maxBytes);
      const [next] = cleanText(value).slice(cut.length);
      if (next !== undefined) assert.ok(Buffer.byteLength(cut + next) > maxBytes);
    }),
    { numRuns: 1_000 },
  );
});

test("cutText does not split a pair where it stops looking", () => {
  assert.equal(cutText(`${"\u0000".repeat(19)}😀`, 10), "");
  assert.equal(cutText(`${"\u0000".repeat(18)}😀 and more`, 10), "😀");
});

class BadDate extends Date {
  override toISOString(): string {
    return 5 as unknown as string;
  }
}

function revoked(target: object): unknown {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

function throws(): never {
  throw new Error("no");
}

function nested(depth: number): unknown {
  let value: unknown = null;
  for (let n = 0; n < depth; n++) value = [value];
  return value;
}

const cycle: unknown[] = [];
cycle.push(cycle);

const strange: unknown[] = [
  revoked({}),
  revoked([]),
  revoked(() => {}),
  new Proxy({}, { ownKeys: throws, get: throws, getPrototypeOf: throws }),
  new Proxy(new Date(0), {}),
  new BadDate(0),
  Object.defineProperty({}, "a", { enumerable: true, get: throws }),
  Object.defineProperty({}, Symbol.toStringTag, { get: throws }),
  { toJSON: throws },
  { toJSON: () => undefined },
  { toJSON: () => 1n },
  { toString: throws, valueOf: throws, [Symbol.toPrimitive]: throws },
  Object.create(null),
  Symbol("s"),
  Object(Symbol("s")),
  () => {},
  class {},
  cycle,
  { big: 1n },
  nested(100_000),
  "\ud800",
  `${"a".repeat(99)}😀`,
];

test("shown gives short, clean text for any value whatever", () => {
  const check = (value: unknown): void => {
    const result = shown(value);
    assert.ok(Buffer.byteLength(result) <= 100);
    assert.ok(result.isWellFormed());
    assert.ok(result.length > 0);
  };
  for (const value of strange) check(value);
  const anything = fc.anything({
    withBigInt: true,
    withBoxedValues: true,
    withDate: true,
    withMap: true,
    withNullPrototype: true,
    withSparseArray: true,
    withTypedArray: true,
  });
  fc.assert(fc.property(anything, check));
});

test("shown does not look at all of a value without end", () => {
  let doubled: unknown = "leaf";
  for (let n = 0; n < 60; n++) doubled = [doubled, doubled];
  assert.equal(shown(doubled), "[[[…,…],[…,…]],[[…,…],[…,…]]]");
  const endless = new Proxy([], {
    get: (_, name) => (name === "length" ? 2 ** 32 : name === "constructor" ? Array : 1),
  });
  assert.ok(shown(endless).length <= 100);
});

test("shown is readable", () => {
  const expected: [unknown, string][] = [
    ["a", '"a"'],
    [1, "1"],
    [Number.NaN, "NaN"],
    [12n, "12n"],
    [null, "null"],
    [undefined, "undefined"],
    [{ a: [1] }, '{"a":[1]}'],
    [new Date(0), "1970-01-01T00:00:00.000Z"],
    [new Date(Number.NaN), "an invalid Date"],
    [() => {}, "a function"],
    [cycle, "[[[…]]]"],
    [[1, 2, 3, 4, 5, 6], "[1,2,3,4,5,…]"],
    [{ a: 1, b: 2, c: 3, d: 4, e: 5, f: 6 }, '{"a":1,"b":2,"c":3,"d":4,"e":5,…}'],
    [{ at: new Date(0), url: new URL("a:b") }, '{"at":1970-01-01T00:00:00.000Z,"url":"a:b"}'],
    [{ toJSON: throws }, "an unreadable object"],
  ];
  for (const [value, text] of expected) assert.equal(shown(value), text);
});
