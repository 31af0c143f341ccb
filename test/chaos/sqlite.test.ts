/**
 * Two processes work on one SQLite file while one after the other is killed and replaced. `ROUNDS` says how often
 * (default 3): `ROUNDS=200 npm test -- --timeout=1800 test/chaos/sqlite.test.ts` takes about ten minutes.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { Client } from "../../engine/client.ts";
import type { JobId, JobRecord } from "../../engine/store.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { countRows, Fleet, until } from "./fleet.ts";
import { Load } from "./load.ts";
import { verdict } from "./verdict.ts";

const ROUNDS = Number(process.env["ROUNDS"] ?? 3);
/** Before every so many rounds, from the first on, a worker is told to stop in order. */
const ORDERLY = 5;
/** Before every so many rounds there is time for the rescue of what was left so far, which takes about 7 s. */
const RESCUED = 4;
const RESCUE_PAUSE = 8_500;
/** Milliseconds for everything to end; far more than it takes. */
const DRAIN_LIMIT = 90_000;

test(`two processes survive ${ROUNDS} rounds of kill -9`, async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "kiln-chaos-"));
  const database = join(directory, "kiln.db");
  const store = await SqliteStore.open({ path: database });
  const load = new Load(new Client(store));
  const fleet = new Fleet(directory, database);
  try {
    await load.start();
    await fleet.start(2);
    for (let round = 0; round < ROUNDS; round += 1) {
      if (round % ORDERLY === 0) await fleet.replaceOne("SIGTERM");
      if (round % RESCUED === RESCUED - 1) await setTimeout(RESCUE_PAUSE);
      await fleet.replaceOne("SIGKILL");
    }
    await fleet.busy();
    const expected = await load.stop();
    await until(async () => (await unfinished(store)) === 0, DRAIN_LIMIT);
    await fleet.stop();

    const records = new Map<JobId, JobRecord>();
    for (const { id } of expected) {
      const record = await store.job(id);
      if (record) records.set(id, record);
    }
    const { runs, cutOff } = fleet;
    const problems = verdict({ expected, records, runs, cutOff, rows: countRows(database) });
    assert.deepEqual(problems, [], fleet.output);

    const counts = await store.counts();
    assert.equal(counts.succeeded, expected.filter(({ state }) => state === "succeeded").length);
    assert.equal(counts.failed, expected.filter(({ state }) => state === "failed").length);
    const ends = Object.entries(Object.groupBy(runs, ({ how }) => how)).map(([how, list]) => `${list.length} ${how}`);
    t.diagnostic(`${expected.length} jobs, ${runs.length} runs: ${ends.join(", ")}`);
  } finally {
    await load.stop();
    await fleet.kill();
    await store.close();
    await rm(directory, { recursive: true, force: true });
  }
});

async function unfinished(store: SqliteStore): Promise<number> {
  const { scheduled, enqueued, processing } = await store.counts();
  return scheduled + enqueued + processing;
}
