/**
 * The rules in biome.json that keep clocks, timers and randomness out of everything but engine/runtime.ts: each thing
 * that is forbidden is planted in a file of its own, in a copy of the configuration, and must be reported there.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";

const ROOT = join(import.meta.dirname, "../..");

const FORBIDDEN = [
  "export const it = Date.now();",
  'export const it = Date["now"]();',
  "export const it = Date.now;",
  "export const { now } = Date;",
  "export const it = new Date();",
  "export const it = new Date;",
  "export const it = Date();",
  "export const It = Date;",
  "export const it = new Date(Date.now());",
  "export const it = performance.now();",
  "export const it = globalThis.performance.now();",
  "export const it = global.setTimeout(() => {}, 1);",
  "setTimeout(() => {}, 1);",
  "setInterval(() => {}, 1);",
  "setImmediate(() => {});",
  "queueMicrotask(() => {});",
  "process.nextTick(() => {});",
  "export const it = process.hrtime.bigint();",
  'process.on("SIGTERM", () => {});',
  "export const it = Math.random();",
  "export const { random } = Math;",
  "export const it = crypto.randomUUID();",
  "export const it = crypto.getRandomValues(new Uint8Array(4));",
  'import { randomUUID } from "node:crypto";\nexport const it = randomUUID();',
  'import { randomBytes as bytes } from "node:crypto";\nexport const it = bytes(4);',
  'import * as everything from "node:crypto";\nexport const it = everything.randomInt(4);',
  'import whole from "node:crypto";\nexport const it = whole.randomInt(4);',
  "export const it = AbortSignal.timeout(1);",
  "export const it = () => Promise.race([]);",
  "export const it = () => Promise.any([]);",
  "export const P = Promise;",
  "export const it = new WeakRef({});",
  "export const it = new FinalizationRegistry(() => {});",
  "export const it = (flag: Int32Array) => Atomics.wait(flag, 0, 0, 9);",
  'import { setTimeout as sleep } from "node:timers/promises";\nexport const it = sleep(1);',
  'export const it = () => import("node:timers/promises");',
  'import { setInterval as every } from "node:timers";\nexport const it = every(() => {}, 1);',
  'import { performance as clock } from "node:perf_hooks";\nexport const it = clock.now();',
  'import { Worker } from "node:worker_threads";\nexport const it = new Worker("x");',
  'import { hrtime } from "node:process";\nexport const it = hrtime();',
  'import { uptime } from "node:os";\nexport const it = uptime();',
];

const ALLOWED = [
  "// Date.now(), setTimeout(), Math.random()",
  'export const text = "new Date() and process.nextTick()";',
  "export const made = [new Date(5), Date.UTC(2026, 0), Date.parse(text), Math.floor(1.5), text instanceof Date];",
  "export const all = () => Promise.all([Promise.resolve(1), Promise.allSettled([])]);",
  "export const any = AbortSignal.any([AbortSignal.abort()]);",
  "export interface Clock { now(): number; random(): number; setTimeout(ms: number): void }",
  "export function use(clock: Clock, performance: Clock, when: Date | null) {",
  "  clock.setTimeout(performance.now() + clock.random());",
  "  return when;",
  "}",
  'import { createHash } from "node:crypto";',
  'export const hash = createHash("sha256");',
];

const FLOATING = "async function save() {}\nexport function forget() {\n  save();\n}";

/** Paths and lines, for example `engine/a.ts:2`, with the rule that was broken there. */
let reports: Map<string, string>;
let dir: string;

before(async () => {
  dir = await mkdtemp(join(tmpdir(), "kiln-environment-"));
  await cp(join(ROOT, "biome.json"), join(dir, "biome.json"));
  for (const name of await readdir(join(ROOT, "scripts")))
    if (name.endsWith(".grit")) await put(`scripts/${name}`, await readFile(join(ROOT, "scripts", name), "utf8"));
  for (const [i, code] of FORBIDDEN.entries()) await put(`engine/deep/forbidden-${i}.ts`, code);
  for (const folder of ["kilnotel", "sim"]) await put(`${folder}/clock.ts`, "export const it = Date.now();");
  for (const place of ["engine/runtime", "test/engine/clock", "examples/clock"])
    await put(`${place}.ts`, FORBIDDEN.join("\n"));
  await put("engine/allowed.ts", ALLOWED.join("\n"));
  await put("engine/floating.ts", FLOATING);
  reports = await lint(dir);
});

after(() => rm(dir, { recursive: true, force: true }));

for (const [i, code] of FORBIDDEN.entries())
  test(`reports ${code.split("\n").at(0)}`, () => {
    const found = [...reports].filter(([place]) => place.startsWith(`engine/deep/forbidden-${i}.ts:`));
    assert.notDeepEqual(found, [], `nothing is reported for:\n${code}`);
    for (const [, rule] of found) assert.match(rule, /^(plugin|noRestricted\w+|noJsRestricted\w+)$/);
  });

test("covers all parts that a simulator runs, and nothing else", () => {
  assert.ok(reports.has("kilnotel/clock.ts:1"));
  assert.ok(reports.has("sim/clock.ts:1"));
  const outside = [...reports].filter(([place]) => /^(engine\/runtime|test|examples)/.test(place));
  assert.deepEqual(
    outside.filter(([, rule]) => /plugin|Restricted/.test(rule)),
    [],
  );
});

test("comments, strings, types and what takes its time from outside are left alone", () => {
  assert.deepEqual(
    [...reports].filter(([place]) => place.startsWith("engine/allowed.ts")),
    [],
  );
});

test("a promise that nobody awaits is reported", () => {
  assert.equal(reports.get("engine/floating.ts:3"), "noFloatingPromises");
});

test("the engine silences no check", async () => {
  const silencers = /biome-ignore|@ts-ignore|@ts-expect-error|@ts-nocheck/;
  for (const folder of ["engine", "kilnotel", "sim"]) {
    const names = await readdir(join(ROOT, folder), { recursive: true }).catch(() => []);
    for (const name of names.filter((name) => name.endsWith(".ts")))
      assert.doesNotMatch(await readFile(join(ROOT, folder, name), "utf8"), silencers, `${folder}/${name}`);
  }
});

async function put(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(dir, path)), { recursive: true });
  await writeFile(join(dir, path), text);
}

/** What `biome lint` reports in `cwd`; its concise lines read `× path:line:column: category: text`. */
function lint(cwd: string): Promise<Map<string, string>> {
  const biome = join(ROOT, "node_modules/@biomejs/biome/bin/biome");
  const args = ["lint", "--reporter=concise", "--max-diagnostics=none"];
  return new Promise((resolve) => {
    execFile(process.execPath, [biome, ...args], { cwd }, (_, stdout, stderr) => {
      const found = new Map<string, string>();
      for (const [, place = "", category = ""] of `${stdout}${stderr}`.matchAll(/^\S (\S+:\d+):\d+: ([\w/]+)/gm))
        found.set(place, category.split("/").at(-1) ?? "");
      resolve(found);
    });
  });
}
