/** scripts/launch.mjs stands before every program of this repository: it must not change how one behaves. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { after, before, test } from "node:test";
import { launch, ROOT } from "./launch.ts";

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), "kiln-launch-"));
});
after(() => rm(dir, { recursive: true, force: true }));

async function program(text: string): Promise<string> {
  const path = join(dir, "program.ts");
  await writeFile(path, text);
  return relative(ROOT, path);
}

test("a program gets its arguments, and its exit code is the launcher's", async () => {
  const path = await program(`
    const args: string[] = process.argv.slice(2);
    console.log(args.join("|"));
    process.exitCode = 7;
  `);
  const { code, stdout } = await launch([path, "--once", "a b"]);
  assert.deepEqual({ code, stdout }, { code: 7, stdout: "--once|a b\n" });
});

test("an error that nobody catches ends the program with its stack and 1", async () => {
  const path = await program(`
    const what: string = "broken";
    throw new Error(what);
  `);
  const { code, stderr } = await launch([path]);
  assert.equal(code, 1);
  assert.match(stderr, /Error: broken\n +at .*program\.ts:3/);
});

test("a signal reaches the program itself", async () => {
  const path = await program(`
    const alive: NodeJS.Timeout = setInterval(() => {}, 1000);
    process.once("SIGTERM", () => {
      clearInterval(alive);
      console.log("drained");
      process.exitCode = 3;
    });
    console.log("ready");
  `);
  const { code, signal, stdout } = await launch([path], { kill: "SIGTERM" });
  assert.deepEqual({ code, signal, stdout }, { code: 3, signal: null, stdout: "ready\ndrained\n" });
});

test("a program without a handler dies of the signal", async () => {
  const path = await program(`
    const ms: number = 1000;
    setInterval(() => {}, ms);
    console.log("ready");
  `);
  const { code, signal } = await launch([path], { kill: "SIGINT" });
  assert.deepEqual({ code, signal }, { code: null, signal: "SIGINT" });
});

// A Node without type stripping is what the launcher has to notice, whatever its version says.
test("a Node that can't run TypeScript is told so in one line", async () => {
  const path = await program("const ran: boolean = true; console.log(ran);");
  const { code, stdout, stderr } = await launch([path], { flags: ["--no-experimental-strip-types"] });
  assert.deepEqual({ code, stdout }, { code: 1, stdout: "" });
  assert.equal(stderr, `kiln needs Node >= 22.18, this is Node ${process.versions.node}\n`);
});

test("without a program it says what to give", async () => {
  const { code, stderr } = await launch([]);
  assert.equal(code, 1);
  assert.match(stderr, /^usage: .*launch\.mjs FILE/);
});
