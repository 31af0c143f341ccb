import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { JSON_MAX_BYTES, LONGEST_DURATION } from "../../engine/rules/limits.ts";
import { isJson, refusal, settle } from "../../engine/rules/outcome.ts";
import { OUTCOME_STATES, type Outcome } from "../../engine/store.ts";

const text = fc.string({ maxLength: 20 });
const outcome: fc.Arbitrary<Outcome> = fc.record({
  id: fc.integer({ min: 1 }),
  claim: fc.integer({ min: 1 }),
  state: fc.constantFrom(...OUTCOME_STATES),
  delay: fc.oneof(fc.integer({ min: -5, max: 5 }), fc.double({ min: -1e6, max: LONGEST_DURATION, noNaN: true })),
  refund: fc.boolean(),
  reason: fc.option(text, { nil: null }),
  error: fc.option(text, { nil: null }),
  trace: fc.option(text, { nil: null }),
  output: fc.option(fc.json(), { nil: null }),
});
const job = fc.record({
  attempt: fc.nat(32_767),
  runAt: fc.nat(),
  cancelRequested: fc.boolean(),
  limitKey: fc.constantFrom(null, "key"),
});
/** Where a job waits that is due. */
const ready = ({ limitKey }: { limitKey: string | null }): string => (limitKey === null ? "enqueued" : "throttled");
const now = fc.integer({ min: 0, max: 4_102_444_800_000 });

test("an outcome of a server can always be stored", () => {
  fc.assert(fc.property(outcome, (given) => assert.equal(refusal(given), null)));
});

test("where a job goes: a cancel request wins over all but success, and no delay is no schedule", () => {
  fc.assert(
    fc.property(job, outcome, now, (before, given, time) => {
      const { state } = settle(before, given, "s", time);
      if (given.state === "succeeded") assert.equal(state, "succeeded");
      else if (before.cancelRequested) assert.equal(state, "deleted");
      else if (given.state === "scheduled") assert.equal(state, given.delay > 0 ? "scheduled" : ready(before));
      else if (given.state === "enqueued") assert.equal(state, ready(before));
      else assert.equal(state, given.state);
    }),
  );
});

test("attempts: a refund takes one back, never below none", () => {
  fc.assert(
    fc.property(job, outcome, now, (before, given, time) => {
      const { attempt } = settle(before, given, "s", time);
      assert.equal(attempt, given.refund && before.attempt > 0 ? before.attempt - 1 : before.attempt);
      assert.ok(attempt >= 0);
    }),
  );
});

test("instants: ended jobs have an end, waiting ones a time that is not before their delay is over", () => {
  fc.assert(
    fc.property(job, outcome, now, (before, given, time) => {
      const { state, runAt, finalizedAt } = settle(before, given, "s", time);
      const waits = state === "scheduled" || state === ready(before);
      assert.equal(finalizedAt, waits ? null : time);
      assert.ok(Number.isInteger(runAt));
      if (state === "scheduled") assert.ok(runAt - time >= given.delay && runAt - time - 1 < given.delay);
      else assert.equal(runAt, state === ready(before) ? time : before.runAt);
    }),
  );
});

test("history: one entry for each reason, about the attempt that ran", () => {
  fc.assert(
    fc.property(job, outcome, now, (before, given, time) => {
      const { entry, state } = settle(before, given, "s", time);
      const cancelled = before.cancelRequested && given.state !== "succeeded" && given.state !== "deleted";
      const reason = cancelled ? "cancelled" : given.reason;
      assert.equal(entry === null, reason === null);
      if (entry === null) return;
      const { error, trace } = given;
      assert.deepEqual(entry, {
        at: new Date(time),
        state,
        attempt: before.attempt,
        reason,
        error,
        trace,
        server: "s",
      });
    }),
  );
});

test("output is kept of jobs that succeeded or were deleted", () => {
  fc.assert(
    fc.property(job, outcome, now, (before, given, time) => {
      const { state, output } = settle(before, given, "s", time);
      assert.equal(output, state === "succeeded" || state === "deleted" ? given.output : null);
    }),
  );
});

test("counters: ends count as what they are, failed attempts as retried, snoozes and hand-backs not at all", () => {
  fc.assert(
    fc.property(job, outcome, now, (before, given, time) => {
      const { state, counter } = settle(before, given, "s", time);
      if (state !== "scheduled" && state !== ready(before)) assert.equal(counter, state);
      else assert.equal(counter, given.state === "scheduled" && !given.refund ? "retried" : null);
    }),
  );
});

test("what can never be stored is refused", () => {
  const base: Outcome = {
    ...{ id: 1, claim: 1, delay: 0, refund: false, reason: null, error: null, trace: null, output: null },
    state: "scheduled",
  };
  for (const delay of [Number.NaN, Number.POSITIVE_INFINITY, LONGEST_DURATION + 1]) {
    assert.match(refusal({ ...base, delay }) ?? "", /^delay must/);
    assert.equal(refusal({ ...base, state: "failed", delay }), null, "a delay means something to scheduled jobs only");
  }
  for (const delay of [Number.NEGATIVE_INFINITY, -1, LONGEST_DURATION]) assert.equal(refusal({ ...base, delay }), null);
  assert.match(refusal({ ...base, output: "{" }) ?? "", /^output must be JSON/);
  assert.match(refusal({ ...base, output: `"${"a".repeat(JSON_MAX_BYTES)}"` }) ?? "", /^output must be at most/);
  assert.equal(refusal({ ...base, output: `"${"a".repeat(JSON_MAX_BYTES - 2)}"` }), null);
  const strange = { toString: 1, valueOf: null };
  assert.match(refusal({ ...base, state: strange as unknown as Outcome["state"] }) ?? "", /^state must be one of/);
  fc.assert(
    fc.property(fc.anything({ withNullPrototype: true }), (state) => {
      fc.pre(!(OUTCOME_STATES as readonly unknown[]).includes(state));
      assert.match(refusal({ ...base, state: state as Outcome["state"] }) ?? "", /^state must be one of/);
    }),
  );
});

test("isJson: all that JSON.stringify makes, nothing that JSON.parse refuses, no bare lone surrogate", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (value) => {
      assert.equal(isJson(JSON.stringify(value)), true);
      assert.equal(isJson(JSON.stringify({ [value]: value })), true);
    }),
  );
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: "binary" }), fc.anything()), (value) => {
      if (isJson(value)) assert.doesNotThrow(() => JSON.parse(value));
    }),
  );
  for (const value of ['"\ud800"', '"\u0000"', "", "NaN", "{}{}", undefined, null, 1, {}, []]) {
    assert.equal(isJson(value), false);
  }
});
