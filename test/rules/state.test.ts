import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { LONGEST_DURATION } from "../../engine/rules/limits.ts";
import { DELETABLE, dueAt, filterAllows, REQUEUEABLE, readyState, requeuedAttempts } from "../../engine/rules/state.ts";
import { JOB_STATES } from "../../engine/store.ts";

const instant = fc.integer({ min: 0, max: 253_402_300_799_999 });
const delay = fc.oneof(
  fc.double({ min: -1e6, max: LONGEST_DURATION, noNaN: true }),
  fc.integer({ min: -5, max: 5 }),
  fc.constant(Number.NEGATIVE_INFINITY),
);

test("a delay is never cut short and lengthened by less than a millisecond", () => {
  fc.assert(
    fc.property(delay, instant, (ms, now) => {
      const due = dueAt({ runAt: null, delay: ms }, now);
      assert.ok(Number.isInteger(due));
      // Differences of whole numbers, because `now + ms` would be rounded itself.
      assert.ok(due - now >= Math.max(ms, 0));
      assert.ok(due - now - 1 < Math.max(ms, 0));
    }),
  );
});

test("runAt decides when it is given", () => {
  fc.assert(
    fc.property(instant, delay, instant, (runAt, ms, now) => {
      assert.equal(dueAt({ runAt: new Date(runAt), delay: ms }, now), runAt);
    }),
  );
});

test("a job is scheduled exactly while its time is to come", () => {
  fc.assert(
    fc.property(instant, fc.integer({ min: -3, max: 3 }), (now, offset) => {
      assert.equal(readyState(now + offset, now), offset > 0 ? "scheduled" : "enqueued");
    }),
  );
  fc.assert(
    fc.property(delay, instant, (ms, now) => {
      assert.equal(readyState(dueAt({ runAt: null, delay: ms }, now), now), ms > 0 ? "scheduled" : "enqueued");
    }),
  );
});

test("a requeued job always has an attempt left", () => {
  const attempts = fc.integer({ min: 1, max: 32_767 });
  fc.assert(
    fc.property(fc.constantFrom(...REQUEUEABLE), fc.nat(32_767), attempts, (state, attempt, maxAttempts) => {
      const after = requeuedAttempts(state, attempt, maxAttempts);
      assert.ok(after.attempt < after.maxAttempts);
      if (state === "scheduled") {
        assert.equal(after.attempt, attempt, "a scheduled job keeps its attempts");
        assert.equal(after.maxAttempts, attempt < maxAttempts ? maxAttempts : attempt + 1);
      } else {
        assert.deepEqual(after, { attempt: 0, maxAttempts }, "others start over");
      }
    }),
  );
});

test("each state but processing and those of ready jobs can be requeued, each live one deleted", () => {
  assert.deepEqual([...REQUEUEABLE].sort(), ["deleted", "failed", "scheduled", "succeeded"]);
  assert.deepEqual([...DELETABLE].sort(), ["awaiting", "enqueued", "failed", "scheduled", "throttled"]);
  for (const state of JOB_STATES) {
    assert.equal(filterAllows({ ids: [1] }, state), true);
    for (const other of JOB_STATES) assert.equal(filterAllows({ ids: [1], state: other }, state), state === other);
  }
});
