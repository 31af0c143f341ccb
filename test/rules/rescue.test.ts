import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { constant } from "../../engine/retry.ts";
import { LONGEST_DURATION } from "../../engine/rules/limits.ts";
import { refusal } from "../../engine/rules/outcome.ts";
import { REASONS } from "../../engine/rules/reasons.ts";
import { rescueOutcome } from "../../engine/rules/rescue.ts";
import type { Orphan, Outcome } from "../../engine/store.ts";

const orphan = (fields: Partial<Orphan> = {}): Orphan => ({
  ...{ id: 9, claim: 4, kind: "task", queue: "default", attempt: 1, maxAttempts: 3, server: "host-1-abcd" },
  ...{ cancelRequested: false, lastReason: null },
  ...fields,
});

const rescue = (fields: Partial<Orphan> = {}): Outcome =>
  rescueOutcome(orphan(fields), { backoffOf: () => constant(7_000), random: () => 0 });

test("the first rescue goes straight back to the queue, and its attempt counts", () => {
  assert.deepEqual(rescue(), {
    ...{ id: 9, claim: 4, state: "enqueued", reason: "orphaned", delay: 0, refund: false, trace: null, output: null },
    error: "server host-1-abcd was declared dead",
  });
});

test("only a rescue right before makes the job wait", () => {
  for (const lastReason of REASONS) {
    const { state, delay, reason } = rescue({ lastReason });
    const expected = lastReason === "orphaned" ? ["scheduled", 7_000] : ["enqueued", 0];
    assert.deepEqual([state, delay], expected, lastReason);
    assert.equal(reason, "orphaned");
  }
});

test("the second rescue in a row waits for the backoff of its kind, drawn for its attempt", () => {
  const asked: unknown[] = [];
  const random = (): number => 0.5;
  const outcome = rescueOutcome(orphan({ kind: "mail", attempt: 2, lastReason: "orphaned" }), {
    random,
    backoffOf: (kind) => (attempt, error, draw) => {
      asked.push(kind, attempt, (error as Error).message, draw);
      return 1_500;
    },
  });
  assert.deepEqual(asked, ["mail", 2, "server host-1-abcd was declared dead", random]);
  assert.deepEqual([outcome.state, outcome.delay, outcome.refund], ["scheduled", 1_500, false]);
});

test("a job whose attempts are used up has failed", () => {
  for (const fields of [{ attempt: 3 }, { attempt: 4 }, { attempt: 3, lastReason: "orphaned" }]) {
    const { state, reason, delay, error } = rescue(fields);
    assert.deepEqual([state, reason, delay], ["failed", "orphaned", 0]);
    assert.equal(error, "server host-1-abcd was declared dead");
  }
});

test("a job that was asked to stop is deleted, even with its attempts used up", () => {
  for (const fields of [{}, { attempt: 3 }, { lastReason: "orphaned" }]) {
    const { state, reason } = rescue({ ...fields, cancelRequested: true });
    assert.deepEqual([state, reason], ["deleted", "cancelled"]);
  }
});

test("every outcome can be stored, whatever the backoff does", () => {
  const throws = (): never => {
    throw new Error("a bad backoff");
  };
  const property = fc.property(
    fc.record({
      attempt: fc.integer({ min: 1, max: 32_767 }),
      maxAttempts: fc.integer({ min: 1, max: 32_767 }),
      cancelRequested: fc.boolean(),
      lastReason: fc.oneof(fc.constant("orphaned"), fc.option(fc.string())),
      server: fc.string({ unit: "binary" }),
    }),
    fc.oneof(
      fc.constant(throws),
      fc.double().map((ms) => () => ms),
      fc.anything().map((value) => () => value as number),
    ),
    (fields, backoff) => {
      const outcome = rescueOutcome(orphan(fields), { backoffOf: () => backoff, random: () => 0.99 });
      assert.equal(refusal(outcome), null);
      assert.ok(Number.isInteger(outcome.delay) && outcome.delay >= 0 && outcome.delay <= LONGEST_DURATION);
      assert.equal(outcome.refund, false);
      const again = outcome.state === "enqueued" || outcome.state === "scheduled";
      assert.equal(again, !fields.cancelRequested && fields.attempt < fields.maxAttempts);
    },
  );
  fc.assert(property, { numRuns: 500 });
});
