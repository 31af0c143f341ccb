/** Files that an older kiln has made and used: opened by this one, all their jobs are there and run. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { LEDGER, MIGRATIONS } from "../../engine/stores/sqlite/schema.ts";
import { claim, outcome, register } from "../conformance/support.ts";
import { fileFor, openStore } from "./sqlite-support.ts";

/** A file as it was after the first `count` migrations, with a job in each state that there was from the start. */
function olderFile(path: string, count: number): void {
  const db = new DatabaseSync(path);
  db.exec(LEDGER);
  for (const [index, { name, sql }] of MIGRATIONS.slice(0, count).entries()) {
    db.exec(sql);
    db.prepare("INSERT INTO kiln_migrations (number, name, applied_at) VALUES (?, ?, 1)").run(index + 1, name);
  }
  db.exec(`
    INSERT INTO kiln_jobs (id, state, kind, queue, priority, run_at, max_attempts, created_at, args) VALUES
      (1, 'enqueued', 'task', 'default', 0, 1, 5, 1, '{"n":1}'),
      (2, 'scheduled', 'task', 'default', 0, 2, 5, 1, '{"n":2}');
    INSERT INTO kiln_jobs (id, state, kind, queue, priority, run_at, max_attempts, created_at, args, finalized_at)
      VALUES (3, 'failed', 'task', 'default', 0, 1, 5, 1, '{"n":3}', 5);
    INSERT INTO kiln_archive
      (id, state, kind, queue, priority, run_at, attempt, max_attempts, claim, created_at, finalized_at, args)
      VALUES (4, 'succeeded', 'task', 'default', 0, 1, 1, 5, 1, 1, 5, '{"n":4}');
    UPDATE kiln_sequences SET value = 4 WHERE name = 'jobs'`);
  db.close();
}

for (let count = 1; count < MIGRATIONS.length; count++) {
  test(`a file of ${count} migrations (up to "${MIGRATIONS[count - 1]?.name}") is brought up to date with its jobs`, async (t) => {
    const path = fileFor(t);
    olderFile(path, count);
    const store = await openStore(t, { path });
    await register(store, "s1");
    assert.equal(await store.requeue({ ids: [3, 4] }), 2);
    const jobs = await claim(store, { server: "s1", limit: 10 });
    assert.deepEqual(jobs.map(({ id, args }) => [id, args]).sort(), [
      [1, '{"n":1}'],
      [2, '{"n":2}'],
      [3, '{"n":3}'],
      [4, '{"n":4}'],
    ]);
    await store.finish(
      "s1",
      jobs.map((job) => outcome(job, "succeeded")),
    );
    for (const { id } of jobs) {
      const job = await store.job(id);
      assert.deepEqual([job?.state, job?.parents, job?.limitKey, job?.progress], ["succeeded", [], null, null]);
    }
  });
}
