import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { systemRuntime } from "../../engine/runtime.ts";
import { SqliteStore, type SqliteStoreOptions } from "../../engine/stores/sqlite/index.ts";
import { ended, insertOne, newJobs, oneOfEach, register, snapshot } from "../conformance/support.ts";
import { directoryFor, fileFor, OtherProcess, openFilesIn, openStore } from "./sqlite-support.ts";

test("wrong options are refused, all at once", async () => {
  const open = (options: unknown): Promise<unknown> => SqliteStore.open(options as SqliteStoreOptions);
  const fieldsOf = async (options: unknown): Promise<string[]> => {
    const error = await open(options).catch((reason: unknown) => reason);
    assert.ok(error instanceof Error && "code" in error && error.code === "invalid", `${error}`);
    return (error as unknown as { problems: { field: string }[] }).problems.map(({ field }) => field);
  };
  assert.deepEqual(await fieldsOf({}), ["path"]);
  assert.deepEqual(await fieldsOf({ path: "" }), ["path"]);
  assert.deepEqual(await fieldsOf({ path: "a\u0000b" }), ["path"]);
  assert.deepEqual(await fieldsOf({ path: "file:jobs.db?mode=memory" }), ["path"]);
  assert.deepEqual(await fieldsOf({ path: 1, durability: "some", runtime: {}, pth: "x" }), [
    "pth",
    "path",
    "runtime",
    "durability",
  ]);
  for (const options of [undefined, null, "jobs.db", []]) assert.ok((await fieldsOf(options)).length > 0);
});

async function refusedWith(code: string, path: string, words: RegExp): Promise<void> {
  await assert.rejects(SqliteStore.open({ path }), (error: Error & { code?: string }) => {
    assert.equal(error.code, code, error.message);
    assert.match(error.message, words);
    assert.ok(error.message.includes(path), `${path} is named in: ${error.message}`);
    return true;
  });
}

test("what can't be a database file is refused and left alone", async (t) => {
  const directory = directoryFor(t);
  await refusedWith("store_failed", directory, /is a directory/);
  await refusedWith("store_failed", join(directory, "absent", "jobs.db"), /its directory does not exist/);
  await refusedWith("store_failed", "/dev/null", /is not a file/);

  const text = join(directory, "notes.txt");
  writeFileSync(text, "These are notes. ".repeat(1_000));
  await refusedWith("store_corrupt", text, /not a database/);
  assert.equal(readFileSync(text, "utf8"), "These are notes. ".repeat(1_000));
  await refusedWith("store_failed", join(text, "jobs.db"), /its directory does not exist/);
  assert.deepEqual(openFilesIn(directory), []);
});

test("a damaged file is refused", async (t) => {
  const directory = directoryFor(t);
  const damaged = async (name: string, damage: (path: string) => void): Promise<string> => {
    const path = join(directory, name);
    const store = await SqliteStore.open({ path });
    await store.insert(newJobs(1_000));
    await store.close();
    damage(path);
    return path;
  };
  const headOnly = await damaged("head.db", (path) => {
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.fill(0xa5, 100));
  });
  await refusedWith("store_corrupt", headOnly, /malformed/);
  const cut = await damaged("cut.db", (path) => truncateSync(path, 6_000));
  await refusedWith("store_corrupt", cut, /malformed/);
  assert.deepEqual(openFilesIn(directory), []);

  // Damage that stands where opening does not look is found by the call that needs it.
  const inside = await damaged("inside.db", (path) => {
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.fill(0xa5, bytes.length - 20 * 4_096));
  });
  const store = await openStore(t, { path: inside });
  await assert.rejects(store.jobs({ state: "enqueued", limit: 500, tag: "x" }), { code: "store_corrupt" });
});

test("a file with the schema of a newer kiln is refused and not changed", async (t) => {
  const path = fileFor(t);
  await (await SqliteStore.open({ path })).close();
  const db = new DatabaseSync(path);
  db.exec("INSERT INTO kiln_migrations (number, name, applied_at) VALUES (1000, 'future', 0)");
  // Opening turns this to write-ahead logging, unless it refuses first.
  db.exec("PRAGMA journal_mode = DELETE");
  db.close();
  const before = readFileSync(path);
  await refusedWith("store_newer", path, /version 1000/);
  assert.deepEqual(readFileSync(path), before);
});

test("a file or directory that may not be written is refused", async (t) => {
  const directory = directoryFor(t);
  const path = join(directory, "jobs.db");
  await (await SqliteStore.open({ path })).close();
  const other = new OtherProcess(t);
  // The superuser may write everything.
  if (process.getuid?.() === 0) await other.request({ command: "dropPrivileges" });
  const refused = async (file: string, words: RegExp): Promise<void> => {
    await assert.rejects(other.open({ path: file }), { code: "store_read_only", message: words });
  };
  chmodSync(directory, 0o777);
  chmodSync(path, 0o444);
  await refused(path, /the file may not be written/);
  chmodSync(path, 0o666);
  chmodSync(directory, 0o555);
  await refused(path, /its directory may not be written/);
  await refused(join(directory, "new.db"), /its directory may not be written/);
  assert.equal(existsSync(join(directory, "new.db")), false);
});

test("kiln's tables can stand in the application's own database", async (t) => {
  const path = fileFor(t);
  const db = new DatabaseSync(path);
  t.after(() => db.close());
  db.exec("CREATE TABLE jobs (id INTEGER PRIMARY KEY); CREATE TABLE servers (x); INSERT INTO jobs VALUES (7)");
  const store = await openStore(t, { path });
  await insertOne(store);
  assert.deepEqual({ ...db.prepare("SELECT * FROM jobs").get() }, { id: 7 });
  assert.equal((await store.counts()).enqueued, 1);
});

test("everything is there again after a restart", async (t) => {
  for (const durability of ["full", "normal"] as const) {
    const path = fileFor(t);
    const first = await SqliteStore.open({ path, durability });
    await register(first);
    await oneOfEach(first, { tags: ["a"], meta: { b: "c" }, title: "d" });
    await first.pauseQueue("paused");
    const before = await snapshot(first);
    await first.close();
    const second = await openStore(t, { path, durability });
    assert.deepEqual(await snapshot(second), before);
  }
});

test("ids are not used again, not even after all jobs are gone and the file was closed", async (t) => {
  const path = fileFor(t);
  const first = await SqliteStore.open({ path });
  await register(first);
  const id = await ended(first, "succeeded");
  await first.prune({ succeeded: 0, deleted: 0, failed: 0, servers: 1e12, stats: 1e12, limit: 10 });
  assert.equal(await first.job(id), null);
  await first.close();
  const second = await openStore(t, { path });
  assert.ok((await insertOne(second)) > id);
});

test("a symbolic link is followed, so that the log is watched where it is", async (t) => {
  const directory = directoryFor(t);
  mkdirSync(join(directory, "real"));
  symlinkSync(join(directory, "real", "jobs.db"), join(directory, "link.db"));
  const real = await openStore(t, { path: join(directory, "real", "jobs.db") });
  const linked = await openStore(t, { path: join(directory, "link.db") });
  const ready = new Promise<void>((resolve) => linked.subscribe(({ type }) => type === "ready" && resolve()));
  await systemRuntime.turn();
  await insertOne(real);
  await ready;
  assert.equal((await linked.counts()).enqueued, 1);
});

test("processes that open a new file at the same moment all succeed", async (t) => {
  const path = fileFor(t);
  const others = [1, 2, 3, 4].map(() => new OtherProcess(t));
  // All have started before the first opens.
  await Promise.all(others.map((other) => other.request({ command: "freeFiles" })));
  for (const round of [1, 2, 3]) {
    const file = `${path}-${round}`;
    await Promise.all(others.map((other) => other.open({ path: file })));
    await Promise.all(others.map((other) => other.call("insert", newJobs(10))));
    const store = await SqliteStore.open({ path: file });
    assert.equal((await store.counts()).enqueued, 40);
    await store.close();
    await Promise.all(others.map((other) => other.call("close")));
  }
  assertMigratedOnce(t, `${path}-1`);
});

function assertMigratedOnce(t: TestContext, path: string): void {
  const db = new DatabaseSync(path);
  t.after(() => db.close());
  const rows = db.prepare("SELECT number, name FROM kiln_migrations ORDER BY rowid").all();
  assert.deepEqual({ ...rows[0] }, { number: 1, name: "spine" });
  assert.deepEqual(
    rows.map(({ number }) => number),
    rows.map((_, index) => index + 1),
  );
  assert.equal(new Set(rows.map(({ name }) => name)).size, rows.length);
}

test("a database in memory belongs to one store and ends with it", async (t) => {
  const first = await openStore(t, { path: ":memory:" });
  const second = await openStore(t, { path: ":memory:" });
  assert.deepEqual(first.capabilities, { durable: false, crossProcessEvents: false });
  await insertOne(first);
  assert.equal((await second.counts()).enqueued, 0);
  assert.equal(existsSync(":memory:"), false);
});

test("closing leaves no file open and is fine twice", async (t) => {
  const directory = directoryFor(t);
  const store = await SqliteStore.open({ path: join(directory, "jobs.db") });
  store.subscribe(() => {});
  await systemRuntime.turn();
  await store.insert(newJobs(3));
  if (existsSync("/proc/self/fd")) assert.notDeepEqual(openFilesIn(directory), []);
  await store.close();
  await store.close();
  assert.deepEqual(openFilesIn(directory), []);
  assert.equal(existsSync(join(directory, "jobs.db-wal")), false, "the log is written back");
});
