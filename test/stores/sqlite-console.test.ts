import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { claimOne, end, HOUR, register, running } from "../conformance/support.ts";
import { fileFor, openStore } from "./sqlite-support.ts";

test("a job with very many lines is pruned bit by bit, and nothing of any job is left", async (t) => {
  const path = fileFor(t);
  const time = new VirtualTime();
  const runtime = time.runtime();
  const store = await openStore(t, { path, durability: "normal", runtime });
  await register(store);
  const lines = Array.from({ length: 1_001 }, (_, n) => `line ${n}`);
  for (let n = 0; n < 12; n++) {
    const job = await running(store);
    await store.writeConsole(job, { lines, progress: 1 });
    await end(store, job, n % 2 === 0 ? "succeeded" : "failed");
  }
  await time.advance(HOUR);
  const live = await running(store);
  await store.writeConsole(live, { lines: ["live"], progress: 2 });

  const db = new DatabaseSync(path);
  t.after(() => db.close());
  const count = (table: string): unknown => db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.["n"];
  assert.deepEqual([count("kiln_console"), count("kiln_progress")], [12 * 1_001 + 1, 13]);
  const turns = t.mock.method(runtime, "turn");
  assert.equal(await store.prune({ succeeded: 0, deleted: 0, failed: 0, servers: HOUR, stats: HOUR, limit: 100 }), 12);
  assert.equal(turns.mock.callCount(), 2, "of each state there are more lines than one transaction removes");
  assert.deepEqual([count("kiln_console"), count("kiln_progress")], [1, 1]);
  assert.equal((await store.job(live.id))?.progress, 2);
});

test("without the claim check, an old claim writes to the console of a newer run", async (t) => {
  const runtime = new VirtualTime().runtime({ buggify: ["store.no-claim-check"] });
  const store = await openStore(t, { path: ":memory:", runtime });
  await register(store);
  const first = await running(store);
  await end(store, first, "enqueued");
  await assert.rejects(store.writeConsole(first, { lines: ["a"], progress: 1 }), { code: "claim_lost" });
  await claimOne(store, { queues: [first.queue] });
  await store.writeConsole(first, { lines: ["a"], progress: 1 });
  assert.equal((await store.consoleLines({ id: first.id })).length, 1);
});
