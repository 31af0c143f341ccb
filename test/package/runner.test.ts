/** `npm test` succeeds only when tests ran and all of them passed. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { after, before, test } from "node:test";
import { launch, ROOT } from "./launch.ts";

const FILES = {
  passes: 'import { test } from "node:test"; test("fine", () => {});',
  fails: 'import { test } from "node:test"; test("bad", () => { throw new Error("no"); });',
  empty: "export const nothing: null = null;",
  throws: "const bad: string = 'no'; throw new Error(bad);",
  loops: 'import { test } from "node:test"; test("fine", () => {}); test("loops", () => { for (;;); });',
};

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), "kiln-runner-"));
  for (const [name, text] of Object.entries(FILES)) await writeFile(join(dir, `${name}.test.ts`), text);
});
after(() => rm(dir, { recursive: true, force: true }));

const path = (name: string): string => relative(ROOT, join(dir, `${name}.test.ts`));
const run = (...names: string[]) => launch(["scripts/test.ts", ...names.map(path)]);

test("tests that pass", async () => {
  const { code, stdout, stderr } = await run("passes");
  assert.equal(code, 0, stderr);
  assert.match(stdout, /tests 1\n.*pass 1\n.*fail 0\n/s);
});

test("a test that fails", async () => {
  const { code, stdout } = await run("passes", "fails");
  assert.equal(code, 1);
  assert.match(stdout, /pass 1\n.*fail 1\n/s);
});

test("a file that can't be loaded", async () => {
  assert.equal((await run("passes", "throws")).code, 1);
});

test("a file without a test", async () => {
  const { code, stderr } = await run("passes", "empty");
  assert.equal(code, 1);
  assert.match(stderr, /^npm test: \S*empty\.test\.ts has no test\n$/);
});

test("no test at all", async () => {
  for (const name of ["matches-nothing-*", "empty"]) {
    const { code, stderr } = await run(name);
    assert.equal(code, 1);
    assert.match(stderr, /^npm test: no test ran\n/);
  }
});

test("a test that never ends", async () => {
  const { code, stdout, stderr } = await launch(["scripts/test.ts", "--timeout=1", path("loops")]);
  assert.equal(code, 1);
  assert.match(stdout, /fail 1\n/);
  assert.equal(stderr, `npm test: ${path("loops")} did not end within 1 s\n`);
});
