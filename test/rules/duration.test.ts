import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { formatDuration, parseDuration } from "../../engine/duration.ts";
import { LONGEST_DURATION } from "../../engine/rules/limits.ts";

test("durations are milliseconds or strings with a unit", () => {
  const cases: [unknown, number | null][] = [
    [0, 0],
    [250, 250],
    [-5, -5],
    [1.2, 2],
    [-0, 0],
    [-0.4, 0],
    ["250", 250],
    ["250ms", 250],
    ["30s", 30_000],
    ["1.5h", 5_400_000],
    ["1.1h", 3_960_000],
    ["0.1ms", 1],
    ["7 days", 604_800_000],
    ["1 week", 604_800_000],
    ["-2m", -120_000],
    [Number.NaN, null],
    [Number.POSITIVE_INFINITY, null],
    [Number.NEGATIVE_INFINITY, null],
    ["", null],
    [" ", null],
    ["abc", null],
    ["5 parsecs", null],
    ["NaN", null],
    ["Infinity", null],
    ["1e3", null],
    ["5s 3", null],
    [`${"9".repeat(200)}s`, null],
    [null, null],
    [undefined, null],
    [true, null],
    [5n, null],
    [{}, null],
    [["5s"], null],
    [new Date(5), null],
    [Symbol("5s"), null],
    [{ valueOf: () => 5, toString: () => "5s" }, null],
  ];
  for (const [value, expected] of cases) assert.strictEqual(parseDuration(value), expected, `${String(value)}`);
});

test("a duration of any value is null or whole milliseconds", () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      const parsed = parseDuration(value);
      assert.ok(parsed === null || Number.isInteger(parsed));
    }),
  );
});

test("a decimal fraction of a unit is not rounded up by what binary numbers add to it", () => {
  const tenths = fc.integer({ min: 0, max: 10_000_000 });
  fc.assert(
    fc.property(
      tenths,
      fc.constantFrom(["s", 100], ["m", 6_000], ["h", 360_000], ["d", 8_640_000]),
      (n, [unit, size]) => {
        assert.equal(parseDuration(`${(n / 10).toFixed(1)}${unit}`), n * Number(size));
      },
    ),
  );
});

test("what formatDuration writes is read back", () => {
  assert.equal(formatDuration(90_000), "90s");
  assert.equal(formatDuration(86_400_000), "1d");
  assert.equal(formatDuration(1_500), "1500ms");
  assert.equal(formatDuration(0), "0ms");
  fc.assert(
    fc.property(fc.integer({ min: -LONGEST_DURATION, max: LONGEST_DURATION }), (duration) => {
      assert.equal(parseDuration(formatDuration(duration)), duration);
    }),
  );
});
