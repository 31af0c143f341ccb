import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { detectDelimiter, inspectCsv, nameColumns, readSteps, type Step } from "../../examples/import/csv.ts";
import { UserError } from "../../examples/shared/problem.ts";
import { makeDirectory } from "./support.ts";

const DELIMITERS = [",", ";", "\t", "|"] as const;
const LINE_ENDS = ["\n", "\r\n", "\r"] as const;

async function readAll(path: string, delimiter: string, offset: number): Promise<Step[]> {
  const steps: Step[] = [];
  for await (const step of readSteps(path, delimiter, offset)) steps.push(step);
  return steps;
}

const CHARACTER = fc.constantFrom("a", "é", "漢", " ", '"', ",", ";", "\t", "\n", "\r", "\uFEFF");
const FIELD = fc.string({ unit: CHARACTER, maxLength: 6 });

test("a file can be read from the end of any step on, whatever stands in its fields", async (t) => {
  const directory = await makeDirectory(t);
  const path = join(directory, "any.csv");
  const rows = fc.array(fc.tuple(FIELD, FIELD), { minLength: 1, maxLength: 8 });
  const property = fc.asyncProperty(
    rows,
    fc.constantFrom(...DELIMITERS),
    fc.constantFrom(...LINE_ENDS),
    fc.boolean(),
    fc.nat(3),
    async (pattern, delimiter, lineEnd, bom, at) => {
      // More than two steps of it.
      const table = Array.from({ length: 250 }, (_, index) => pattern[index % pattern.length] ?? []);
      const quote = (field: string): string => `"${field.replaceAll('"', '""')}"`;
      const lines = [["first", "second"], ...table].map((row) => `${row.map(quote).join(delimiter)}${lineEnd}`);
      await writeFile(path, `${bom ? "\uFEFF" : ""}${lines.join("")}`);

      const file = await inspectCsv(path);
      assert.deepEqual(
        { rows: file.rows, columns: file.columns, delimiter: file.delimiter },
        { rows: 250, columns: ["first", "second"], delimiter },
      );
      const steps = await readAll(path, delimiter, file.start);
      const all = steps.flatMap((step) => step.rows);
      assert.deepEqual(all, table);
      const { end } = steps[Math.min(at, steps.length - 1)] ?? assert.fail("there are no steps");
      const before = steps.filter((step) => step.end <= end).flatMap((step) => step.rows);
      const rest = (await readAll(path, delimiter, end)).flatMap((step) => step.rows);
      assert.deepEqual([...before, ...rest], table);
    },
  );
  await fc.assert(property, { numRuns: 30 });
});

test("a step ends early when its rows are long", async (t) => {
  const path = join(await makeDirectory(t), "long.csv");
  await writeFile(path, `a\n${`${"x".repeat(300_000)}\n`.repeat(6)}`);
  const steps = await readAll(path, ",", 2);
  assert.deepEqual(
    steps.map(({ rows }) => rows.length),
    [4, 2],
  );
});

test("blank lines and a missing line end at the end of the file change nothing", async (t) => {
  const path = join(await makeDirectory(t), "blank.csv");
  await writeFile(path, "\n\na,b\n\n1,2\n\n3,4");
  const file = await inspectCsv(path);
  assert.equal(file.rows, 2);
  const [step] = await readAll(path, file.delimiter, file.start);
  assert.deepEqual(step?.rows, [
    ["1", "2"],
    ["3", "4"],
  ]);
});

const REFUSED: Readonly<Record<string, readonly [content: string | Buffer, message: RegExp]>> = {
  "an empty file": ["", /is empty$/],
  "a byte order mark alone": ["\uFEFF", /is empty$/],
  "blank lines alone": ["\n\r\n", /is empty$/],
  "a header alone": ["a,b\n", /has a header but no rows$/],
  "a binary file": [Buffer.from([0x50, 0x4b, 3, 4, 0, 0]), /is not a CSV file: it has binary content/],
  "UTF-16": [Buffer.from("\uFEFFa,b\n1,2\n", "utf16le"), /or is UTF-16 text$/],
  "Latin-1": [Buffer.from("a,b\n1,\xe4\n", "latin1"), /is not UTF-8 text; save it as UTF-8/],
  "a character that is cut off": [Buffer.from("a,b\n1,ä").subarray(0, -1), /is not UTF-8 text/],
  "a quote inside of a plain field": ['a,b\n1,2\n3,4"\n', /, line 3: a quote stands inside of a field/],
  "text after a quoted field": ['a,b\n1,2\n"3"x,4\n', /, line 3: a quoted field goes on after its closing quote/],
  "a quote that is never closed": ['a,b\n1,"2\n3,4\n', /, line 3: the file ends inside of a quoted field$/],
  "a row that is too long": [`a,b\n1,"${"x".repeat(1_100_000)}"\n`, /, line 2: the row is longer than 1 MiB/],
  "a row that is too long as JSON": [
    `a,b\n1,2\n1,${"\u0001".repeat(200_000)}\n`,
    /, row 2: the row is longer than 1 MiB/,
  ],
};

for (const [what, [content, message]] of Object.entries(REFUSED)) {
  test(`${what} is refused`, async (t) => {
    const path = join(await makeDirectory(t), "bad.csv");
    await writeFile(path, content);
    await assert.rejects(inspectCsv(path), (error) => {
      assert.ok(error instanceof UserError);
      assert.match(error.message, message);
      assert.ok(error.message.startsWith(path));
      return true;
    });
  });
}

test("what is not a file is refused", async (t) => {
  const directory = await makeDirectory(t);
  await mkdir(join(directory, "a.csv"));
  await assert.rejects(inspectCsv(join(directory, "a.csv")), /a\.csv is a directory, not a CSV file$/);
  await assert.rejects(inspectCsv(join(directory, "none.csv")), /none\.csv does not exist$/);
  await assert.rejects(inspectCsv("/dev/null"), /is not a file$/);
});

test("a huge quoted field is read as it is", async (t) => {
  const path = join(await makeDirectory(t), "huge.csv");
  const huge = "a\n,".repeat(200_000);
  await writeFile(path, `a,b\n1,"${huge}"\n2,3\n`);
  const file = await inspectCsv(path);
  const rows = (await readAll(path, file.delimiter, file.start)).flatMap((step) => step.rows);
  assert.equal(file.rows, 2);
  assert.ok(rows[0]?.[1] === huge);
});

test("the delimiter is the one that the header has most of, outside of quotes", () => {
  assert.equal(detectDelimiter("a;b;c,d\n1,2,3,4,5"), ";");
  assert.equal(detectDelimiter('"a,b,c,d"|e\n'), "|");
  assert.equal(detectDelimiter("\r\na\tb"), "\t");
  assert.equal(detectDelimiter("alone\n1;2"), ",");
  assert.equal(detectDelimiter(""), ",");
});

test("each column gets a name of its own", () => {
  assert.deepEqual(nameColumns([" a ", "", "a", "a (2)", "__proto__", "a"]), [
    ...["a", "column 2", "a (2)", "a (2) (2)", "__proto__", "a (3)"],
  ]);
});
