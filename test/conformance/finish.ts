import assert from "node:assert/strict";
import type { Outcome, OutcomeState } from "../../engine/store.ts";
import {
  assertNear,
  at,
  claimIds,
  claimOne,
  clock,
  end,
  finish,
  type Group,
  HOUR,
  insertOne,
  MINUTE,
  outcome,
  reasonsOf,
  record,
  register,
  running,
  snapshot,
  stateOf,
} from "./support.ts";

const STALE = { status: "stale" };

export const finishCases: Group = {
  async Succeeded({ store }) {
    await register(store);
    const before = await clock(store);
    const job = await running(store);
    await end(store, job, "succeeded", { output: '{"sum": 1.0}' });
    const done = await record(store, job.id);
    assert.equal(done.state, "succeeded");
    assert.equal(done.output, '{"sum": 1.0}');
    assertNear(done.finalizedAt, before, "finalizedAt");
    assert.equal(done.attempt, 1);
    assert.equal(done.claim, job.claim);
    assert.equal(done.server, "s1");
    assert.deepEqual(done.attemptedAt, job.attemptedAt);
    assert.deepEqual(done.history, [], "a plain success has no history");
    assert.deepEqual(await claimIds(store, { queues: [job.queue] }), []);
  },

  async Deleted({ store }) {
    await register(store);
    const before = await clock(store);
    const job = await running(store);
    await end(store, job, "deleted", { reason: "deadline", error: "too late", output: "[1]" });
    const done = await record(store, job.id);
    assert.equal(done.state, "deleted");
    assert.equal(done.output, "[1]");
    assertNear(done.finalizedAt, before, "finalizedAt");
    assert.equal(done.history.length, 1);
    const { at: when, ...entry } = at(done.history, 0);
    assertNear(when, before, "at");
    const expected = { attempt: 1, reason: "deadline", error: "too late", trace: null, server: "s1" };
    assert.deepEqual(entry, { state: "deleted", ...expected });
    assert.deepEqual(await claimIds(store, { queues: [job.queue] }), []);
  },

  async Failed({ store }) {
    await register(store);
    const before = await clock(store);
    const job = await running(store);
    const why = { reason: "exhausted", error: "Error: no\ngood", trace: "at a.ts:1\n\tat b.ts:2" };
    assert.deepEqual(await store.finish("leader", [outcome(job, "failed", { ...why, output: "[1]" })]), [
      { status: "applied", state: "failed" },
    ]);
    const done = await record(store, job.id);
    assert.equal(done.state, "failed");
    assert.equal(done.output, null, "output is kept only of jobs that succeeded or were deleted");
    assertNear(done.finalizedAt, before, "finalizedAt");
    assert.deepEqual(done.runAt, job.runAt);
    const { at: when, ...entry } = at(done.history, 0);
    assertNear(when, before, "at");
    assert.deepEqual(entry, { state: "failed", attempt: 1, ...why, server: "leader" });
    assert.equal(done.server, "s1", "the history names who finished it, the job who claimed it");
    assert.deepEqual(await claimIds(store, { queues: [job.queue] }), []);
  },

  async Stale({ store }) {
    await register(store);
    const idle = await insertOne(store);
    const job = await running(store);
    const finished = await running(store);
    await end(store, finished, "failed");
    const good = await running(store);
    const before = await record(store, job.id);
    const wrong = [
      { id: job.id, claim: job.claim + 1 },
      { id: job.id, claim: job.claim - 1 },
      { id: good.id + 1_000, claim: 1 },
      { id: 0, claim: 1 },
      { id: -1, claim: 1 },
      { id: Number.MAX_SAFE_INTEGER, claim: 1 },
      { id: idle, claim: 1 },
      { id: idle, claim: 0 },
      finished,
    ];
    const outcomes = [...wrong.map((ref) => outcome(ref, "succeeded")), outcome(good, "succeeded")];
    const results = await store.finish("s1", outcomes);
    assert.deepEqual(results, [...wrong.map(() => STALE), { status: "applied", state: "succeeded" }]);
    assert.deepEqual(await record(store, job.id), before);
    assert.equal(await stateOf(store, idle), "enqueued");
    assert.equal(await stateOf(store, finished.id), "failed");
  },

  /** The result of an earlier run must not end the later one. */
  async StaleClaim({ store }) {
    await register(store);
    const first = await running(store);
    await end(store, first, "enqueued", { reason: "orphaned" });
    const second = await claimOne(store, { queues: [first.queue] });
    assert.ok(second.claim > first.claim);
    const before = await record(store, first.id);
    for (const state of ["succeeded", "failed", "deleted", "scheduled", "enqueued"] as const) {
      assert.deepEqual(await finish(store, first, state, { output: "1", reason: "retry" }), STALE);
    }
    assert.deepEqual(await record(store, first.id), before);
    await end(store, second, "succeeded");
  },

  async Resend({ store }) {
    await register(store);
    const jobs = [await running(store), await running(store), await running(store), await running(store)];
    const ends = ["succeeded", "failed", "deleted", "scheduled"] as const;
    const outcomes = jobs.map((job, n) => outcome(job, at(ends, n), { delay: HOUR, reason: "retry" }));
    await store.finish("s1", outcomes);
    const before = await snapshot(store);
    for (let n = 0; n < 2; n++) {
      assert.deepEqual(await store.finish("s1", outcomes), [STALE, STALE, STALE, STALE]);
    }
    assert.deepEqual(await snapshot(store), before);
  },

  async Duplicate({ store }) {
    await register(store);
    const job = await running(store);
    const other = await running(store);
    const results = await store.finish("s1", [
      outcome(job, "failed", { reason: "permanent" }),
      outcome(other, "succeeded"),
      outcome(job, "succeeded"),
      outcome(job, "failed", { reason: "exhausted" }),
    ]);
    const applied = (state: string): unknown => ({ status: "applied", state });
    assert.deepEqual(results, [applied("failed"), applied("succeeded"), STALE, STALE]);
    assert.equal(await stateOf(store, job.id), "failed");
    assert.deepEqual(await reasonsOf(store, job.id), ["permanent"]);
    const { failed, succeeded } = await store.counts();
    assert.deepEqual({ failed, succeeded }, { failed: 1, succeeded: 1 });
  },

  async Retry({ store, advance }) {
    await register(store);
    const job = await running(store);
    const before = await clock(store);
    await end(store, job, "scheduled", { delay: HOUR, reason: "retry", error: "no" });
    const waiting = await record(store, job.id);
    assert.deepEqual([waiting.state, waiting.attempt, waiting.finalizedAt], ["scheduled", 1, null]);
    assertNear(waiting.runAt, before + HOUR, "runAt");
    const { state, attempt, reason, error } = at(waiting.history, 0);
    assert.deepEqual(
      { state, attempt, reason, error },
      { state: "scheduled", attempt: 1, reason: "retry", error: "no" },
    );
    assert.deepEqual(await claimIds(store, { queues: [job.queue] }), []);
    await advance(HOUR);
    const again = await claimOne(store, { queues: [job.queue] });
    assert.deepEqual([again.id, again.attempt], [job.id, 2]);
    assert.ok(again.claim > job.claim);
  },

  async RetryNow({ store }) {
    await register(store);
    const job = await running(store);
    let last = job;
    for (const delay of [0, -1, -HOUR, Number.NEGATIVE_INFINITY]) {
      const before = await clock(store);
      await end(store, last, "scheduled", { delay, reason: "retry" }, "enqueued");
      const ready = await record(store, job.id);
      assert.equal(ready.state, "enqueued");
      assertNear(ready.runAt, before, `runAt after a delay of ${delay}`);
      assert.equal(at(ready.history, -1).state, "enqueued");
      last = await claimOne(store, { queues: [job.queue] });
    }
    assert.equal(last.attempt, 5);
  },

  async Refund({ store, advance }) {
    await register(store);
    const job = await running(store);
    const queues = [job.queue];
    await end(store, job, "scheduled", { delay: MINUTE, refund: true, reason: "snoozed" });
    assert.equal((await record(store, job.id)).attempt, 0);
    assert.equal(at((await record(store, job.id)).history, 0).attempt, 1, "the history names the attempt that ran");
    await advance(MINUTE);
    const second = await claimOne(store, { queues });
    assert.equal(second.attempt, 1);
    await end(store, second, "enqueued", { refund: true, reason: "shutdown" });
    assert.equal((await record(store, job.id)).attempt, 0);
    const third = await claimOne(store, { queues });
    assert.equal(third.attempt, 1);
    await end(store, third, "enqueued", { reason: "orphaned" });
    assert.equal((await record(store, job.id)).attempt, 1);
    const fourth = await claimOne(store, { queues });
    assert.equal(fourth.attempt, 2);
    assert.ok(job.claim < second.claim && second.claim < third.claim && third.claim < fourth.claim);
  },

  async Cancel({ store }) {
    await register(store);
    const tries: [OutcomeState, Partial<Outcome>, string[]][] = [
      ["scheduled", { delay: HOUR, reason: "retry" }, ["cancelled"]],
      ["scheduled", { reason: "retry" }, ["cancelled"]],
      ["scheduled", { delay: HOUR, refund: true, reason: "snoozed" }, ["cancelled"]],
      ["enqueued", { refund: true, reason: "shutdown" }, ["cancelled"]],
      ["enqueued", {}, ["cancelled"]],
      ["failed", { reason: "exhausted", error: "no" }, ["cancelled"]],
      ["deleted", { reason: "deadline" }, ["deadline"]],
    ];
    for (const [state, fields, reasons] of tries) {
      const job = await running(store);
      assert.equal(await store.delete({ ids: [job.id] }), 1);
      const marked = await record(store, job.id);
      assert.deepEqual([marked.state, marked.cancelRequested], ["processing", true]);
      await end(store, job, state, fields, "deleted");
      const done = await record(store, job.id);
      assert.equal(done.state, "deleted");
      assert.ok(done.finalizedAt);
      assert.deepEqual(await reasonsOf(store, job.id), reasons);
    }
    const job = await running(store);
    await store.delete({ ids: [job.id] });
    await end(store, job, "succeeded", { output: "1" });
    assert.equal((await record(store, job.id)).output, "1");
    assert.equal((await store.counts()).deleted, tries.length);
  },

  async History({ store }) {
    await register(store);
    const id = await insertOne(store, { maxAttempts: 100 });
    for (let n = 1; n <= 20; n++) {
      const job = await claimOne(store);
      await end(store, job, "scheduled", { reason: `retry ${n}`, error: `error ${n}` }, "enqueued");
    }
    const { history } = await record(store, id);
    const numbers = Array.from({ length: 16 }, (_, n) => n + 5);
    assert.deepEqual(
      history.map(({ attempt, reason, error }) => ({ attempt, reason, error })),
      numbers.map((n) => ({ attempt: n, reason: `retry ${n}`, error: `error ${n}` })),
    );
    const times = history.map((entry) => entry.at.getTime());
    assert.deepEqual(
      times,
      [...times].sort((a, b) => a - b),
    );
    const last = await claimOne(store);
    await end(store, last, "enqueued");
    assert.equal(at((await record(store, id)).history, -1).reason, "retry 20", "without a reason there is no entry");
  },

  /** Only the claim decides: a late result counts as long as nobody has taken the job away. */
  async DeadServer({ store, advance }) {
    await register(store);
    const [late, rescued] = [await running(store), await running(store)];
    await advance(HOUR);
    assert.equal((await store.orphans(10)).length, 2);
    await register(store, "s2");
    const rescue = outcome(rescued, "enqueued", { reason: "orphaned" });
    assert.deepEqual(await store.finish("s2", [rescue]), [{ status: "applied", state: "enqueued" }]);
    const results = await store.finish("s1", [outcome(late, "succeeded"), outcome(rescued, "succeeded")]);
    assert.deepEqual(results, [{ status: "applied", state: "succeeded" }, STALE]);
  },
};
