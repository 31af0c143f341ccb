import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { checkConsoleEntry, consoleLine, percentOf, TRUNCATED } from "../../engine/rules/console.ts";
import { CONSOLE } from "../../engine/rules/limits.ts";
import { cleanText } from "../../engine/rules/text.ts";
import { hostileProxy, revokedProxy, throwingGetter } from "../client/support.ts";

const { lineMaxBytes } = CONSOLE;
const UNITS = ["a", "\u0000", "é", "日", "😀", "\ud83d", "\ude00", "\n", "\r"] as const;
const message = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(fc.constantFrom(...UNITS), { maxLength: 9 }).map((units) => units.join("")),
  fc.tuple(fc.constantFrom(...UNITS), fc.nat(2 * lineMaxBytes)).map(([unit, count]) => unit.repeat(count)),
);

test("a line is the message without one newline at its end, cleaned, cut no more than it must, and every store takes it", () => {
  fc.assert(
    fc.property(message, fc.constantFrom("", "\n", "\n\n"), (begin, end) => {
      const line = consoleLine(begin + end);
      checkConsoleEntry({ lines: [line], progress: null });
      const whole = cleanText((begin + end).replace(/\n$/, ""));
      assert.ok(whole.startsWith(line));
      // Of longer text, only the beginning is looked at.
      if (begin.length + end.length > 2 * lineMaxBytes) return;
      const [next] = whole.slice(line.length);
      if (next !== undefined) assert.ok(Buffer.byteLength(line + next) > lineMaxBytes);
    }),
    { numRuns: 300 },
  );
  assert.equal(consoleLine("\n"), "");
  assert.equal(consoleLine("a\r\n"), "a\r");
  checkConsoleEntry({ lines: [TRUNCATED], progress: null });
});

test("whatever is passed for a message gives a line", () => {
  const values = [
    ...[undefined, null, 5, 5n, Symbol("s"), () => {}, {}, [], new Date(Number.NaN), new Error("e")],
    ...[hostileProxy(), revokedProxy(), throwingGetter("a"), { toString: () => assert.fail() }],
  ];
  for (const value of values) checkConsoleEntry({ lines: [consoleLine(value)], progress: null });
  assert.equal(consoleLine(undefined), "undefined");
  assert.equal(consoleLine(5), "5");
});

test("percent is a number from 0 to 100, the nearest one to what was passed", () => {
  fc.assert(
    fc.property(fc.double(), (value) => {
      const percent = percentOf(value);
      if (Number.isNaN(value)) assert.equal(percent, null);
      else if (value <= 0) assert.ok(Object.is(percent, 0));
      else assert.equal(percent, Math.min(value, 100));
      checkConsoleEntry({ lines: [], progress: percent });
    }),
  );
  for (const value of [undefined, null, "5", 5n, Symbol("s"), hostileProxy()]) assert.equal(percentOf(value), null);
});
