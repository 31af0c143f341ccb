/** Deleting a running job stops its handler in well under a second, without the help of polls and heartbeats. */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "../../engine/client.ts";
import { CancelledError } from "../../engine/errors.ts";
import type { JobId } from "../../engine/store.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { until } from "../chaos/fleet.ts";
import { sharedNow } from "../chaos/log.ts";
import { endless, RARELY, type Said } from "./cancel-child.ts";
import { SECOND, STORES, World } from "./support.ts";

const JOBS = 10;

for (const [name, open] of Object.entries(STORES)) {
  test(`${name}: a job is cancelled on whichever server of the process it runs`, async () => {
    const world = await World.make([], open);
    const reasons = new Map<JobId, unknown>();
    const handler = endless.handler(async ({ id }, { signal }) => {
      await world.work(3_600 * SECOND, signal).catch(() => {});
      reasons.set(id, signal.reason);
      signal.throwIfAborted();
    });
    const processes = [1, 2].map(() => world.start([handler], { ...RARELY, queues: { default: JOBS / 2 } }));
    const jobs = await world.client.enqueueMany(Array.from({ length: JOBS }, () => endless.spec({})));
    await world.time.advance(SECOND);
    assert.equal((await world.store.counts()).processing, JOBS);

    const first = jobs[0]?.id ?? assert.fail();
    assert.equal(await world.client.delete(first), 1);
    await world.reach(first, "deleted", SECOND);
    assert.deepEqual([...reasons.keys()], [first], "no other is stopped");
    assert.equal(await world.client.delete({ state: "processing" }), JOBS - 1);
    await world.time.advance(SECOND);
    assert.equal((await world.store.counts()).deleted, JOBS);
    assert.ok([...reasons.values()].every((reason) => reason instanceof CancelledError));
    const cancelled = processes.map(({ server }) => server.stats().cancelled);
    assert.deepEqual(cancelled, [JOBS / 2, JOBS / 2]);
    for (const process of processes) await process.stop();
    await world.store.close();
  });
}

test("SQLite: a job that runs in another process is cancelled in under a second", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "kiln-cancel-"));
  const path = join(directory, "kiln.db");
  const store = await SqliteStore.open({ path });
  const client = new Client(store);
  const child = fork(join(import.meta.dirname, "cancel-child.ts"), [path], { execArgv: ["--conditions=kiln-source"] });
  const running = new Set<JobId>();
  const aborted = new Map<JobId, Said & { readonly type: "aborted" }>();
  const ended = new Promise((resolve) => child.once("exit", (code) => resolve(code)));
  child.on("message", (said: Said) => {
    if (said.type === "running") running.add(said.id);
    else aborted.set(said.id, said);
  });
  try {
    const jobs = await client.enqueueMany(Array.from({ length: JOBS }, () => endless.spec({})));
    const ids = jobs.map(({ id }) => id);
    await until(async () => running.size === JOBS, 10 * SECOND);
    const took: number[] = [];
    const cancel = async (some: readonly JobId[], call: () => Promise<number>): Promise<void> => {
      const deletedAt = sharedNow();
      assert.equal(await call(), some.length);
      await until(async () => (await states(client, some)).every((state) => state === "deleted"), 10 * SECOND);
      assert.ok(
        some.every((id) => aborted.get(id)?.cancelled),
        "by a CancelledError",
      );
      took.push(...some.map((id) => (aborted.get(id)?.at ?? Number.POSITIVE_INFINITY) - deletedAt));
    };
    // One after the other, then all that are left.
    for (const id of ids.slice(0, JOBS / 2)) await cancel([id], () => client.delete(id));
    assert.equal(aborted.size, JOBS / 2, "no other is stopped");
    await cancel(ids.slice(JOBS / 2), () => client.delete({ state: "processing" }));

    const slowest = Math.max(...took);
    t.diagnostic(`the slowest of ${JOBS} took ${slowest.toFixed(1)} ms`);
    assert.ok(slowest < SECOND, `${slowest} ms`);
    for (const id of ids) assert.equal((await client.get(id))?.history.at(-1)?.reason, "cancelled");
    child.kill("SIGTERM");
    assert.equal(await ended, 0, "the server stops in order");
  } finally {
    child.kill("SIGKILL");
    await ended;
    await store.close();
    await rm(directory, { recursive: true, force: true });
  }
});

async function states(client: Client, ids: readonly JobId[]): Promise<(string | undefined)[]> {
  return Promise.all(ids.map(async (id) => (await client.get(id))?.state));
}
