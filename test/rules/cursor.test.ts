import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { decodeCursor, encodeCursor } from "../../engine/rules/cursor.ts";

const number = fc.double({ noDefaultInfinity: true, noNaN: true }).map((value) => value + 0 || 0);
const key = fc.array(number, { maxLength: 4 });

test("a cursor gives back its key", () => {
  fc.assert(
    fc.property(key, (numbers) => {
      const cursor = encodeCursor(numbers);
      assert.deepEqual(decodeCursor(cursor, numbers.length), numbers);
      assert.match(cursor, /^[A-Za-z0-9_-]*$/, "fit for a URL as it is");
    }),
  );
});

test("a cursor of another length is refused", () => {
  fc.assert(
    fc.property(key, fc.nat(5), (numbers, length) => {
      fc.pre(length !== numbers.length);
      assert.throws(() => decodeCursor(encodeCursor(numbers), length), { code: "invalid" });
    }),
  );
});

test("any other value is refused as a cursor, never anything worse", () => {
  const encoded = fc.json().map((json) => Buffer.from(json).toString("base64url"));
  const values = fc.oneof(fc.string({ unit: "binary" }), encoded, fc.anything());
  fc.assert(
    fc.property(values, fc.integer({ min: 1, max: 3 }), (value, length) => {
      try {
        const numbers = decodeCursor(value as string, length);
        assert.equal(numbers.length, length);
        assert.ok(numbers.every(Number.isFinite));
      } catch (error) {
        assert.equal((error as { code?: unknown }).code, "invalid");
        assert.deepEqual(
          (error as { problems: { field: string }[] }).problems.map(({ field }) => field),
          ["cursor"],
        );
      }
    }),
    { numRuns: 1_000 },
  );
});
