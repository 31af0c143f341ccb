/**
 * `npm test [-- [--timeout=SECONDS] FILE-OR-GLOB...]`: runs the tests with Node's own runner and fails when a test fails,
 * when a file has no test in it, and when nothing ran at all; the runner itself takes the last two for success.
 */
import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { parseArgs } from "node:util";

/** For one file: far more than any needs, so that one that hangs is named and ends. */
const DEFAULT_TIMEOUT = "120";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { timeout: { type: "string", default: DEFAULT_TIMEOUT } },
});
const timeout = Number(values.timeout);
if (!(timeout > 0)) throw new Error(`--timeout takes seconds, got ${values.timeout}`);

/** Names of files that registered no test. */
const empty: string[] = [];

// The runner's own time limit asks a file to end, which one that is stuck in a loop never hears.
subscribe("child_process", (message) => {
  const { process: child } = message as { readonly process: ChildProcess };
  const kill = setTimeout(() => {
    fail(`${child.spawnargs.at(-1)} did not end within ${timeout} s`);
    child.kill("SIGKILL");
  }, timeout * 1_000);
  child.once("exit", () => clearTimeout(kill));
});

const events = run({
  globPatterns: positionals.length > 0 ? positionals : ["test/**/*.test.ts"],
  concurrency: availableParallelism(),
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
