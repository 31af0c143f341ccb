/** The command line of the benchmarks. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

const MAIN = join(import.meta.dirname, "../../bench/main.ts");

function bench(...args: readonly string[]): {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
} {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--conditions=kiln-source", MAIN, ...args], {
    encoding: "utf8",
    timeout: 20_000,
  });
  return { code: status, stdout, stderr };
}

test("--help says how to use it", () => {
  const { code, stdout, stderr } = bench("--help");
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.match(
    stdout,
    /^usage: npm run bench -- SUITE \[--json FILE\] \[--check\]\n.*^suites: +sqlite, limits, sim$/ms,
  );
});

for (const { args, message } of [
  { args: [], message: /^bench: name one suite of: sqlite, limits, sim\n/ },
  { args: ["sqlite", "sqlite"], message: /^bench: name one suite of: sqlite, limits, sim\n/ },
  { args: ["oracle"], message: /^bench: unknown suite "oracle"; there is: sqlite, limits, sim\n/ },
  { args: ["toString"], message: /^bench: unknown suite "toString"/ },
  { args: ["sqlite", "--fast"], message: /^bench: Unknown option '--fast'/ },
  { args: ["sqlite", "--json"], message: /^bench: Option '--json <value>' argument missing/ },
  { args: ["sqlite", "--json="], message: /^bench: --json needs the name of a file\n/ },
  { args: ["sqlite", "--json", "/absent/file"], message: /^bench: can't write \/absent\/file: ENOENT/ },
]) {
  test(`refuses ${JSON.stringify(args.join(" "))}`, () => {
    const { code, stdout, stderr } = bench(...args);
    assert.deepEqual({ code, stdout }, { code: 2, stdout: "" });
    assert.match(stderr, message);
    assert.match(stderr, /\n\nusage: npm run bench/);
  });
}
