/**
 * `npm test [-- FILE-OR-GLOB...]`: runs the tests with Node's own runner and fails when a test fails, when a file has
 * no test in it, and when nothing ran at all; the runner itself takes the last two for success.
 */
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";

/** Milliseconds for one file: far more than any needs, so that one that hangs is named and ends the run. */
const FILE_TIMEOUT = 120_000;

const patterns = process.argv.slice(2);
const empty: string[] = [];

const events = run({
  globPatterns: patterns.length > 0 ? patterns : ["test/**/*.test.ts"],
  concurrency: availableParallelism(),
  timeout: FILE_TIMEOUT,
});
// A file without tests is reported as one passing test that has the file's name.
events.on("test:pass", ({ name, file }) => {
  if (file !== undefined && resolve(name) === file) empty.push(name);
});
events.on("test:summary", ({ file, success, counts }) => {
  if (file !== undefined) return;
  if (!success) process.exitCode = 1;
  if (counts.tests === empty.length) fail("no test ran");
  for (const name of empty) fail(`${name} has no test`);
});
events.compose(spec).pipe(process.stdout);

function fail(what: string): void {
  console.error(`npm test: ${what}`);
  process.exitCode = 1;
}
