import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { weightedOrder } from "../../engine/rules/weighted-order.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";

/** The largest number that `random` can give. */
const ALMOST_ONE = 1 - 2 ** -53;

const weights = (of: Record<string, number>): Map<string, number> => new Map(Object.entries(of));

test("every queue comes once, whatever the weights and the draws", () => {
  const property = fc.property(
    fc.uniqueArray(fc.string(), { maxLength: 20 }),
    fc.array(fc.option(fc.integer({ min: 1, max: 1_000 }), { nil: undefined }), { minLength: 20, maxLength: 20 }),
    fc.array(fc.oneof(fc.double({ min: 0, max: ALMOST_ONE, noNaN: true }), fc.constantFrom(0, ALMOST_ONE)), {
      minLength: 20,
      maxLength: 20,
    }),
    (queues, given, draws) => {
      const named = new Map<string, number>();
      queues.forEach((queue, index) => {
        const weight = given[index];
        if (weight !== undefined) named.set(queue, weight);
      });
      const before = [...queues];
      let drawn = 0;
      const order = weightedOrder(queues, named, () => draws[drawn++] ?? 0);
      assert.deepEqual([...order].sort(), [...queues].sort());
      assert.deepEqual(queues, before, "the input is left as it was");
    },
  );
  fc.assert(property, { numRuns: 500 });
});

test("a draw that rounding puts beyond the last queue gives the last queue", () => {
  const queues = ["a", "b", "c"];
  assert.deepEqual(
    weightedOrder(queues, new Map(), () => 1),
    ["c", "b", "a"],
  );
});

test("the smallest draw takes the first queue, the largest the last", () => {
  const queues = ["a", "b", "c"];
  const of = weights({ a: 1, b: 1_000, c: 3 });
  assert.deepEqual(
    weightedOrder(queues, of, () => 0),
    ["a", "b", "c"],
  );
  assert.deepEqual(
    weightedOrder(queues, of, () => ALMOST_ONE),
    ["c", "b", "a"],
  );
});

test("each queue has its share of the draw, and one without a weight counts as 1", () => {
  const first = (ticket: number): string | undefined =>
    weightedOrder(["a", "b", "c"], weights({ a: 2, c: 5 }), () => ticket / 8)[0];
  const tickets = [0, 1, 2, 3, 4, 5, 6, 7].map(first);
  assert.deepEqual(tickets, ["a", "a", "b", "c", "c", "c", "c", "c"]);
});

test("orders come as often as drawing one by one without replacement says", () => {
  const of = { a: 6, b: 3, c: 1 };
  const runtime = new VirtualTime().runtime();
  const draws = 40_000;
  const counts = new Map<string, number>();
  for (let i = 0; i < draws; i++) {
    const order = weightedOrder(["a", "b", "c"], weights(of), () => runtime.random()).join("");
    counts.set(order, (counts.get(order) ?? 0) + 1);
  }
  for (const order of ["abc", "acb", "bac", "bca", "cab", "cba"]) {
    const [x, y, z] = [...order].map((queue) => of[queue as keyof typeof of]) as [number, number, number];
    const probability = (x / (x + y + z)) * (y / (y + z));
    // The draws are seeded, so this passes always or never; five standard deviations are missed by chance once in 1.7 million.
    const tolerance = 5 * Math.sqrt(draws * probability * (1 - probability));
    const count = counts.get(order) ?? 0;
    assert.ok(
      Math.abs(count - draws * probability) < tolerance,
      `${order}: ${count} of ${draws}, expected ${probability}`,
    );
  }
});
