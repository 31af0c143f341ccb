/** `npm run bench -- SUITE [--json FILE] [--check]`: measures, and compares with the targets. */
import { closeSync, openSync } from "node:fs";
import { parseArgs } from "node:util";
import { missed, type Report, toTable, writeJson } from "./report.ts";

const SUITES: Readonly<Record<string, () => Promise<Report>>> = {
  sqlite: async () => (await import("./sqlite.ts")).run(),
  limits: async () => (await import("./limits.ts")).run(),
  sim: async () => (await import("./sim.ts")).run(),
};

const USAGE = `usage: npm run bench -- SUITE [--json FILE] [--check]

Measures a suite and prints a row for each measure: name, value, unit, target, met.

suites:       ${Object.keys(SUITES).join(", ")}
--json FILE   writes the rows and what they were measured on to FILE
--check       exits with 1 when a target is missed
--help        prints this
`;

interface Arguments {
  readonly suite: () => Promise<Report>;
  readonly json: string | undefined;
  readonly check: boolean;
}

/** Null: only help is wanted. @throws Error in words for whoever typed them */
function readArguments(args: readonly string[]): Arguments | null {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { json: { type: "string" }, check: { type: "boolean" }, help: { type: "boolean" } },
  });
  if (values.help) return null;
  const known = Object.keys(SUITES).join(", ");
  if (positionals.length !== 1) throw new Error(`name one suite of: ${known}`);
  const [name = ""] = positionals;
  const suite = Object.hasOwn(SUITES, name) ? SUITES[name] : undefined;
  if (suite === undefined) throw new Error(`unknown suite ${JSON.stringify(name)}; there is: ${known}`);
  if (values.json !== undefined) checkWritable(values.json);
  return { suite, json: values.json, check: values.check ?? false };
}

/** Before anything is measured, which takes long. */
function checkWritable(file: string): void {
  if (file === "") throw new Error("--json needs the name of a file");
  try {
    closeSync(openSync(file, "a"));
  } catch (error) {
    throw new Error(`can't write ${file}: ${(error as Error).message}`);
  }
}

async function main(): Promise<void> {
  let args: Arguments | null;
  try {
    args = readArguments(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`bench: ${(error as Error).message}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  if (args === null) {
    process.stdout.write(USAGE);
    return;
  }
  const report = await args.suite();
  process.stdout.write(toTable(report.rows));
  if (args.json !== undefined) writeJson(args.json, report);
  const misses = missed(report.rows);
  if (!args.check || misses.length === 0) return;
  process.stderr.write(`bench: missed ${misses.map(({ name }) => name).join(", ")}\n`);
  process.exitCode = 1;
}

await main();
