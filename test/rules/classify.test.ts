import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import {
  CancelledError,
  FencedError,
  type KilnError,
  PermanentError,
  ShutdownError,
  SnoozeError,
  StallError,
  TimeoutError,
} from "../../engine/errors.ts";
import type { Backoff } from "../../engine/retry.ts";
import { type AttemptEnd, classify, UNKNOWN_KIND_DELAY } from "../../engine/rules/classify.ts";
import { LONGEST_DURATION } from "../../engine/rules/limits.ts";
import type { Outcome } from "../../engine/store.ts";
import { after, claimed, HOUR, pick, policy, snoozeOf, threw, wrapped } from "./support.ts";

/** As `Attempt` gives up a handler that does not obey its signal. */
const abandoned = (reason: KilnError): Outcome =>
  after(new Error("the handler ignored its abort signal for 5000 ms and was abandoned", { cause: reason }), reason);

const occurrences = (text: string | null, part: string): number => (text ?? "").split(part).length - 1;

describe("a handler that returned", () => {
  const returned = (output: string | null, refused: string | null = null): Outcome =>
    classify(claimed(), { type: "returned", output, refusal: refused }, policy());

  test("has succeeded, with its output and without a history entry", () => {
    assert.deepEqual(returned('{"a":1}'), {
      ...{ id: 7, claim: 3, state: "succeeded", reason: null, delay: 0, refund: false },
      ...{ error: null, trace: null, output: '{"a":1}' },
    });
    assert.equal(returned(null).output, null);
  });

  test("fails when its output can't be stored, and says why", () => {
    const refused = returned(null, "output must be at most 1048576 bytes");
    assert.deepEqual(pick(refused, "state", "reason", "output", "refund"), {
      ...{ state: "failed", reason: "output rejected", output: null, refund: false },
    });
    assert.equal(refused.error, "output must be at most 1048576 bytes");
  });
});

test("a job past its deadline is deleted, and its attempt counts", () => {
  const outcome = classify(claimed(), { type: "expired" }, policy());
  assert.deepEqual(pick(outcome, "state", "reason", "refund"), { state: "deleted", reason: "deadline", refund: false });
});

describe("a job without a handler", () => {
  const unhandled = (age: number, unknownKindTtl: number): Outcome =>
    classify(claimed({ age, kind: "ghost" }), { type: "unhandled" }, policy({ unknownKindTtl }));

  test("is looked at again in a minute without using an attempt, up to the limit of its age", () => {
    for (const outcome of [unhandled(0, 24 * HOUR), unhandled(24 * HOUR, 24 * HOUR), unhandled(0, 0)]) {
      assert.deepEqual(pick(outcome, "state", "reason", "delay", "refund"), {
        ...{ state: "scheduled", reason: "unknown kind", delay: UNKNOWN_KIND_DELAY, refund: true },
      });
      assert.equal(outcome.error, "no handler for kind ghost");
    }
    assert.equal(UNKNOWN_KIND_DELAY, 60_000);
  });

  test("fails when it is older", () => {
    for (const outcome of [unhandled(24 * HOUR + 1, 24 * HOUR), unhandled(1, 0)]) {
      assert.deepEqual(pick(outcome, "state", "reason", "refund"), {
        ...{ state: "failed", reason: "unknown kind", refund: false },
      });
      assert.equal(outcome.error, "no handler for kind ghost");
    }
  });

  test("is not failed for having used its last attempt", () => {
    const outcome = classify(claimed({ attempt: 5 }), { type: "unhandled" }, policy());
    assert.equal(outcome.state, "scheduled");
  });
});

describe("a handler that threw", () => {
  test("is retried after the backoff while attempts are left", () => {
    for (const attempt of [1, 2, 4]) {
      const outcome = after(new TypeError("no such thing"), undefined, { attempt });
      assert.deepEqual(pick(outcome, "state", "reason", "delay", "refund", "output"), {
        ...{ state: "scheduled", reason: "retry", delay: 1_234, refund: false, output: null },
      });
      assert.equal(outcome.error, "TypeError: no such thing");
      assert.match(outcome.trace ?? "", /classify\.test\.ts/);
    }
  });

  test("fails at the last attempt, and beyond", () => {
    for (const fields of [{ attempt: 5 }, { attempt: 6 }, { attempt: 1, maxAttempts: 1 }]) {
      const outcome = after(new Error("no"), undefined, fields);
      assert.deepEqual(pick(outcome, "state", "reason", "delay", "error"), {
        ...{ state: "failed", reason: "exhausted", delay: 0, error: "Error: no" },
      });
    }
  });

  test("tells its backoff the attempt, the error and where to draw from", () => {
    const error = new Error("no");
    const random = (): number => 0.25;
    const calls: unknown[][] = [];
    const backoff: Backoff = (...args) => {
      calls.push(args);
      return 5;
    };
    classify(claimed({ attempt: 3 }), threw(error), policy({ backoff, random }));
    assert.deepEqual(calls, [[3, error, random]]);
  });

  test("is retried whatever its backoff does", () => {
    const delayOf = (value: unknown): number => {
      const backoff = (): never => value as never;
      return classify(claimed(), threw(new Error("no")), policy({ backoff, random: () => 0 })).delay;
    };
    for (const none of [-5, Number.NEGATIVE_INFINITY, -0]) assert.equal(delayOf(none), 0, String(none));
    for (const long of [1e300, Number.POSITIVE_INFINITY]) assert.equal(delayOf(long), LONGEST_DURATION);
    assert.equal(delayOf(0.2), 1);
    const byDefault = 15_000;
    for (const value of [Number.NaN, "5s", "", null, undefined, {}, 5n, Symbol("five"), [5]]) {
      assert.equal(delayOf(value), byDefault, String(value));
    }
    const throws: Backoff = () => {
      throw new Error("a bad backoff");
    };
    const outcome = classify(claimed(), threw(new Error("no")), policy({ backoff: throws, random: () => 0 }));
    assert.deepEqual(pick(outcome, "reason", "delay", "error"), {
      reason: "retry",
      delay: byDefault,
      error: "Error: no",
    });
  });

  test("is deleted when it was cancelled, by its own word or from outside", () => {
    const outcomes = [
      after(new CancelledError("of no use")),
      after(wrapped(new CancelledError("of no use"), 5)),
      after(new Error("aborted"), new CancelledError("deleted by an operator")),
      after(new CancelledError("of no use"), undefined, { attempt: 5 }),
    ];
    for (const outcome of outcomes) {
      assert.deepEqual(pick(outcome, "state", "reason", "refund"), {
        ...{ state: "deleted", reason: "cancelled", refund: false },
      });
      assert.ok(outcome.error);
    }
  });

  test("hands the job back when the server stops, without using the attempt, even the last", () => {
    for (const attempt of [1, 5]) {
      const outcome = after(new PermanentError("aborted"), new ShutdownError("stopping"), { attempt });
      assert.deepEqual(pick(outcome, "state", "reason", "delay", "refund"), {
        ...{ state: "enqueued", reason: "shutdown", delay: 0, refund: true },
      });
    }
  });

  test("that throws the errors of a server's own accord has just failed", () => {
    for (const error of [new ShutdownError("mine"), new FencedError("mine"), new TimeoutError("mine")]) {
      assert.equal(after(error).reason, "retry");
    }
  });

  test("fails at once when it can never succeed", () => {
    for (const error of [new PermanentError("no such customer"), wrapped(new PermanentError("no such customer"), 3)]) {
      const outcome = after(error);
      assert.deepEqual(pick(outcome, "state", "reason", "refund"), {
        ...{ state: "failed", reason: "permanent", refund: false },
      });
      assert.match(outcome.error ?? "", /no such customer/);
    }
  });

  test("is snoozed without using the attempt, even the last", () => {
    for (const attempt of [1, 5]) {
      const outcome = after(wrapped(new SnoozeError(90_000)), undefined, { attempt });
      assert.deepEqual(pick(outcome, "state", "reason", "delay", "refund", "error"), {
        ...{ state: "scheduled", reason: "snoozed", delay: 90_000, refund: true, error: null },
      });
    }
  });

  test("a permanent error that was caused by a snooze is permanent, and so is the other way round", () => {
    const permanent = new PermanentError("no");
    Object.defineProperty(permanent, "cause", { value: new SnoozeError(5) });
    assert.equal(after(permanent).reason, "permanent");
    const snooze = new SnoozeError(5);
    Object.defineProperty(snooze, "cause", { value: new PermanentError("no") });
    assert.equal(after(snooze).reason, "permanent");
  });

  test("a snooze made by hand may hold anything", () => {
    const delayOf = (delay: unknown): number => {
      const outcome = after(snoozeOf(delay));
      assert.equal(outcome.reason, "snoozed", String(delay));
      return outcome.delay;
    };
    assert.equal(delayOf(0.5), 1);
    for (const long of [1e18, Number.POSITIVE_INFINITY]) assert.equal(delayOf(long), LONGEST_DURATION);
    for (const none of [Number.NaN, -1, -0, 0, "5", 5n, null, undefined, {}, Symbol("five")]) {
      assert.equal(delayOf(none), 0, String(none));
    }
    const unreadable = new SnoozeError(5);
    Object.defineProperty(unreadable, "delay", {
      get(): never {
        throw new Error("not for you");
      },
    });
    assert.deepEqual(pick(after(unreadable), "reason", "delay"), { reason: "snoozed", delay: 0 });
  });
});

describe("the error text", () => {
  test("says that the attempt was timed out or stalled when the handler's error does not", () => {
    for (const reason of [new TimeoutError("timed out after 50 ms"), new StallError("no sign of life for 50 ms")]) {
      const outcome = after(new DOMException("This operation was aborted", "AbortError"), reason);
      assert.equal(outcome.reason, "retry");
      assert.equal(outcome.error, `Error: ${reason.message}; caused by AbortError: This operation was aborted`);
      assert.match(outcome.trace ?? "", / at /);
      assert.match(after(undefined, reason).error ?? "", new RegExp(reason.message));
    }
  });

  test("does not say it twice", () => {
    const reason = new TimeoutError("timed out after 50 ms");
    for (const error of [
      reason,
      wrapped(reason, 4),
      new DOMException("aborted", { name: "AbortError", cause: reason }),
    ]) {
      assert.equal(occurrences(after(error, reason).error, reason.message), 1);
    }
  });

  test("says that the handler was abandoned, and why it should have stopped", () => {
    const reasons: [KilnError, string][] = [
      [new TimeoutError("timed out after 50 ms"), "retry"],
      [new StallError("no sign of life for 50 ms"), "retry"],
      [new CancelledError("deleted by an operator"), "cancelled"],
      [new ShutdownError("the server is stopping"), "shutdown"],
    ];
    for (const [reason, expected] of reasons) {
      const outcome = abandoned(reason);
      assert.equal(outcome.reason, expected);
      assert.match(outcome.error ?? "", /was abandoned/);
      assert.equal(occurrences(outcome.error, reason.message), 1);
    }
  });
});

describe("of several things that are true of one error", () => {
  /** Reasons in the order in which the first decides. */
  const ORDER = ["cancelled", "shutdown", "permanent", "snoozed"] as const;
  const THROWN = {
    cancelled: () => new CancelledError("c"),
    permanent: () => new PermanentError("p"),
    snoozed: () => new SnoozeError(5),
    timeout: () => new TimeoutError("t"),
    plain: () => new Error("e"),
  };
  const ABORTED = {
    none: undefined,
    cancelled: new CancelledError("deleted"),
    shutdown: new ShutdownError("stopping"),
    timeout: new TimeoutError("timed out"),
    stall: new StallError("stalled"),
  };
  const names = <T extends object>(from: T): (keyof T & string)[] => Object.keys(from) as (keyof T & string)[];

  test("the first in order decides, wherever in the chain of causes it stands", () => {
    const property = fc.property(
      fc.constantFrom(...names(ABORTED)),
      fc.shuffledSubarray(names(THROWN), { minLength: 1 }),
      fc.integer({ min: 1, max: 3 }),
      (abortedBy, chain, attempt) => {
        const errors = chain.map((name) => THROWN[name]());
        errors.forEach((error, index) => {
          if (errors[index + 1]) Object.defineProperty(error, "cause", { value: errors[index + 1] });
        });
        const outcome = classify(claimed({ attempt, maxAttempts: 3 }), threw(errors[0], ABORTED[abortedBy]), policy());
        const present: string[] = [abortedBy, ...chain];
        const last = attempt === 3 ? "exhausted" : "retry";
        assert.equal(outcome.reason, ORDER.find((reason) => present.includes(reason)) ?? last);
      },
    );
    fc.assert(property, { numRuns: 500 });
  });

  test("a return is a success even after an abort, for it says nothing of one", () => {
    const end: AttemptEnd = { type: "returned", output: null, refusal: null };
    assert.equal(classify(claimed({ attempt: 5 }), end, policy()).state, "succeeded");
  });
});
