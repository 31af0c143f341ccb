/**
 * Three processes work off the backlogs of three limited keys in one SQLite file while one of them is killed and another
 * takes its place. Each run is written down with instants of a clock that all processes share.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "../../engine/client.ts";
import type { JobId, JobRecord } from "../../engine/store.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { countRows, Fleet, until } from "./fleet.ts";
import { capped, LIMITED_WORK, rated, ratedAndCapped } from "./jobs.ts";
import { type Key, limitsVerdict } from "./limits-verdict.ts";
import { type Expected, verdict } from "./verdict.ts";

/** Backlogs last longer than the rescue of what the kill left, which comes after about 7 s. */
const SECONDS = 8;
/** Milliseconds for everything to end; far more than it takes. */
const DRAIN_LIMIT = 60_000;

const KEYS = [rated, capped, ratedAndCapped].map((definition) => {
  const limit = definition.options.limit ?? assert.fail();
  const key: Key = { name: definition.kind, ...limit, work: LIMITED_WORK };
  const byMax = limit.max === 0 ? Number.POSITIVE_INFINITY : (limit.max * 1_000) / LIMITED_WORK;
  const perSecond = Math.min(byMax, limit.rate === 0 ? Number.POSITIVE_INFINITY : limit.rate);
  return { definition, key, count: Math.round(perSecond * SECONDS) };
});

/** The machine may be busy with other things, at 20 times its processors 65 % were seen; the simulator is exact about it. */
const LEAST_USED = 0.5;

test("three processes keep to limits through kill -9, lose nothing and use what is allowed", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "kiln-limits-"));
  const database = join(directory, "kiln.db");
  const store = await SqliteStore.open({ path: database });
  const client = new Client(store);
  const fleet = new Fleet(directory, database);
  try {
    const expected: Expected[] = [];
    for (const { definition, count } of KEYS) {
      const jobs = await client.enqueueMany(Array.from({ length: count }, () => definition.spec({})));
      expected.push(...jobs.map(({ id }) => ({ id, kind: definition.kind, state: "succeeded" as const })));
    }
    await fleet.start(3);
    await fleet.replaceOne("SIGKILL");
    await until(async () => (await store.counts()).succeeded === expected.length, DRAIN_LIMIT);
    await fleet.stop();

    const records = new Map<JobId, JobRecord>();
    for (const { id } of expected) records.set(id, (await store.job(id)) ?? assert.fail(`job ${id} is lost`));
    const { runs, cutOff } = fleet;
    const problems = verdict({ expected, records, runs, cutOff, rows: countRows(database) });
    assert.deepEqual(problems, [], fleet.output);
    assert.ok(
      runs.some(({ how }) => how === "killed"),
      "the killed process had jobs in hand",
    );

    for (const { key } of KEYS) {
      const ids = new Set(expected.filter(({ kind }) => kind === key.name).map(({ id }) => id));
      const own = [...records.values()].filter(({ id, attempt }) => ids.has(id) && attempt === 1);
      const admitted = own.map(({ attemptedAt }) => attemptedAt?.getTime() ?? assert.fail());
      const found = limitsVerdict(
        key,
        runs.filter(({ id }) => ids.has(id)),
        admitted,
        LEAST_USED,
      );
      const used = `${Math.round(found.used * 100)} % used`;
      const starts = key.rate > 0 ? `${found.busiest} starts in ${key.per} ms, ` : "";
      t.diagnostic(`${key.name}: ${starts}${found.running} at once, ${used}`);
      assert.deepEqual(found.problems, [], fleet.output);
    }
  } finally {
    await fleet.kill();
    await store.close();
    await rm(directory, { recursive: true, force: true });
  }
});
