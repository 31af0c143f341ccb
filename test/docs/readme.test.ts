/** README.md shows programs: this runs them as they stand there. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, test } from "node:test";

const ROOT = join(import.meta.dirname, "../..");

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), "kiln-readme-"));
  await mkdir(join(dir, "node_modules"));
  await symlink(ROOT, join(dir, "node_modules/kiln"));
  await writeFile(join(dir, "package.json"), '{ "type": "module" }');
});
after(() => rm(dir, { recursive: true, force: true }));

test("the program in README.md runs its jobs and drains at SIGTERM", async () => {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const program = /^```ts\n(.*?)^```$/ms.exec(readme)?.[1] ?? assert.fail("README.md shows no program");
  await writeFile(join(dir, "program.ts"), program);

  const child = spawn(process.execPath, ["--conditions=kiln-source", "program.ts"], { cwd: dir, timeout: 20_000 });
  let stdout = "";
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk;
  });
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk;
    if (stdout.split("\n").length > 2) child.kill("SIGTERM");
  });
  const [code, signal] = await new Promise<unknown[]>((resolve) => child.on("close", (...ended) => resolve(ended)));

  assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: "" });
  assert.equal(stdout, "mail to ada@example.com, attempt 1 of 12\nmail to grace@example.com, attempt 1 of 12\n");
});

test("the tests in README.md pass", async () => {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const [, program] =
    /^## Testing your jobs$.*?^```ts\n(.*?)^```$/ms.exec(readme) ?? assert.fail("README.md shows no tests");
  assert.ok(program);
  await writeFile(join(dir, "jobs.test.ts"), program);
  const args = ["--conditions=kiln-source", "jobs.test.ts"];
  // Not as a test file of this run, but by itself.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, args, { cwd: dir, timeout: 20_000, env });
  let stdout = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk;
  });
  const code = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(code, 0, stdout);
  assert.match(stdout, /^(ℹ|#) pass 2$/m);
});

test("the kinds of jobs in README.md can be enqueued as they are shown", async () => {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const [, program] =
    /^## Kinds of jobs$.*?^```ts\n(.*?)^```$/ms.exec(readme) ?? assert.fail("README.md shows no kinds of jobs");
  assert.ok(program);
  await writeFile(join(dir, "kinds.ts"), program);
  const child = spawn(process.execPath, ["--conditions=kiln-source", "kinds.ts"], { cwd: dir, timeout: 20_000 });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output += chunk;
    });
  }
  const code = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(code, 0, output);
  assert.equal(output, "3 invoices\n{ scheduled: 2, enqueued: 6, awaiting: 2, throttled: 1 }\n");
});

test("the transaction in README.md leaves the order and its job", async () => {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const [, program] =
    /^## In your own transaction$.*?^```ts\n(.*?)^```$/ms.exec(readme) ?? assert.fail("README.md shows no transaction");
  assert.ok(program);
  await writeFile(join(dir, "transaction.ts"), program);
  const child = spawn(process.execPath, ["--conditions=kiln-source", "transaction.ts"], { cwd: dir, timeout: 20_000 });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output += chunk;
    });
  }
  const code = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(code, 0, output);
  assert.match(output, /^ {2}enqueued: 1,$/m);
  const db = new DatabaseSync(join(dir, "shop.db"));
  assert.deepEqual(
    db
      .prepare("SELECT total FROM orders")
      .all()
      .map(({ total }) => total),
    [1200],
  );
  db.close();
});

test("the simulation in docs/simulator.md finds the charge that is made twice", async () => {
  const document = await readFile(join(ROOT, "docs/simulator.md"), "utf8");
  const program = /^```ts\n(.*?)^```$/ms.exec(document)?.[1] ?? assert.fail("docs/simulator.md shows no simulation");
  await writeFile(join(dir, "simulation.test.ts"), program);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = ["--conditions=kiln-source", "simulation.test.ts"];
  const child = spawn(process.execPath, args, { cwd: dir, timeout: 60_000, env });
  let stdout = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk;
  });
  assert.equal(await new Promise((resolve) => child.on("close", resolve)), 1, stdout);
  assert.match(stdout, /order \d was charged 2 times \(seed \d+\)/);
  assert.match(stdout, /FAULT /);
  assert.match(stdout, /charged order \d/);
});
