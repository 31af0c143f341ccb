/** What `finish` makes of unusual outcomes. */
import assert from "node:assert/strict";
import { JSON_MAX_BYTES, LONGEST_DURATION } from "../../engine/rules/limits.ts";
import type { OutcomeState } from "../../engine/store.ts";
import {
  assertNear,
  at,
  claimOne,
  claimReply,
  clock,
  end,
  finish,
  type Group,
  HOUR,
  insertMany,
  newJobs,
  outcome,
  record,
  register,
  running,
  snapshot,
} from "./support.ts";

export const finishInputCases: Group = {
  async Truncate({ store }) {
    await register(store);
    const cases: [string, number, number, number][] = [
      ["a", 256, 2_048, 8_192],
      // Characters of several bytes are never split.
      ["é", 256, 2_048, 8_192],
      ["日", 255, 2_046, 8_190],
      ["😀", 256, 2_048, 8_192],
    ];
    for (const [character, ...lengths] of cases) {
      const job = await running(store);
      const long = character.repeat(10_000);
      await end(store, job, "failed", { reason: long, error: long, trace: long });
      const { reason, error, trace } = at((await record(store, job.id)).history, 0);
      for (const [index, text] of [reason, error, trace].entries()) {
        assert.equal(Buffer.byteLength(text ?? ""), at(lengths, index));
        assert.ok(long.startsWith(text ?? "?"));
      }
    }
  },

  /** Whatever a handler throws can be stored: NUL is taken out, a lone surrogate replaced. */
  async HostileText({ store }) {
    await register(store);
    const job = await running(store);
    const text = "a\u0000b\ud800c\udc00 '\"\\ \r\n\t\u001b[0m \u2028 😀 {}[] __proto__";
    const clean = "ab\ufffdc\ufffd '\"\\ \r\n\t\u001b[0m \u2028 😀 {}[] __proto__";
    await end(store, job, "scheduled", { delay: HOUR, reason: text, error: text, trace: text });
    await store.requeue({ ids: [job.id] });
    const again = await claimOne(store, { queues: [job.queue] });
    await end(store, again, "failed", { reason: "", error: "", trace: "" });
    const [retry, , last] = (await record(store, job.id)).history;
    assert.deepEqual([retry?.reason, retry?.error, retry?.trace], [clean, clean, clean]);
    assert.deepEqual([last?.reason, last?.error, last?.trace], ["", "", ""]);
  },

  async Rejected({ store }) {
    await register(store);
    const broken = ["", "{", "undefined", '"\u0000"', '"\ud800"', `"${"a".repeat(JSON_MAX_BYTES)}"`];
    for (const output of broken) {
      const [bad, good] = [await running(store), await running(store)];
      const before = await record(store, bad.id);
      const results = await store.finish("s1", [
        outcome(bad, "succeeded", { output }),
        outcome(good, "succeeded", { output: "1" }),
      ]);
      assert.equal(results[0]?.status, "rejected");
      assert.ok(results[0].rule.length > 0, "the rule is named");
      assert.deepEqual(results[1], { status: "applied", state: "succeeded" });
      assert.deepEqual(await record(store, bad.id), before, "nothing was changed");
      await end(store, bad, "failed", { reason: "output rejected" });
    }
    const job = await running(store);
    const largest = `"${"a".repeat(JSON_MAX_BYTES - 2)}"`;
    await end(store, job, "succeeded", { output: largest });
    assert.ok((await record(store, job.id)).output === largest);
  },

  async RejectedState({ store }) {
    await register(store);
    const job = await running(store);
    const before = await snapshot(store);
    for (const state of ["processing", "done", "", "__proto__", "Succeeded", undefined, null, 1]) {
      const result = await finish(store, job, state as OutcomeState, { reason: "retry" });
      assert.equal(result.status, "rejected", `state ${state}`);
    }
    assert.deepEqual(await snapshot(store), before);
    await end(store, job, "succeeded");
  },

  async RejectedDelay({ store, advance }) {
    await register(store);
    const job = await running(store);
    const before = await snapshot(store);
    for (const delay of [Number.NaN, Number.POSITIVE_INFINITY, LONGEST_DURATION + 1, 1e300]) {
      const result = await finish(store, job, "scheduled", { delay, reason: "retry" });
      assert.equal(result.status, "rejected", `delay ${delay}`);
    }
    assert.deepEqual(await snapshot(store), before);
    const now = await clock(store);
    await end(store, job, "scheduled", { delay: LONGEST_DURATION });
    assertNear((await record(store, job.id)).runAt, now + LONGEST_DURATION, "the longest delay");
    await advance(HOUR);
    assert.deepEqual((await claimReply(store, { queues: [job.queue] })).jobs, []);
    // A delay means nothing to a job that does not wait.
    const other = await running(store, { queue: "other" });
    await end(store, other, "succeeded", { delay: Number.NaN });
  },

  async FractionalDelay({ store }) {
    await register(store);
    const job = await running(store);
    const before = await clock(store);
    await end(store, job, "scheduled", { delay: HOUR + 0.25, reason: "retry" });
    assertNear((await record(store, job.id)).runAt, before + HOUR + 1, "runAt");
  },

  async Nothing({ store }) {
    await register(store);
    const before = await snapshot(store);
    assert.deepEqual(await store.finish("s1", []), []);
    assert.deepEqual(await snapshot(store), before);
  },

  async Bulk({ store }) {
    await register(store);
    await insertMany(store, newJobs(3_000));
    const { jobs } = await claimReply(store, { limit: 3_000 });
    assert.equal(jobs.length, 3_000);
    const ends = ["succeeded", "failed", "enqueued"] as const;
    const results = await store.finish(
      "s1",
      jobs.map((job, n) => outcome(job, at(ends, n % 3), { reason: "x" })),
    );
    assert.deepEqual(
      results,
      jobs.map((_, n) => ({ status: "applied", state: at(ends, n % 3) })),
    );
    const { enqueued, processing, succeeded, failed } = await store.counts();
    assert.deepEqual([enqueued, processing, succeeded, failed], [1_000, 0, 1_000, 1_000]);
  },
};
