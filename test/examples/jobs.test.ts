import assert from "node:assert/strict";
import { rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { collectEvidence, judge, verdictLine } from "../../examples/import/check.ts";
import { inspectCsv, readSteps } from "../../examples/import/csv.ts";
import { type Database, openDatabase, TABLES } from "../../examples/import/database.ts";
import { importFile, importRow } from "../../examples/import/jobs.ts";
import { fileFailures, type Progress, readProgress } from "../../examples/import/progress.ts";
import { makeServer } from "../../examples/import/server.ts";
import type { Import } from "../../examples/import/storage.ts";
import { removeDatabase } from "../../examples/shared/database.ts";
import { UserError } from "../../examples/shared/problem.ts";
import { noteDeaths } from "../../examples/shared/workers.ts";
import { customers, makeDirectory } from "./support.ts";

interface Started {
  readonly path: string;
  readonly database: Database;
  readonly file: Import;
}

/** An import of `content` that has not begun. */
async function prepare(t: TestContext, content: string): Promise<Started> {
  const directory = await makeDirectory(t);
  const path = join(directory, "any.csv");
  await writeFile(path, content);
  const database = await openDatabase(join(directory, "import.sqlite"));
  t.after(() => database.close());
  return { path, database, file: await database.storage.addImport(await inspectCsv(path)) };
}

/** Runs all jobs in this process. */
async function drain({ store, storage, client }: Database): Promise<Progress> {
  const problems: string[] = [];
  const worker = await storage.addWorker(process.pid);
  const server = makeServer({ store, storage, worker, concurrency: 100, onProblem: (text) => problems.push(text) });
  const stop = new AbortController();
  const running = server.run({ signal: stop.signal });
  let progress = await readProgress(client, storage);
  while (!progress.drained) {
    await sleep(20);
    progress = await readProgress(client, storage);
  }
  stop.abort();
  await running;
  // A machine that stalls for a quarter of a second is no problem of the import.
  assert.deepEqual(
    problems.filter((text) => !text.includes("event loop was blocked")),
    [],
  );
  return progress;
}

async function verdictOf({ database, file }: Started): Promise<string> {
  const verdict = judge(await collectEvidence(database.client, database.storage, file));
  return [verdictLine(verdict), ...verdict.problems].join("\n");
}

test("a step that was enqueued before the process was killed is enqueued again, and each of its rows is run by one job", async (t) => {
  const started = await prepare(t, `${customers(130)}C-1,,,,,\n`);
  const { client, storage } = started.database;
  const { id: importId, path, delimiter, start } = started.file;
  // What a process leaves that is killed before it has saved its checkpoint.
  const first = await readSteps(path, delimiter, start).next();
  const { rows } = first.done ? assert.fail("there is no step") : first.value;
  await client.enqueueMany(rows.map((fields, at) => importRow.spec({ importId, row: at + 1, fields: [...fields] })));
  await client.enqueue(importFile, { importId });
  // Killed between enqueueing this and writing it down.
  await client.enqueue(importFile, { importId });

  const progress = await drain(started.database);

  assert.equal(progress.jobs.succeeded, 2 + 130 + 100);
  assert.deepEqual(
    { read: progress.read, stored: progress.stored, refused: progress.refused },
    {
      ...{ read: 131, stored: 130, refused: 1 },
    },
  );
  assert.equal(await verdictOf(started), "rows=131 succeeded=130 failed=1 lost=0 overlapped=0 stored=130");
  assert.deepEqual(
    storage.storedRows(importId),
    Array.from({ length: 130 }, (_, index) => index + 1),
  );
  const [reason] = progress.failures;
  assert.match(
    reason ?? "",
    /^row 131: customer id C-1 is not of the form C-000123; name is missing; e-mail address is/,
  );
});

test("the reading of a file says how far it is", async (t) => {
  const { database, file } = await prepare(t, customers(250));
  const id = await database.client.enqueue(importFile, { importId: file.id });
  await drain(database);
  assert.equal((await database.client.get(id))?.progress, 100);
  const texts = (await database.client.console(id)).map(({ text }) => text);
  assert.deepEqual(texts, [
    "enqueued rows 1 to 100 of 250",
    "enqueued rows 101 to 200 of 250",
    "enqueued rows 201 to 250 of 250",
  ]);
});

test("text of the file that is shown can't control the terminal", async (t) => {
  const started = await prepare(t, `${customers(1)}C-000009,Ada,\u001b[2J\u0007\u202e@x,GB,2024-01-01,1\n`);
  await started.database.client.enqueue(importFile, { importId: started.file.id });
  const { failures } = await drain(started.database);
  assert.deepEqual(failures, ["row 2: e-mail address  [2J @x is not valid"]);
});

test("a file that was changed is not read on, and one that is back again is", async (t) => {
  const started = await prepare(t, customers(3));
  const { client } = started.database;
  await client.enqueue(importFile, { importId: started.file.id });
  await writeFile(started.path, customers(4));
  await drain(started.database);
  assert.deepEqual(await fileFailures(client), ["any.csv was changed after its import had begun, at row 0 of 3"]);

  await rm(started.path);
  await client.requeue({ state: "failed", kind: importFile.kind });
  await drain(started.database);
  assert.deepEqual(await fileFailures(client), [`${started.path} does not exist`]);

  await writeFile(started.path, customers(3));
  assert.match(await verdictOf(started), /^rows=3 succeeded=0 failed=0 lost=3 /);
  const written = new Date(started.file.modified);
  await utimes(started.path, written, written);
  await client.requeue({ state: "failed", kind: importFile.kind });
  await drain(started.database);
  assert.equal(await verdictOf(started), "rows=3 succeeded=3 failed=0 lost=0 overlapped=0 stored=3");
});

test("a file with the same content is the same import, wherever it is", async (t) => {
  const { path, database, file } = await prepare(t, customers(2));
  const copy = `${path}.copy`;
  await writeFile(copy, customers(2));
  const again = await database.storage.addImport(await inspectCsv(copy));
  assert.deepEqual({ id: again.id, path: again.path }, { id: file.id, path: copy });
  await writeFile(copy, customers(3));
  const other = await database.storage.addImport(await inspectCsv(copy));
  assert.notEqual(other.id, file.id);
});

test("the death of a process is written down by the next one, unless it is alive", async (t) => {
  const { database, file } = await prepare(t, customers(1));
  const { storage } = database;
  const living = await storage.addWorker(process.ppid);
  await storage.addWorker(process.pid);
  // No process can have this number.
  const dead = await storage.addWorker(2 ** 30);
  assert.equal(await noteDeaths(storage), 2);
  assert.equal(await noteDeaths(storage), 0);
  assert.deepEqual(
    storage.workers().map(({ id }) => id),
    [living],
  );
  assert.deepEqual([...storage.runLog(file.id)].at(-1), { event: "death", worker: dead, importId: 0, row: 0 });
});

test("--reset removes only a database of this program that nobody uses", async (t) => {
  const directory = await makeDirectory(t);
  const path = join(directory, "a.sqlite");
  await removeDatabase(path, TABLES);
  await writeFile(path, "precious");
  const refused = (message: RegExp) => (error: unknown) => error instanceof UserError && message.test(error.message);
  await assert.rejects(removeDatabase(path, TABLES), refused(/is not a database of this program; it was not removed$/));
  await rm(path);

  const database = await openDatabase(path);
  await database.storage.addWorker(process.ppid);
  await database.close();
  await assert.rejects(removeDatabase(path, TABLES), refused(new RegExp(`is in use by process ${process.ppid}`)));

  const again = await openDatabase(path);
  for (const { id } of again.storage.workers()) await again.storage.noteDeath(id);
  await again.close();
  await removeDatabase(path, TABLES);
  const fresh = await openDatabase(path);
  assert.deepEqual(fresh.storage.imports(), []);
  await fresh.close();
});
