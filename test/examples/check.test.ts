import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Evidence, judge, verdictLine } from "../../examples/import/check.ts";
import type { LogEntry } from "../../examples/import/storage.ts";

const start = (worker: number, row: number): LogEntry => ({ event: "start", worker, importId: 1, row });
const end = (worker: number, row: number): LogEntry => ({ event: "end", worker, importId: 1, row });
const death = (worker: number): LogEntry => ({ event: "death", worker, importId: 0, row: 0 });

const runsOfAll = [1, 2, 3].flatMap((row) => [start(1, row), end(1, row)]);
/** Row 2 can't be valid. */
const GOOD: Evidence = { valid: [true, false, true], succeeded: [3, 1], failed: [2], stored: [1, 3], runs: runsOfAll };

test("an import in which all went as it should", () => {
  const verdict = judge(GOOD);
  assert.deepEqual(verdict.problems, []);
  assert.equal(verdictLine(verdict), "rows=3 succeeded=2 failed=1 lost=0 overlapped=0 stored=2");
});

describe("what is found", () => {
  const cases: Readonly<Record<string, readonly [Partial<Evidence>, string, string]>> = {
    "a row without a job": [{ failed: [] }, "lost=1", "rows without a job that has ended: 2"],
    "a row stored twice": [{ stored: [1, 3, 3] }, "stored=3", "rows that were stored more than once: 3"],
    "a row that ended in two ways": [{ failed: [2, 3] }, "failed=2", "rows that ended in two ways: 3"],
    "a valid row that failed": [
      { succeeded: [3], failed: [1, 2], stored: [3] },
      "failed=2",
      "valid rows that failed: 1",
    ],
    "an invalid row that succeeded": [
      { succeeded: [1, 2, 3], failed: [], stored: [1, 2, 3] },
      "succeeded=3",
      "invalid rows that succeeded: 2",
    ],
    "a row that succeeded but is not stored": [
      { stored: [1] },
      "stored=1",
      "valid rows that succeeded but are not stored: 3",
    ],
    "an invalid row that is stored": [{ stored: [1, 2, 3] }, "stored=3", "rows that are stored but did not succeed: 2"],
    "more rows than can be named": [
      { valid: Array(9).fill(true), failed: [2] },
      "lost=6",
      "rows without a job that has ended: 4, 5, 6, 7, 8, …",
    ],
  };
  for (const [what, [change, part, problem]] of Object.entries(cases)) {
    test(what, () => {
      const verdict = judge({ ...GOOD, ...change });
      assert.ok(verdict.problems.includes(problem), verdict.problems.join("\n"));
      assert.ok(verdictLine(verdict).split(" ").includes(part), verdictLine(verdict));
    });
  }
});

describe("runs of a row by two processes at once", () => {
  const cases: Readonly<Record<string, readonly [runs: LogEntry[], overlapped: number]>> = {
    "one after the other": [[start(1, 1), end(1, 1), start(2, 1), end(2, 1)], 0],
    "different rows at once": [[start(1, 1), start(2, 2), end(1, 1), end(2, 2)], 0],
    "the second began before the first had ended": [[start(1, 1), start(2, 1), end(1, 1), end(2, 1)], 1],
    "the second began and ended within the first": [[start(1, 1), start(2, 1), end(2, 1), end(1, 1)], 1],
    "the first never ended": [[start(1, 1), start(2, 1), end(2, 1)], 1],
    "the same process twice": [[start(1, 1), start(1, 1), end(1, 1), end(1, 1)], 1],
    "the first had died before": [[start(1, 1), death(1), start(2, 1), end(2, 1)], 0],
    "the first died after the second had begun": [[start(1, 1), start(2, 1), death(1), end(2, 1)], 1],
    "somebody else had died": [[start(1, 1), death(3), start(2, 1), end(2, 1)], 1],
    "the reading of the file": [[start(1, 0), start(2, 0), end(1, 0), end(2, 0)], 1],
    "two rows": [[start(1, 1), start(2, 1), start(1, 2), start(3, 2), start(4, 2)], 2],
  };
  for (const [what, [runs, overlapped]] of Object.entries(cases)) {
    test(`${what}: ${overlapped}`, () => {
      const verdict = judge({ ...GOOD, runs });
      assert.equal(verdict.overlapped, overlapped);
      assert.equal(verdict.problems.length, overlapped > 0 ? 1 : 0);
    });
  }
});
