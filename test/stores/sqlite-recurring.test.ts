import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { Client } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import { recurringOf } from "../conformance/recurring.ts";
import { newJob } from "../conformance/support.ts";
import { fileFor, openStore, until } from "./sqlite-support.ts";

test("of two stores on one file only one fires", async (t) => {
  const path = fileFor(t);
  const stores = [await openStore(t, { path }), await openStore(t, { path })];
  const [store] = stores;
  const version = await store?.putRecurring(recurringOf());
  const firing = { id: "a", version: version ?? 0, nextRunAt: null, lastRunAt: null, jobs: [newJob()] };
  const fires = await Promise.allSettled(stores.flatMap((each) => [1, 2, 3, 4].map(() => each.fireRecurring(firing))));
  assert.equal(fires.filter(({ status }) => status === "fulfilled").length, 1);
  for (const fire of fires) if (fire.status === "rejected") assert.equal(fire.reason.code, "conflict");
  assert.equal((await store?.counts())?.enqueued, 1);
});

test("rows damaged by hand: what can't be read is refused by the file, what can't run is put off and shown", async (t) => {
  const path = fileFor(t);
  const store = await openStore(t, { path });
  const client = new Client(store);
  const tick = defineJob<{ n: number }>("tick");
  for (const id of ["args", "good", "zone"]) await client.setRecurring(id, tick, { n: 1 }, { cron: "@every 1s" });
  const db = new DatabaseSync(path);
  t.after(() => db.close());
  assert.throws(() => db.exec("UPDATE kiln_recurring SET template = '{' WHERE id = 'args'"), /CHECK constraint/);
  db.exec("UPDATE kiln_recurring SET template = json_set(template, '$.args', '{') WHERE id = 'args'");
  db.exec("UPDATE kiln_recurring SET time_zone = 'Mars/Olympus', cron = '* * * * *' WHERE id = 'zone'");
  db.exec("UPDATE kiln_recurring SET next_run_at = 1000");
  const shown = await client.recurring();
  assert.deepEqual(
    shown.map(({ id, args }) => [id, args]),
    [
      ["args", undefined],
      ["good", { n: 1 }],
      ["zone", { n: 1 }],
    ],
  );
  const ran: (string | null)[] = [];
  const server = new Server(store, {
    queues: { default: 1 },
    handlers: [tick.handler((job) => void ran.push(job.recurringId))],
  });
  const stop = new AbortController();
  const running = server.run({ signal: stop.signal });
  await until(() => ran.length > 1, "the good one runs");
  stop.abort();
  await running;
  assert.deepEqual([...new Set(ran)], ["good"]);
  for (const id of ["args", "zone"]) {
    const row = await store.recurringJob(id);
    assert.ok(Number(row?.nextRunAt) > (await store.now()).getTime() + 30_000, `${id} is put off`);
  }
});
