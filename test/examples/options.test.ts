import assert from "node:assert/strict";
import { test } from "node:test";
import { readOptions, USAGE } from "../../examples/import/options.ts";
import { UserError } from "../../examples/shared/problem.ts";

test("without options", () => {
  assert.deepEqual(readOptions([]), {
    ...{ file: null, db: null, reset: false, once: false, workers: 0, concurrency: 10, help: false },
  });
});

test("with all of them", () => {
  const args = ["--once", "--workers", "3", "--file=a.csv", "--db", "b.sqlite", "--reset", "--concurrency", "1", "-h"];
  assert.deepEqual(readOptions(args), {
    ...{ file: "a.csv", db: "b.sqlite", reset: true, once: true, workers: 3, concurrency: 1, help: true },
  });
});

const REFUSED: readonly (readonly [args: string[], message: string])[] = [
  [["--fast"], "Unknown option '--fast'"],
  [["a.csv"], "Unexpected argument 'a.csv'"],
  [["--file"], "Option '--file <value>' argument missing"],
  [["--file", ""], "--file must name a file"],
  [["--db", ":memory:"], "--db must name a file"],
  [["--once=yes"], "Option '--once' does not take an argument"],
  [["--once", "--workers", "1"], '--workers must be an integer from 2 to 16, got "1"'],
  [["--once", "--workers", "2.5"], '--workers must be an integer from 2 to 16, got "2.5"'],
  [["--workers", "3"], "--workers needs --once"],
  [["--concurrency", "many"], '--concurrency must be an integer from 1 to 100, got "many"'],
];

for (const [args, message] of REFUSED) {
  test(`refused: ${args.join(" ")}`, () => {
    const refusal = (error: unknown): boolean => {
      assert.ok(error instanceof UserError);
      assert.equal(error.message, `${message}\n${USAGE}`);
      return true;
    };
    assert.throws(() => readOptions(args), refusal);
  });
}
