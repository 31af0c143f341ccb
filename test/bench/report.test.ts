import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, median, quantile } from "../../bench/measure.ts";
import { atLeast, atMost, below, met, missed, type Row, toJson, toTable } from "../../bench/report.ts";

const ROWS: readonly Row[] = [
  { name: "ratio", value: 0.4567, unit: "×", target: atLeast(0.5) },
  { name: "speed", value: 51_258.4, unit: "jobs/s", target: null },
  { name: "latency", value: 10, unit: "ms", target: atMost(10) },
];

test("a target is met or missed, on its edge too", () => {
  const row = (value: number, target: Row["target"]): Row => ({ name: "", value, unit: "", target });
  assert.equal(met(row(10, atMost(10))), true);
  assert.equal(met(row(10.01, atMost(10))), false);
  assert.equal(met(row(0.5, atLeast(0.5))), true);
  assert.equal(met(row(0.49, atLeast(0.5))), false);
  assert.equal(met(row(20, below(20))), false);
  assert.equal(met(row(19.9, below(20))), true);
  assert.equal(met(row(1, null)), null);
  for (const target of [atMost(1), atLeast(1), below(1)]) assert.equal(met(row(Number.NaN, target)), false);
});

test("only rows with a target can be missed", () => {
  assert.deepEqual(missed(ROWS), ROWS.slice(0, 1));
});

test("the table is aligned", () => {
  assert.equal(
    toTable(ROWS),
    [
      "name      value  unit    target  met",
      "ratio     0.457  ×        ≥ 0.5  NO",
      "speed    51,258  jobs/s",
      "latency      10  ms        ≤ 10  yes",
      "",
    ].join("\n"),
  );
});

test("the JSON holds the rows and what they were measured on", () => {
  const json = toJson({ suite: "sqlite", rows: ROWS, facts: { durability: "full" } }, new Date(0));
  const { suite, date, machine, facts, rows } = JSON.parse(json);
  assert.deepEqual([suite, date, facts], ["sqlite", "1970-01-01T00:00:00.000Z", { durability: "full" }]);
  assert.equal(machine.node, process.version);
  assert.ok(machine.cores >= 1);
  assert.deepEqual(rows, [
    { name: "ratio", value: 0.4567, unit: "×", target: "≥ 0.5", met: false },
    { name: "speed", value: 51_258.4, unit: "jobs/s", target: null, met: null },
    { name: "latency", value: 10, unit: "ms", target: "≤ 10", met: true },
  ]);
});

test("quantiles are values that were measured", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(quantile([4, 1, 3, 2], 0.5), 2);
  const hundred = Array.from({ length: 100 }, (_, index) => index + 1);
  assert.equal(quantile(hundred, 0.99), 99);
  assert.equal(quantile(hundred, 1), 100);
  assert.equal(quantile(hundred, 0), 1);
  assert.equal(median([]), Number.NaN);
});

test("a comparison alternates who goes first and leaves the warm-up out", async () => {
  const order: string[] = [];
  const a = [1_000, 4, 6, 8];
  const b = [1, 2, 2, 2];
  const measure = (name: string, values: readonly number[]) => async () => {
    order.push(name);
    return values[order.filter((other) => other === name).length - 1] ?? 0;
  };
  assert.deepEqual(await compare(3, measure("a", a), measure("b", b)), { a: 6, b: 2, ratio: 3 });
  assert.equal(order.join(""), "abbaabba");
});
