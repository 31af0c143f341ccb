import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { inspectCsv, readSteps } from "../../examples/import/csv.ts";
import { CUSTOMER_COLUMNS, checkRow, customerIdOf } from "../../examples/import/records.ts";
import { makeSample, ROWS } from "../../scripts/make-sample.ts";
import { SAMPLE } from "./support.ts";

const VALID = ["C-000007", "Inês O'Neill-Šimić", "ines@example.com", "PT", "2024-02-29", "12.50"];
const firstIn = (row: number) => () => row;

test("a customer becomes a record, with its columns in any order", () => {
  const expected = Object.fromEntries(CUSTOMER_COLUMNS.map((column, index) => [column, VALID[index]]));
  assert.deepEqual(checkRow(CUSTOMER_COLUMNS, 7, VALID, firstIn(7)), { record: expected });
  const padded = VALID.map((field) => ` ${field} `).toReversed();
  assert.deepEqual(checkRow(CUSTOMER_COLUMNS.toReversed(), 7, padded, firstIn(7)), {
    record: Object.fromEntries(Object.entries(expected).toReversed()),
  });
});

const DEFECTS: readonly (readonly [column: number, value: string, problem: string])[] = [
  [0, "", "customer id is missing"],
  [0, "C-7", "customer id C-7 is not of the form C-000123"],
  [1, " ", "name is missing"],
  [1, "R2D2", "name R2D2 is not 2 to 80 characters without digits"],
  [2, "", "e-mail address is missing"],
  [2, "ines at example.com", "e-mail address ines at example.com is not valid"],
  [2, "ines@localhost", "e-mail address ines@localhost is not valid"],
  [3, "", "country is missing"],
  [3, "XX", "country XX is unknown"],
  [4, "", "sign-up date is missing"],
  [4, "2023-02-29", "sign-up date 2023-02-29 is not a date"],
  [4, "31/12/2023", "sign-up date 31/12/2023 is not a date"],
  [5, "", "amount is missing"],
  [5, "-0.01", "amount -0.01 is negative"],
  [5, "1.005", "amount 1.005 has too many decimals"],
  [5, "12,50", "amount 12,50 is not a number"],
  [5, "1e3", "amount 1e3 is not a number"],
  [5, "x".repeat(100), `amount ${"x".repeat(60)}… is not a number`],
];

for (const [column, value, problem] of DEFECTS) {
  test(`refused: ${problem}`, () => {
    assert.deepEqual(checkRow(CUSTOMER_COLUMNS, 7, VALID.with(column, value), firstIn(7)), { problems: [problem] });
  });
}

test("all problems of a row are named, and a customer id may be there once", () => {
  const row = VALID.with(2, "").with(5, "-1");
  assert.deepEqual(checkRow(CUSTOMER_COLUMNS, 7, row, firstIn(3)), {
    problems: ["e-mail address is missing", "amount -1 is negative", "customer id C-000007 was there before, in row 3"],
  });
});

test("any other file gives records of its own columns, as they are", () => {
  const columns = ["a", "__proto__"];
  const { record } = checkRow(columns, 1, [" 1 ", "x"], firstIn(1));
  assert.equal(JSON.stringify(record), '{"a":" 1 ","__proto__":"x"}');
  assert.deepEqual(checkRow(columns, 1, ["1"], firstIn(1)), { problems: ["there are 1 fields, but 2 columns"] });
  assert.deepEqual(checkRow(columns, 1, ["1", "2", "3"], firstIn(1)), {
    problems: ["there are 3 fields, but 2 columns"],
  });
  assert.deepEqual(checkRow(columns, 1, ["", " "], firstIn(1)), { problems: ["all fields are empty"] });
  assert.equal(customerIdOf(columns, ["1", "2"]), null);
});

test("the sample is what its generator makes: 2,000 rows, of which 40 can't be valid", async () => {
  assert.equal(await readFile(SAMPLE, "utf8"), makeSample());
  const file = await inspectCsv(SAMPLE);
  const first = new Map<string, number>();
  const problems: string[] = [];
  let row = 0;
  for await (const step of readSteps(SAMPLE, file.delimiter, file.start)) {
    for (const fields of step.rows) {
      row += 1;
      const id = customerIdOf(file.columns, fields);
      if (id !== null && !first.has(id)) first.set(id, row);
      problems.push(...(checkRow(file.columns, row, fields, (key) => first.get(key)).problems?.slice(0, 1) ?? []));
    }
  }
  assert.deepEqual([file.rows, row, problems.length], [ROWS, ROWS, 40]);
  const kinds = new Set(problems.map((problem) => problem.replaceAll(/\S*[\d@]\S*/g, "…")));
  assert.ok(kinds.size >= 15, [...kinds].join("\n"));
});
