/** Runs `tsc` over `right.ts` and the programs in `wrong/`: it must find exactly the errors that their comments announce. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

const WRONG = join(import.meta.dirname, "wrong");
const TSC = join(createRequire(import.meta.url).resolve("typescript/package.json"), "..", "bin", "tsc");

/** Errors as `file:line TSnnnn`, each once. */
function announced(): string[] {
  const files = readdirSync(WRONG).filter((file) => file.endsWith(".ts"));
  return files.flatMap((file) => {
    const lines = readFileSync(join(WRONG, file), "utf8").split("\n");
    return lines.flatMap((line, index) => {
      const code = / \/\/ error: (TS\d+)$/.exec(line)?.[1];
      return code === undefined ? [] : [`${file}:${index + 1} ${code}`];
    });
  });
}

function found(): string[] {
  const { stdout } = spawnSync(process.execPath, [TSC, "-p", WRONG, "--pretty", "false"], {
    encoding: "utf8",
    cwd: WRONG,
  });
  const errors = [...stdout.matchAll(/^(?<file>(\.\.\/)?[\w-]+\.ts)\((?<line>\d+),\d+\): error (?<code>TS\d+)/gm)];
  return [...new Set(errors.map(({ groups }) => `${groups?.["file"]}:${groups?.["line"]} ${groups?.["code"]}`))];
}

test("right programs compile and wrong ones do not", () => {
  const expected = announced();
  assert.ok(expected.length > 50);
  assert.deepEqual(found().sort(), expected.sort());
});
