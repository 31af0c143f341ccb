/** The checker of limits finds what it is there to find. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Key, limitsVerdict, mostAtOnce, mostWithin } from "./limits-verdict.ts";
import type { Run } from "./verdict.ts";

const KEY: Key = { name: "key", max: 0, rate: 0, per: 1_000, burst: 0, work: 10 };
const rated: Key = { ...KEY, rate: 10, burst: 2 };
const capped: Key = { ...KEY, max: 2, work: 100 };

/** Runs of a process each, with a start every `gap` ms. */
const paced = (count: number, gap: number, length: number): Run[] =>
  Array.from({ length: count }, (_, n) => ({
    ...{ id: n + 1, attempt: 1, process: "a", how: "returned" },
    ...{ start: n * gap, end: n * gap + length },
  }));
const problems = (key: Key, runs: readonly Run[], admitted: readonly number[] = []): readonly string[] =>
  limitsVerdict(key, runs, admitted).problems;

test("a key that is used as it may be", () => {
  assert.deepEqual(problems(rated, paced(50, 100, 10)), []);
  assert.deepEqual(problems(capped, paced(50, 50, 100)), []);
  assert.deepEqual(problems({ ...rated, max: 2 }, paced(50, 100, 150)), []);
});

test("too many starts or admissions in a window", () => {
  const within = 10 + 2 + 5;
  const together = (count: number): Run[] => paced(count, 1, 1);
  assert.deepEqual(problems(rated, together(within)), []);
  assert.deepEqual(problems(rated, together(within + 1)), ["key: 18 started in 1000 ms"]);
  const admitted = Array.from({ length: 13 }, (_, n) => n);
  assert.deepEqual(problems(rated, paced(50, 100, 10), admitted.slice(1)), []);
  assert.deepEqual(problems(rated, paced(50, 100, 10), admitted), ["key: 13 admitted in 1000 ms"]);
});

test("windows are closed, and instants may come in any order", () => {
  assert.equal(mostWithin([2_000, 0, 1_000], 1_000), 2);
  assert.equal(mostWithin([2_000, 0, 1_001], 999), 2);
  assert.equal(mostWithin([], 1_000), 0);
});

test("too many at once", () => {
  assert.deepEqual(problems(capped, paced(50, 50, 101)), ["key: 3 ran at once"]);
  assert.equal(mostAtOnce([...paced(2, 10, 10), ...paced(2, 10, 10)]), 2);
});

test("a key that is hardly used", () => {
  assert.deepEqual(problems(rated, paced(50, 130, 10)), ["key: 77 % used"]);
  assert.deepEqual(problems(capped, paced(50, 70, 100)), ["key: 71 % used"]);
});

test("a killed run holds its place until its job runs again, and no longer", () => {
  const killed = { id: 100, process: "b", attempt: 1, start: 1, end: 2, how: "killed" } as const;
  const again = { ...killed, attempt: 2, start: 6_000, end: 6_100, how: "returned" } as const;
  const slowly = paced(60, 100, 100);
  assert.deepEqual(problems(capped, [...slowly, killed, again]), []);
  assert.deepEqual(problems(capped, [...slowly, killed, { ...again, start: 2_000, end: 2_100 }]), ["key: 62 % used"]);
});
