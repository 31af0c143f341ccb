/** What becomes of a job at its birth when it has parents: in which state it begins, and how that is counted. */
import assert from "node:assert/strict";
import { type JobState, type NewJob, PARENT_STATES } from "../../engine/store.ts";
import { childOf, DELETED, KEEP, parent, position } from "./dependencies-support.ts";
import { atOnce } from "./limits-support.ts";
import {
  assertNear,
  clock,
  ended,
  type Group,
  HOUR,
  insertOne,
  MINUTE,
  newJob,
  record,
  register,
  snapshot,
  startMinute,
} from "./support.ts";

export const birthsCases: Group = {
  async States({ store }) {
    await register(store);
    const [succeeded, failed] = [await ended(store, "succeeded"), await ended(store, "failed")];
    const deleted = await ended(store, "deleted");
    const live = await insertOne(store, { queue: "live" });
    const now = await clock(store);
    const limit = atOnce(1);
    const cases: readonly [job: NewJob, state: JobState][] = [
      [childOf(parent(live)), "awaiting"],
      [{ ...childOf(parent(live)), delay: HOUR }, "awaiting"],
      [{ ...childOf(parent(live)), limit }, "awaiting"],
      [{ ...childOf(parent(live)), runAt: new Date(now - HOUR) }, "awaiting"],
      [childOf(parent(deleted)), "deleted"],
      [childOf(parent(live), parent(deleted)), "deleted"],
      [{ ...childOf(parent(deleted)), delay: HOUR }, "deleted"],
      [{ ...childOf(parent(deleted)), limit }, "deleted"],
      [childOf(parent(deleted, DELETED)), "enqueued"],
      [{ ...childOf(parent(deleted, DELETED)), limit }, "throttled"],
      [{ ...childOf(parent(failed, PARENT_STATES)), delay: HOUR }, "scheduled"],
      [{ ...childOf(parent(failed, PARENT_STATES)), delay: HOUR, limit }, "scheduled"],
      [{ ...childOf(parent(succeeded)), runAt: new Date(now + HOUR) }, "scheduled"],
      [{ ...childOf(parent(succeeded)), runAt: new Date(now - HOUR) }, "enqueued"],
    ];
    const inserted = await store.insert(cases.map(([job]) => job));
    for (const [index, [{ parents, delay, limit, runAt }, state]] of cases.entries()) {
      const { id, ...said } = inserted[index] ?? assert.fail();
      const what = JSON.stringify({ parents, delay, limit, runAt });
      assert.deepEqual(said, { state, duplicate: false, replaced: false }, `returned for ${what}`);
      const { state: stored, attempt, claim, runAt: due, finalizedAt } = await record(store, id);
      assert.deepEqual([stored, attempt, claim, finalizedAt !== null], [state, 0, 0, state === "deleted"], what);
      if (runAt !== null) assert.deepEqual(due, runAt);
      else assertNear(due, now + delay, what);
    }
  },

  /** Jobs that are deleted at their birth count in the totals and the series, each once. */
  async Counted(harness) {
    const { store } = harness;
    await register(store);
    const deleted = await ended(store, "deleted");
    const minute = await startMinute(harness);
    const doomed = [childOf(parent(deleted)), childOf(position(0)), childOf(position(1))];
    const states = (await store.insert([...doomed, newJob()])).map(({ state }) => state);
    assert.deepEqual(states, ["deleted", "deleted", "deleted", "enqueued"]);
    assert.equal((await store.counts()).deleted, 1 + 3);
    const points = await store.series({ from: new Date(minute), to: new Date(minute + 2 * MINUTE), step: MINUTE });
    assert.equal(
      points.reduce((sum, point) => sum + point.deleted, 0),
      3,
    );
  },

  /** A parent that retention has removed is one that there never was. */
  async PrunedParent({ store, advance }) {
    await register(store);
    const gone = await ended(store, "succeeded");
    await advance(HOUR);
    assert.equal(await store.prune({ ...KEEP, succeeded: MINUTE }), 1);
    const before = await snapshot(store);
    for (const on of [["succeeded"], PARENT_STATES] as const) {
      const call = store.insert([newJob(), childOf(parent(gone, on))]);
      await assert.rejects(call, {
        code: "not_found",
        message: new RegExp(`jobs\\[1\\].parents\\[0\\].* job ${gone}`),
      });
    }
    assert.deepEqual(await snapshot(store), before, "the whole call is refused");
  },
};
