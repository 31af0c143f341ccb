import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync, StatementSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { systemRuntime } from "../../engine/runtime.ts";
import type { StoreEvent } from "../../engine/store.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { claim, claimIds, insertOne, MINUTE, newJob, newJobs, refused, register } from "../conformance/support.ts";
import { directoryFor, fileFor, OtherProcess, openFilesIn, openStore, until } from "./sqlite-support.ts";

/** A connection of the application's to the store's file. */
function openDatabase(t: TestContext, path: string): DatabaseSync {
  const db = new DatabaseSync(path);
  t.after(() => db.isOpen && db.close());
  return db;
}

const ORDERS = `CREATE TABLE customers (id INTEGER PRIMARY KEY);
  CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers DEFERRABLE INITIALLY DEFERRED)`;
const countOf = (db: DatabaseSync, table: string): unknown =>
  db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.["n"];
const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn += 1) await systemRuntime.turn();
};

test("rows of the application and jobs are there together, or neither is", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  const db = openDatabase(t, path);
  db.exec(ORDERS);
  await store.transaction(async (tx) => {
    tx.db.exec("INSERT INTO orders VALUES (1, NULL)");
    await tx.insert([newJob()]);
    assert.equal(countOf(tx.db, "kiln_jobs"), 1, "its own statements see the job");
    assert.deepEqual([countOf(db, "orders"), countOf(db, "kiln_jobs")], [0, 0], "nobody else sees anything");
    assert.equal((await store.counts()).enqueued, 0);
  });
  assert.deepEqual([countOf(db, "orders"), (await store.counts()).enqueued], [1, 1]);

  const refusal = store.transaction(async (tx) => {
    await tx.insert([newJob()]);
    tx.db.exec("INSERT INTO orders VALUES (2, NULL), (1, NULL)");
  });
  await assert.rejects(refusal, { code: "ERR_SQLITE_ERROR", errcode: 1555 }, "the driver's error as it was thrown");
  assert.deepEqual([countOf(db, "orders"), (await store.counts()).enqueued], [1, 1]);

  // Constraints hold as on any connection of node:sqlite; these are checked by the commit.
  const dangling = store.transaction(async (tx) => {
    await tx.insert([newJob()]);
    tx.db.exec("INSERT INTO orders VALUES (3, 99)");
  });
  await assert.rejects(dangling, { code: "store_failed", message: /FOREIGN KEY/ });
  assert.deepEqual([countOf(db, "orders"), (await store.counts()).enqueued], [1, 1]);
});

test("a call that fails half way leaves nothing of itself, by whatever it fails", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  const db = openDatabase(t, path);
  db.exec(
    `CREATE TRIGGER refuse BEFORE INSERT ON kiln_jobs WHEN new.kind = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END`,
  );
  const half = [newJob(), newJob({ kind: "bad" })];
  await store.transaction(async (tx) => {
    await tx.insert([newJob({ kind: "first" })]);
    await assert.rejects(tx.insert(half), { code: "store_failed", message: /no/ });
    await tx.insert([newJob({ kind: "last" })]);
  });
  db.exec("BEGIN IMMEDIATE");
  await assert.rejects(store.within(db).insert(half), { code: "store_failed" });
  db.exec("COMMIT");
  const kinds = db.prepare("SELECT kind FROM kiln_jobs ORDER BY id").all();
  assert.deepEqual(
    kinds.map(({ kind }) => kind),
    ["first", "last"],
  );
});

test("while a transaction is open servers go on reading, and what writes waits in order", async (t) => {
  const path = fileFor(t);
  // In time that never passes: nothing of this may need a timer.
  const store = await openStore(t, { path, runtime: new VirtualTime().runtime() });
  await register(store);
  await insertOne(store);
  const order: string[] = [];
  const note = (what: string) => (): void => void order.push(what);
  let release = (): void => {};
  const open = store.transaction(() => new Promise<void>((resolve) => (release = resolve))).then(note("first"));
  await turns(5);
  assert.deepEqual(await claim(store, { kinds: ["absent"] }), []);
  assert.equal((await store.counts()).enqueued, 1);
  const calls = [
    store.pauseQueue("a").then(note("pause")),
    store.transaction((tx) => tx.insert([newJob()])).then(note("second")),
    store.heartbeat({ server: "s1", running: 0 }).then(note("heartbeat")),
    store.transaction(() => {}).then(note("third")),
    store.insert([newJob()]).then(note("insert")),
  ];
  await turns(5);
  assert.deepEqual(order, []);
  release();
  await Promise.all([open, ...calls]);
  assert.deepEqual([...order].sort(), ["first", "heartbeat", "insert", "pause", "second", "third"]);
  const writes = order.filter((what) => what !== "first");
  assert.deepEqual(writes, ["pause", "second", "heartbeat", "third", "insert"], "nobody is starved by transactions");
});

test("a transaction that ends itself is told so, and the next one works", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  const db = openDatabase(t, path);
  const count = (): unknown => countOf(db, "kiln_jobs");
  for (const [statement, left] of [
    ["ROLLBACK", 0],
    ["ROLLBACK; BEGIN", 0],
    ["COMMIT", 1],
    ["COMMIT; BEGIN", 1],
  ] as const) {
    const ended = store.transaction(async (tx) => {
      await tx.insert([newJob()]);
      tx.db.exec(statement);
      // No longer in the transaction: it must not be committed by itself.
      if (!tx.db.isTransaction) await assert.rejects(tx.insert([newJob()]), { code: "conflict" }, statement);
    });
    await assert.rejects(ended, { code: "conflict", message: /ended by its own work/ }, statement);
    assert.equal(count(), left, statement);
    await store.transaction(() => {});
    db.exec("DELETE FROM kiln_jobs");
  }
  await assert.rejects(
    store.transaction((tx) => tx.db.close()),
    { code: "conflict" },
  );
  await store.transaction((tx) => tx.insert([newJob()]));
  assert.equal(count(), 1);
});

test("what a transaction has not read to its end does not keep the next one from writing", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  const kept: unknown[] = [];
  await store.transaction(async (tx) => {
    await tx.insert(newJobs(3));
    const rows = tx.db.prepare("SELECT id FROM kiln_jobs").iterate();
    rows.next();
    kept.push(rows);
  });
  // What it has seen is no longer the latest.
  await insertOne(store);
  await store.transaction((tx) => tx.insert([newJob()]));
  assert.equal((await store.counts()).enqueued, 5);
});

test("closing rolls an open transaction back and lets go of the file", async (t) => {
  const directory = directoryFor(t);
  const path = join(directory, "jobs.db");
  const store = await openStore(t, { path });
  const open = store.transaction(async (tx) => {
    await tx.insert([newJob()]);
    tx.db.exec("CREATE TABLE orders (id)");
    await new Promise(() => {});
  });
  const refusal = assert.rejects(open, { code: "store_closed" });
  await turns(5);
  await store.close();
  await refusal;
  assert.deepEqual(openFilesIn(directory), []);
  const db = openDatabase(t, path);
  db.exec("BEGIN IMMEDIATE");
  assert.equal(countOf(db, "kiln_jobs"), 0);
  assert.equal(db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'orders'").get(), undefined);
});

test("a process that is killed in the middle of a transaction leaves nothing of it", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  const child = fork(join(import.meta.dirname, "sqlite-transaction-child.ts"), [path], { execArgv: [] });
  t.after(() => child.kill("SIGKILL"));
  assert.deepEqual(await once(child, "message"), [{ jobs: 1_000 }, undefined]);
  const waiting = store.insert([newJob()]);
  child.kill("SIGKILL");
  await once(child, "exit");
  await waiting;
  const db = openDatabase(t, path);
  assert.deepEqual([countOf(db, "kiln_jobs"), countOf(db, "kiln_unique_keys")], [1, 0]);
  assert.equal(db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'orders'").get(), undefined);
});

test("a transaction of the application's wakes the servers of every process by its commit alone", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  const mine: StoreEvent[] = [];
  store.subscribe((event) => mine.push(event));
  const other = new OtherProcess(t);
  await other.open({ path });
  await other.request({ command: "subscribe" });
  await until(() => mine.length + other.events.length === 2, "both connected");
  const db = openDatabase(t, path);
  const isReady = ({ type }: StoreEvent): boolean => type === "ready";
  db.exec("BEGIN IMMEDIATE");
  await store.within(db).insert([newJob()]);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual([...mine, ...other.events].filter(isReady), [], "nothing before");
  db.exec("COMMIT");
  await until(() => mine.some(isReady) && other.events.some(isReady), "woken");
  assert.ok((await other.call("counts")).value);

  // And one that the store opens.
  for (const events of [mine, other.events]) events.length = 0;
  await store.transaction((tx) => tx.insert([newJob({ queue: "mail" })]));
  await until(() => mine.some(isReady) && other.events.some(isReady), "woken again");
  assert.deepEqual(
    mine.find(isReady),
    { type: "ready", queue: "mail", delay: 0 },
    "this process at once, by its queue",
  );
});

test("notify wakes this process at once, with the delay that is left, and says each thing once", async (t) => {
  const path = fileFor(t);
  const time = new VirtualTime();
  const store = await openStore(t, { path, runtime: time.runtime() });
  const events: StoreEvent[] = [];
  store.subscribe((event) => events.push(event));
  const db = openDatabase(t, path);
  const writer = store.within(db);
  db.exec("BEGIN IMMEDIATE");
  await writer.insert([newJob({ queue: "a", delay: 10 * MINUTE }), newJob({ queue: "b", delay: MINUTE })]);
  await time.advance(2 * MINUTE);
  await store.within(db).insert([newJob({ queue: "a", delay: MINUTE })]);
  await writer.insert([newJob({ queue: "a", delay: 5 * MINUTE })]);
  db.exec("COMMIT");
  await turns(5);
  events.length = 0;
  writer.notify();
  writer.notify();
  await turns(1);
  assert.deepEqual(
    events.filter((event) => event.type === "ready" && event.queue !== null),
    [
      { type: "ready", queue: "a", delay: MINUTE },
      { type: "ready", queue: "b", delay: 0 },
    ],
  );
});

test("a job that is committed late is not missed, whoever was committed in between", async (t) => {
  const path = fileFor(t);
  const [store, other] = [await openStore(t, { path }), await openStore(t, { path })];
  await register(store);
  const db = openDatabase(t, path);
  db.exec("BEGIN IMMEDIATE");
  const [late] = await store.within(db).insert([newJob()]);
  // Ids are taken under the write lock, so that a higher one can't be committed before.
  const beside = [insertOne(other), store.transaction((tx) => tx.insert([newJob()]))];
  const seen: number[] = [];
  for (let look = 0; look < 20; look += 1) {
    await new Promise((resolve) => setTimeout(resolve, 2));
    seen.push(...(await claimIds(store, { kinds: ["absent"] })), (await other.counts()).enqueued);
  }
  assert.deepEqual(new Set(seen), new Set([0]), "nothing is visible before");
  db.exec("COMMIT");
  await Promise.all(beside);
  const ids = await claimIds(store);
  assert.deepEqual([ids[0], ids.length], [late?.id, 3]);

  // What is rolled back gives its ids back, with nothing that holds them.
  db.exec("BEGIN IMMEDIATE");
  const [gone] = await store.within(db).insert([newJob()]);
  db.exec("ROLLBACK");
  const next = await insertOne(store);
  assert.equal(next, gone?.id);
  assert.deepEqual(await claimIds(store), [next]);
});

test("only an open transaction on the store's file can be written within", async (t) => {
  const directory = directoryFor(t);
  const path = join(directory, "jobs.db");
  const store = await openStore(t, { path });
  const closed = new DatabaseSync(path);
  closed.close();
  const bad = [
    null,
    undefined,
    {},
    path,
    closed,
    openDatabase(t, join(directory, "other.db")),
    openDatabase(t, ":memory:"),
  ];
  for (const db of bad) await refused((async () => store.within(db as DatabaseSync))(), "db");
  const inMemory = await openStore(t, { path: ":memory:" });
  await refused((async () => inMemory.within(openDatabase(t, path)))(), "db");

  symlinkSync(directory, join(directory, "link"));
  const db = openDatabase(t, join(directory, "link", "jobs.db"));
  const writer = store.within(db);
  await assert.rejects(writer.insert([newJob()]), { code: "conflict", message: /no transaction is open/ });
  await assert.rejects(writer.setParams({ id: 1, claim: 1 }, {}), { code: "conflict" });
  assert.equal(db.isTransaction, false, "and none is opened by the way");

  // One that has read before others wrote can't become a writer.
  db.exec("BEGIN");
  assert.equal(countOf(db, "kiln_jobs"), 0);
  await insertOne(store);
  await assert.rejects(writer.insert([newJob()]), { code: "store_busy" });
  db.exec("ROLLBACK; BEGIN IMMEDIATE");
  await writer.insert([newJob()]);
  db.exec("COMMIT");
  assert.equal((await store.counts()).enqueued, 2);
  db.close();
  await assert.rejects(writer.insert([newJob()]), { code: "conflict", message: /closed/ });
  writer.notify();
  await store.close();
  await assert.rejects(writer.insert([newJob()]), { code: "store_closed" });
  assert.throws(() => store.within(openDatabase(t, path)), { code: "store_closed" });
});

test("another process's lock makes a transaction wait, then fail, without its work being called", async (t) => {
  const path = fileFor(t);
  const time = new VirtualTime();
  const store = await openStore(t, { path, runtime: time.runtime() });
  const db = openDatabase(t, path);
  db.exec("BEGIN IMMEDIATE");
  let calls = 0;
  const work = (): void => {
    calls += 1;
  };
  const failing = store.transaction(work);
  await assert.rejects(time.settled(failing, 20_000), { code: "store_busy", retryable: true });
  const waiting = store.transaction(work);
  await time.advance(100);
  assert.equal(calls, 0);
  db.exec("COMMIT");
  await time.settled(waiting, 1_000);
  assert.deepEqual([calls, time.armed], [1, 0]);
});

test("a transaction costs 4 statements beside those of its calls, and each call 2 more than by itself", async (t) => {
  const store = await SqliteStore.open({ path: fileFor(t), durability: "normal" });
  t.after(() => store.close());
  const methods = (["run", "get", "all"] as const).map((name) => t.mock.method(StatementSync.prototype, name));
  const during = async (work: () => Promise<unknown>): Promise<number> => {
    const count = (): number => methods.reduce((sum, { mock }) => sum + mock.callCount(), 0);
    const before = count();
    await work();
    return count() - before;
  };
  await store.transaction(() => {});
  // By itself it has BEGIN and COMMIT.
  const insert = (await during(() => store.insert(newJobs(3)))) - 2;
  assert.equal(await during(() => store.transaction(() => {})), 4);
  const calls = await during(() =>
    store.transaction(async (tx) => {
      await tx.insert(newJobs(3));
      await tx.insert(newJobs(3));
    }),
  );
  assert.equal(calls, 4 + 2 * (insert + 2));
});
