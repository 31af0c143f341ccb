/** What is published: packed, installed into an empty project without any database driver, and used from there. */
import assert from "node:assert/strict";
import { type ExecFileOptions, execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { after, before, test } from "node:test";
import { ROOT } from "./launch.ts";

const PROGRAM = `
import { Client, defineJob, Server } from "kiln";
import { MemoryStore } from "kiln/memory";
import { SqliteStore } from "kiln/sqlite";

const double = defineJob("double");
for (const store of [await MemoryStore.open(), await SqliteStore.open({ path: "jobs.db" })]) {
  const client = new Client(store);
  const id = await client.enqueue(double, { of: 21 });
  const stop = new AbortController();
  const handler = double.handler((job) => job.args.of * 2);
  const server = new Server(store, { handlers: [handler], queues: { default: 2 } });
  const running = server.run({ signal: stop.signal });
  while ((await client.get(id)).state !== "succeeded") await new Promise((resolve) => setTimeout(resolve, 5));
  stop.abort();
  await running;
  console.log((await client.get(id)).output);
  await store.close();
}
`;

const SIMULATED = `
import { defineJob } from "kiln";
import { simulate } from "kiln/sim";

const double = defineJob("double");
for (const store of ["memory", "sqlite"]) {
  const { runs } = await simulate({
    state: () => ({ doubled: 0 }),
    handlers: ({ state, sleep }) => [
      double.handler(async () => {
        await sleep("1s");
        state.doubled += 1;
      }),
    ],
    workload: async ({ client }) => void (await client.enqueue(double, {})),
    check: ({ doubled }) => {
      if (doubled === 0) throw new Error("the job did not run");
    },
    runs: 3,
    store,
  });
  console.log(runs);
}
`;

const TYPED = `
import { Client, defineJob, exponential, type Job, Server, type ServerConfig, type Store, VERSION } from "kiln";
import * as conformance from "kiln/conformance";
import { MemoryStore } from "kiln/memory";
import { type SimulationReport, simulate } from "kiln/sim";
import { SqliteStore } from "kiln/sqlite";
import { VirtualTime } from "kiln/testing";

export const time: number = new VirtualTime().now;
export const suite: object = conformance;
export const version: string = VERSION;

const greet = defineJob<{ name: string }>("greet", { backoff: exponential("1s", "1m") });
const handler = greet.handler(async (job: Job<{ name: string }>, { signal }) => {
  signal.throwIfAborted();
  return job.args.name.length;
});
const config: ServerConfig = { handlers: [handler], queues: { default: 2 } };

export async function main(store: Store): Promise<void> {
  const id: number = await new Client(store).enqueue(greet, { name: "Ada" });
  // @ts-expect-error: the args have no such field
  await new Client(store).enqueue(greet, { nmae: "Ada" });
  await new Server(store, config).runUntilSignal();
  console.log(id);
}
export const simulated: Promise<SimulationReport> = simulate({
  state: () => new Map<string, number>(),
  handlers: ({ state }) => [greet.handler((job) => state.set(job.args.name, 1).size)],
  workload: async ({ client, sleep }) => {
    await sleep("1s");
    await client.enqueue(greet, { name: "Ada" });
  },
  check: (greeted) => greeted.size,
});
export const stores: Promise<Store>[] = [MemoryStore.open(), SqliteStore.open({ path: "jobs.db" })];
`;

const STRICT = {
  target: "es2024",
  lib: ["es2024"],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  verbatimModuleSyntax: true,
  skipLibCheck: false,
  noEmit: true,
  typeRoots: [join(ROOT, "node_modules/@types")],
  types: ["node"],
};

let dir: string;
let project: string;
let installed: string;
let packed: string[];

before(async () => {
  dir = await mkdtemp(join(tmpdir(), "kiln-pack-"));
  project = join(dir, "project");
  installed = join(project, "node_modules/kiln");
  await put("package.json", JSON.stringify({ name: "empty", private: true, type: "module" }));
  const report = await run("npm", ["pack", "--json", "--pack-destination", dir], { cwd: ROOT });
  const [{ filename, files }] = JSON.parse(report.slice(report.indexOf("[\n")));
  packed = files.map(({ path }: { path: string }) => path);
  await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", join(dir, filename)]);
});
after(() => rm(dir, { recursive: true, force: true }));

test("the tarball holds what was built, its sources, and nothing else", async () => {
  const allowed = [
    /^(package\.json|README\.md|CHANGELOG\.md|LICENSE)$/,
    /^dist\/(engine|sim|test\/conformance)\/[\w/-]+\.(js|d\.ts)(\.map)?$/,
    /^(engine|sim|test\/conformance)\/[\w/-]+\.ts$/,
  ];
  assert.deepEqual(
    packed.filter((path) => !allowed.some((pattern) => pattern.test(path))),
    [],
  );
  for (const map of packed.filter((path) => path.endsWith(".map"))) {
    const { sources } = JSON.parse(await readFile(join(installed, map), "utf8"));
    for (const source of sources)
      assert.ok(packed.includes(posix.join(posix.dirname(map), source)), `${map}: ${source}`);
  }
});

test("what was built has no trace of how the repository runs its sources", async () => {
  for (const path of packed.filter((path) => /^dist\/.*\.(js|d\.ts)$/.test(path))) {
    const text = await readFile(join(installed, path), "utf8");
    assert.doesNotMatch(text, /kiln-source/, path);
    if (path.endsWith(".js")) assert.doesNotMatch(text, /(from|import\() ?"\.[^"]*\.ts"/, path);
  }
});

test("it brings nothing but its three dependencies", async () => {
  const names = (await readdir(join(project, "node_modules"))).filter((name) => !name.startsWith("."));
  assert.deepEqual(names.sort(), ["@standard-schema", "croner", "kiln", "ms"]);
});

test("its version is that of package.json", async () => {
  const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  assert.equal(await node('import { VERSION } from "kiln"; console.log(VERSION)'), `${version}\n`);
});

test("JavaScript runs a job on memory and on SQLite", async () => {
  assert.equal(await node(PROGRAM), "42\n42\n");
});

test("JavaScript simulates a job on memory and on SQLite", async () => {
  assert.equal(await node(SIMULATED), "3\n3\n");
});

test("every entry point can be imported", async () => {
  const { exports } = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
  const names = Object.keys(exports).filter((name) => name !== "./package.json");
  for (const name of names) {
    const program = `const all = await import("${posix.join("kiln", name)}"); console.log(Object.keys(all).length > 0)`;
    assert.equal(await node(program), "true\n", name);
  }
});

for (const [moduleResolution, module] of [
  ["nodenext", "nodenext"],
  ["bundler", "esnext"],
]) {
  test(`TypeScript compiles against it, moduleResolution ${moduleResolution}`, async () => {
    const compilerOptions = { ...STRICT, module, moduleResolution };
    await put("typed.ts", TYPED);
    await put(`${moduleResolution}.json`, JSON.stringify({ compilerOptions, files: ["typed.ts"] }));
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    assert.equal(await run(process.execPath, [tsc, "-p", `${moduleResolution}.json`]), "");
  });
}

async function put(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(project, path)), { recursive: true });
  await writeFile(join(project, path), text);
}

async function node(program: string): Promise<string> {
  await put("program.js", program);
  return run(process.execPath, ["program.js"]);
}

/** What the command prints. @throws Error, with all that it printed, when it fails. */
function run(command: string, args: readonly string[], options: ExecFileOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(command, args, { cwd: project, encoding: "utf8", ...options }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${command} ${args.join(" ")}\n${stdout}${stderr}`));
      else resolve(String(stdout));
    });
  });
}
