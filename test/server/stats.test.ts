import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CancelledError,
  type KilnError,
  PermanentError,
  ShutdownError,
  SnoozeError,
  TimeoutError,
} from "../../engine/errors.ts";
import { type AttemptEnd, classify } from "../../engine/rules/classify.ts";
import type { Decision } from "../../engine/server/completer.ts";
import { Counters } from "../../engine/server/stats.ts";
import { claimed, policy, threw } from "../rules/support.ts";

const ZERO = { ...new Counters() };

/** The counters after one attempt that ended so; `now` is where the store put the job, if elsewhere than asked. */
function counted(end: AttemptEnd, fields: Parameters<typeof claimed>[0] = {}, now?: Decision): object {
  const counters = new Counters();
  const outcome = classify(claimed(fields), end, policy());
  counters.ended(end, outcome);
  counters.decided(now ?? outcome.state, outcome);
  return { ...counters };
}

const only = (counters: Partial<typeof ZERO>): object => ({ ...ZERO, ...counters });

const last = { attempt: 5, maxAttempts: 5 };
const aborted = (reason: KilnError): AttemptEnd => threw(new Error("aborted"), reason);
const returned: AttemptEnd = { type: "returned", output: null, refusal: null };

test("an attempt counts by how it ended and by where the job went", () => {
  const cases: [name: string, counters: object, expected: object][] = [
    ["success", counted(returned), only({ succeeded: 1 })],
    ["output refused", counted({ ...returned, refusal: "must be JSON" }), only({ dead: 1 })],
    ["failure", counted(threw(new Error("no"))), only({ failed: 1, retried: 1 })],
    ["failure without a delay", counted(threw(new Error("no")), {}, "enqueued"), only({ failed: 1, retried: 1 })],
    ["timeout", counted(aborted(new TimeoutError("t"))), only({ failed: 1, retried: 1 })],
    ["last failure", counted(threw(new Error("no")), last), only({ failed: 1, dead: 1 })],
    ["permanent", counted(threw(new PermanentError("no"))), only({ failed: 1, dead: 1 })],
    ["snooze", counted(threw(new SnoozeError(5))), only({ snoozed: 1 })],
    ["snooze without a delay", counted(threw(new SnoozeError(0)), {}, "enqueued"), only({ snoozed: 1 })],
    ["cancelled", counted(threw(new CancelledError("c"))), only({ cancelled: 1 })],
    ["hand-back", counted(aborted(new ShutdownError("s"))), only({ handedBack: 1 })],
    ["deadline", counted({ type: "expired" }), only({ cancelled: 1 })],
    ["unknown kind", counted({ type: "unhandled" }), only({ snoozed: 1 })],
    ["old unknown kind", counted({ type: "unhandled" }, { age: 25 * 3_600_000 }), only({ dead: 1 })],
  ];
  for (const [name, counters, expected] of cases) assert.deepEqual(counters, expected, name);
});

test("a job that was asked to stop counts as cancelled, whatever its attempt asked for", () => {
  assert.deepEqual(counted(threw(new Error("no")), {}, "deleted"), only({ failed: 1, cancelled: 1 }));
  assert.deepEqual(counted(aborted(new ShutdownError("s")), {}, "deleted"), only({ cancelled: 1 }));
});

test("an outcome that the store did not take is stale, and nothing else", () => {
  assert.deepEqual(counted(returned, {}, "stale"), only({ stale: 1 }));
  assert.deepEqual(counted(threw(new Error("no")), {}, "stale"), only({ failed: 1, stale: 1 }));
});

test("an outcome that the store refused and then took as failed is dead", () => {
  assert.deepEqual(counted(returned, {}, "failed"), only({ dead: 1 }));
});
