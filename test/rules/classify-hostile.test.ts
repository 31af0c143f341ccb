/** Whatever a handler throws, or a backoff does, an attempt ends with an outcome that the store can take. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  CancelledError,
  FencedError,
  PermanentError,
  ShutdownError,
  SnoozeError,
  StallError,
  TimeoutError,
} from "../../engine/errors.ts";
import type { Backoff } from "../../engine/retry.ts";
import { type AttemptEnd, classify } from "../../engine/rules/classify.ts";
import { ERROR_MAX_BYTES, LONGEST_DURATION, TRACE_MAX_BYTES } from "../../engine/rules/limits.ts";
import { refusal } from "../../engine/rules/outcome.ts";
import { REASONS } from "../../engine/rules/reasons.ts";
import { after, claimed, HOUR, snoozeOf, threw, wrapped } from "./support.ts";

function circular(): Error {
  const error = new Error("round");
  error.cause = new Error("and round", { cause: error });
  return error;
}
const throwing = (): never => {
  throw new Error("not for you");
};
function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}
/** A cause that is new each time it is asked for. */
class Endless extends Error {
  override get cause(): Error {
    return new Endless("deeper");
  }
}
const HOSTILE: (() => unknown)[] = [
  circular,
  () => new Endless("deep"),
  () => wrapped(new Error("no"), 10_000),
  revoked,
  () => new Proxy(new Error("x"), { getPrototypeOf: throwing }),
  () => new Proxy(new SnoozeError(5), { get: throwing }),
  () => new Proxy(new PermanentError("x"), { get: throwing }),
  () => new Error("x", { cause: revoked() }),
  () => Object.defineProperty(new Error("x"), "cause", { get: throwing }),
  () => Object.defineProperty(new SnoozeError(5), "delay", { get: throwing }),
  () => Object.defineProperty(new SnoozeError(5), "delay", { value: { valueOf: throwing } }),
  () => Object.defineProperty(new Error("x"), "message", { get: throwing }),
  () => Object.defineProperty(new Error("x"), "stack", { value: 5 }),
  () => new AggregateError([new PermanentError("a"), circular()], "many"),
  () => new Error("\u0000\ud800".repeat(100_000)),
  () => Object.create(null),
];
/** Made when it is used, for fast-check itself can't hold all of these. */
const anyError: fc.Arbitrary<() => unknown> = fc.oneof(
  fc.anything().map((value) => () => value),
  fc.constantFrom(...HOSTILE),
  fc.anything().map((cause) => () => new Error("outer", { cause })),
  fc.oneof(fc.double(), fc.anything()).map((delay) => () => snoozeOf(delay)),
  fc.string({ unit: "binary" }).map((message) => () => new PermanentError(message)),
);
const anyAbort = fc.constantFrom(
  ...[undefined, new CancelledError("c"), new ShutdownError("s"), new FencedError("f")],
  ...[new TimeoutError("t"), new StallError("st")],
);
const anyEnd: fc.Arbitrary<() => AttemptEnd> = fc.oneof(
  fc.constantFrom<() => AttemptEnd>(
    () => ({ type: "unhandled" }),
    () => ({ type: "expired" }),
  ),
  fc.tuple(fc.option(fc.json()), fc.option(fc.string({ unit: "binary" }))).map(([output, refused]) => {
    return (): AttemptEnd => ({ type: "returned", output, refusal: refused });
  }),
  fc.tuple(anyError, anyAbort).map(
    ([make, abortedBy]) =>
      () =>
        threw(make(), abortedBy),
  ),
);
const anyBackoff: fc.Arbitrary<Backoff> = fc.oneof(
  fc.double().map((delay) => () => delay),
  fc.anything().map((delay) => () => delay as number),
  fc.constant(throwing),
);

test("every outcome can be stored and keeps the promises of outcomes", () => {
  const property = fc.property(
    fc.integer({ min: 1, max: 32_767 }),
    fc.integer({ min: 1, max: 32_767 }),
    fc.integer({ min: -HOUR, max: 48 * HOUR }),
    anyEnd,
    anyBackoff,
    fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    (attempt, maxAttempts, age, end, backoff, draw) => {
      const job = claimed({ attempt, maxAttempts, age });
      const outcome = classify(job, end(), { backoff, random: () => draw, unknownKindTtl: 24 * HOUR });
      assert.equal(refusal(outcome), null);
      assert.deepEqual([outcome.id, outcome.claim], [job.id, job.claim]);
      assert.ok(Number.isInteger(outcome.delay) && outcome.delay >= 0 && outcome.delay <= LONGEST_DURATION);
      if (outcome.state === "succeeded") assert.equal(outcome.reason, null);
      else assert.ok((REASONS as readonly (string | null)[]).includes(outcome.reason), String(outcome.reason));
      const handedBack = ["shutdown", "snoozed", "unknown kind"].includes(outcome.reason ?? "");
      assert.equal(outcome.refund, handedBack && outcome.state !== "failed");
      const again = outcome.state === "scheduled" || outcome.state === "enqueued";
      assert.ok(!again || outcome.refund || attempt < maxAttempts, "no attempt beyond the maximum");
      if (outcome.reason !== "output rejected") assertText(outcome.error, ERROR_MAX_BYTES);
      assertText(outcome.trace, TRACE_MAX_BYTES);
    },
  );
  fc.assert(property, { numRuns: 1_000 });
});

test("each of the errors above is just a failure, and readable", () => {
  for (const make of HOSTILE) {
    const { reason, error } = after(make());
    assert.ok(reason === "retry" || reason === "snoozed" || reason === "permanent", String(reason));
    assert.notEqual(error?.trim(), "");
  }
  assert.equal(after(circular()).reason, "retry");
  assert.equal(after(new Error("x", { cause: revoked() })).reason, "retry");
});

function assertText(text: string | null, maxBytes: number): void {
  assert.ok(text === null || (text !== "" && Buffer.byteLength(text) <= maxBytes), "a text of the right size");
}
