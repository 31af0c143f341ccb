/** Jobs with a limit that wait for other jobs, or are unique. */
import assert from "node:assert/strict";
import type { NewJob, Store } from "../../engine/store.ts";
import { KEEP } from "./dependencies-support.ts";
import { atOnce } from "./limits-support.ts";
import {
  at,
  claim,
  claimIds,
  claimOne,
  claimReply,
  end,
  type Group,
  HOUR,
  idsOf,
  insertMany,
  insertOne,
  newJob,
  newJobs,
  only,
  record,
  register,
  running,
  SECOND,
  stateOf,
} from "./support.ts";

const KEY = "a".repeat(32);

const uniqueJob = (onConflict: "keep" | "replace" | "debounce", fields: Partial<NewJob> = {}): NewJob =>
  newJob({ unique: { key: KEY, window: null, onConflict }, limit: atOnce(1), ...fields });

async function limitOf(store: Store, key: string): Promise<{ max: number; active: number; throttled: number } | null> {
  const found = (await store.limits({})).find((limit) => limit.key === key);
  return found ? { max: found.max, active: found.active, throttled: found.throttled } : null;
}

export const limitedTiesCases: Group = {
  async Children({ store }) {
    await register(store);
    const head = await running(store);
    const parents = [{ id: head.id, on: ["succeeded"] as const }];
    const children = await insertMany(store, newJobs(3, { parents, limit: atOnce(2) }));
    assert.deepEqual(
      await limitOf(store, "k"),
      { max: 2, active: 0, throttled: 0 },
      "it does not wait for its limit yet",
    );
    assert.deepEqual(await claimIds(store), []);
    await end(store, head, "succeeded");
    for (const id of children) assert.equal(await stateOf(store, id), "throttled");
    assert.deepEqual(await limitOf(store, "k"), { max: 2, active: 0, throttled: 3 });
    const claimed = await claim(store);
    assert.deepEqual(idsOf(claimed), children.slice(0, 2));
    assert.deepEqual(await claimReply(store), { known: true, jobs: [], nextIn: null });
    await end(store, at(claimed, 0), "succeeded");
    assert.deepEqual(await claimIds(store), children.slice(2));
  },

  /** The parent and its child share a key: the parent's place is the child's. */
  async ChildOfItsKey({ store }) {
    await register(store);
    const limit = atOnce(1);
    const head = await running(store, { limit });
    const parents = [{ id: head.id, on: ["succeeded"] as const }];
    const child = await insertOne(store, { parents, limit });
    const rival = await insertOne(store, { limit, priority: -1 });
    assert.deepEqual(await claimIds(store), []);
    await end(store, head, "succeeded");
    const taken = await claimOne(store);
    assert.equal(taken.id, child);
    assert.deepEqual(await claimIds(store), []);
    await end(store, taken, "succeeded");
    assert.deepEqual(await claimIds(store), [rival]);
  },

  /** The newest insert is what counts, not the job that was released last. */
  async ChildWithOlderNumbers({ store }) {
    await register(store);
    const head = await running(store);
    const parents = [{ id: head.id, on: ["succeeded"] as const }];
    await insertOne(store, { limit: atOnce(1) });
    await insertOne(store, { limit: atOnce(2), parents });
    assert.equal((await limitOf(store, "k"))?.max, 2, "a job that awaits others is an insert as any other");
    await insertOne(store, { limit: atOnce(1) });
    await insertOne(store, { limit: atOnce(1) });
    await end(store, head, "succeeded");
    assert.equal((await limitOf(store, "k"))?.max, 1);
    assert.equal((await claimIds(store)).length, 1);
  },

  /** One that is delayed is scheduled first; one whose parent ended otherwise is deleted, and one that is born so leaves no trace of its limit. */
  async OtherChildren({ store, advance }) {
    await register(store);
    const head = await running(store);
    const late = await insertOne(store, {
      parents: [{ id: head.id, on: ["succeeded"] }],
      limit: atOnce(1, "late"),
      delay: HOUR,
    });
    const doomed = await insertOne(store, { parents: [{ id: head.id, on: ["deleted"] }], limit: atOnce(1, "doomed") });
    await end(store, head, "succeeded");
    assert.deepEqual([await stateOf(store, late), await stateOf(store, doomed)], ["scheduled", "deleted"]);
    const born = await store.insert([
      newJob({ parents: [{ id: head.id, on: ["deleted"] }], limit: atOnce(1, "stillborn") }),
      newJob({ parents: [{ id: head.id, on: ["succeeded"] }], limit: atOnce(1, "born") }),
    ]);
    assert.deepEqual(
      born.map(({ state }) => state),
      ["deleted", "throttled"],
    );
    assert.equal(await limitOf(store, "stillborn"), null);
    assert.deepEqual(await claimIds(store), [at(born, 1).id]);
    await advance(HOUR);
    assert.deepEqual(await claimIds(store), [late]);
    assert.equal(await store.requeue({ ids: [doomed] }), 1);
    assert.equal(await stateOf(store, doomed), "throttled", "its limit was kept");
    assert.deepEqual(await claimIds(store), [doomed]);
  },

  /** A child outlives its key's row: when it is let go its own rule counts. */
  async PrunedKey({ store, advance }) {
    await register(store, "s1", { deadAfter: 9 * HOUR });
    const head = await running(store);
    await end(store, await running(store, { queue: "first", limit: atOnce(1) }), "succeeded");
    const parents = [{ id: head.id, on: ["succeeded"] as const }];
    const children = await insertMany(store, newJobs(3, { parents, limit: atOnce(2) }));
    await advance(2 * HOUR);
    // A store may keep a row for each queue in which the key has been seen.
    assert.notEqual(await store.prune({ ...KEEP, limit: 10 }), 0);
    assert.equal(await limitOf(store, "k"), null);
    await end(store, head, "succeeded");
    assert.deepEqual(await limitOf(store, "k"), { max: 2, active: 0, throttled: 3 });
    assert.deepEqual(await claimIds(store), children.slice(0, 2));
  },

  /** A child that waited for its parent to be deleted is let go when that is pruned. */
  async PrunedParent({ store, advance }) {
    await register(store);
    const head = await running(store);
    await end(store, head, "failed");
    const parents = [{ id: head.id, on: ["deleted"] as const }];
    const children = await insertMany(store, newJobs(2, { parents, limit: atOnce(1) }));
    await advance(HOUR);
    assert.equal(await store.prune({ ...KEEP, failed: SECOND }), 1);
    for (const id of children) assert.equal(await stateOf(store, id), "throttled");
    assert.deepEqual(await limitOf(store, "k"), { max: 1, active: 0, throttled: 2 });
    const job = await claimOne(store);
    assert.equal(job.id, children[0]);
    assert.deepEqual(await claimIds(store), []);
    await end(store, job, "succeeded");
    assert.deepEqual(await claimIds(store), children.slice(1));
  },

  async HeldWhileThrottled({ store }) {
    await register(store);
    const first = await running(store, { limit: atOnce(1) });
    const { id } = only(await store.insert([uniqueJob("keep")]));
    assert.equal(await stateOf(store, id), "throttled");
    for (const onConflict of ["keep", "debounce"] as const) {
      const again = await store.insert([uniqueJob(onConflict, { args: "2" })]);
      assert.deepEqual(again, [{ id, state: "throttled", duplicate: true, replaced: false }]);
    }
    assert.deepEqual(await limitOf(store, "k"), { max: 1, active: 1, throttled: 1 });
    await end(store, first, "succeeded");
    const job = await claimOne(store);
    assert.deepEqual([job.id, job.args], [id, "{}"]);
    await end(store, job, "succeeded");
    const next = only(await store.insert([uniqueJob("keep")]));
    assert.deepEqual([next.state, next.duplicate], ["throttled", false]);
  },

  /** It takes the payload but not the limit, and stays in its place unless it is to run later. */
  async ReplacedWhileThrottled({ store, advance }) {
    await register(store);
    const first = await running(store, { limit: atOnce(1) });
    const rival = await insertOne(store, { limit: atOnce(1), priority: 1 });
    const { id } = only(await store.insert([uniqueJob("keep")]));
    const now = { id, state: "throttled", duplicate: true, replaced: true };
    const payload = { args: "2", priority: 2, limit: atOnce(9, "other") };
    assert.deepEqual(await store.insert([uniqueJob("replace", payload)]), [now]);
    assert.deepEqual([(await record(store, id)).args, (await record(store, id)).limitKey], ["2", "k"]);
    assert.equal(await limitOf(store, "other"), null);
    assert.deepEqual(await claimIds(store), [], "the key is still full");
    await end(store, first, "succeeded");
    const later = uniqueJob("replace", { args: "3", priority: 2, delay: HOUR });
    assert.deepEqual(await store.insert([later]), [{ ...now, state: "scheduled" }]);
    assert.deepEqual(await limitOf(store, "k"), { max: 1, active: 0, throttled: 1 });
    const other = await claimOne(store);
    assert.equal(other.id, rival);
    await end(store, other, "succeeded");
    assert.deepEqual(await claimReply(store), { known: true, jobs: [], nextIn: HOUR }, "its lane is closed");
    await advance(HOUR);
    const job = await claimOne(store);
    assert.deepEqual([job.id, job.args, job.limitKey], [id, "3", "k"]);
  },

  /** The last job of a lane leaves it by being replaced. */
  async ReplacedAlone({ store, advance }) {
    await register(store);
    const { id } = only(await store.insert([uniqueJob("keep")]));
    await store.insert([uniqueJob("replace", { delay: HOUR })]);
    assert.equal(await stateOf(store, id), "scheduled");
    assert.deepEqual(await claimReply(store), { known: true, jobs: [], nextIn: HOUR });
    await advance(HOUR);
    assert.deepEqual(await claimIds(store), [id]);
  },
};
