import assert from "node:assert/strict";
import { JSON_MAX_BYTES, LONGEST_DURATION } from "../../engine/rules/limits.ts";
import type { NewJob } from "../../engine/store.ts";
import { HOSTILE_JSON, HOSTILE_TEXTS, storedExactlyOrRefused } from "./hostile.ts";
import {
  assertBetween,
  assertNear,
  at,
  claimIds,
  claimOne,
  claimReply,
  clock,
  DAY,
  type Group,
  HOUR,
  insertMany,
  insertOne,
  newJob,
  newJobs,
  record,
  refused,
  register,
  SLACK,
  snapshot,
  stateOf,
} from "./support.ts";

export const insertCases: Group = {
  async IDs({ store }) {
    const ids: number[] = [];
    for (let call = 0; call < 3; call++) {
      const inserted = await store.insert(newJobs(50));
      assert.equal(inserted.length, 50);
      for (const { id, state } of inserted) {
        assert.ok(Number.isSafeInteger(id) && id > (ids.at(-1) ?? 0), `${id} is larger than ${ids.at(-1)}`);
        assert.equal(state, "enqueued");
        ids.push(id);
      }
    }
    assert.equal((await store.counts()).enqueued, 150);
  },

  async States({ store }) {
    const now = await clock(store);
    const expected: [Partial<NewJob>, "enqueued" | "scheduled"][] = [
      [{}, "enqueued"],
      [{ delay: HOUR }, "scheduled"],
      [{ delay: -HOUR }, "enqueued"],
      [{ runAt: new Date(now + HOUR) }, "scheduled"],
      [{ runAt: new Date(now - HOUR) }, "enqueued"],
      // `runAt` decides when it is given.
      [{ runAt: new Date(now - HOUR), delay: HOUR }, "enqueued"],
      [{ runAt: new Date(now + HOUR), delay: -HOUR }, "scheduled"],
    ];
    const inserted = await store.insert(expected.map(([fields]) => newJob(fields)));
    for (const [index, [fields, state]] of expected.entries()) {
      const { id, state: returned } = at(inserted, index);
      assert.equal(returned, state, `returned for ${JSON.stringify(fields)}`);
      assert.equal(await stateOf(store, id), state, `stored for ${JSON.stringify(fields)}`);
    }
  },

  async Fields({ store }) {
    await register(store);
    const before = await clock(store);
    const deadline = new Date(before + DAY + 123);
    const given = newJob({
      kind: "Mail.send:v2-b_1",
      queue: "out.going:1-a_b",
      args: ' { "b": 1.0, "a": [1e2, 12345678901234567890], "a": "\\u00e9é😀" } ',
      priority: -32_768,
      maxAttempts: 32_767,
      timeout: 12_345,
      deadline,
      title: 'Send "it" 😀',
      tags: ["b", "a", "Ünï ' \" \\ , {}"],
      meta: { z: "1", a: "", "k.é": "😀" },
    });
    const id = await insertOne(store, given);
    const { delay: _delay, runAt: _runAt, unique: _unique, limit: _limit, afterBatch: _after, ...fields } = given;
    const fresh = await record(store, id);
    assert.deepEqual(pick(fresh, fields), fields);
    assert.deepEqual(
      { state: fresh.state, attempt: fresh.attempt, claim: fresh.claim, at: fresh.attemptedAt, server: fresh.server },
      { state: "enqueued", attempt: 0, claim: 0, at: null, server: null },
    );
    assert.deepEqual(
      { end: fresh.finalizedAt, cancel: fresh.cancelRequested, history: fresh.history, output: fresh.output },
      { end: null, cancel: false, history: [], output: null },
    );
    assert.deepEqual(fresh.params, {});
    assertNear(fresh.createdAt, before, "createdAt");
    assertNear(fresh.runAt, before, "runAt");

    const claimed = await claimOne(store, { queues: [given.queue] });
    assert.deepEqual(pick(claimed, fields), fields);
    assert.equal(claimed.attempt, 1);
    assert.ok(claimed.claim >= 1);
    assert.deepEqual(claimed.createdAt, fresh.createdAt);
    assert.deepEqual(claimed.runAt, fresh.runAt);
    assert.deepEqual(claimed.params, {});
    assertNear(claimed.attemptedAt, before, "attemptedAt");
    const processing = await record(store, id);
    assert.deepEqual(pick(processing, fields), fields);
    const { limited, ...kept } = claimed;
    assert.equal(limited, false);
    assert.deepEqual(pick(processing, kept), kept);
    assert.equal(processing.state, "processing");
    assert.equal(processing.server, "s1");
  },

  async Timeouts({ store }) {
    await register(store);
    for (const timeout of [null, 0, 1, LONGEST_DURATION]) {
      const id = await insertOne(store, { timeout });
      assert.equal((await record(store, id)).timeout, timeout);
      assert.equal((await claimOne(store)).timeout, timeout);
    }
    for (const timeout of [-1, Number.NaN, Number.POSITIVE_INFINITY, LONGEST_DURATION + 1]) {
      await refused(store.insert([newJob({ timeout })]), "jobs[0].timeout");
    }
  },

  async RunAt({ store }) {
    const before = await clock(store);
    const delayed = await record(store, await insertOne(store, { delay: HOUR }));
    assertNear(delayed.runAt, before + HOUR, "runAt of a delayed job");
    for (const offset of [2 * HOUR + 7, -HOUR - 7, -before, Date.UTC(9999, 11, 31, 23, 59, 59, 999) - before]) {
      const runAt = new Date(before + offset);
      assert.deepEqual((await record(store, await insertOne(store, { runAt }))).runAt, runAt);
    }
  },

  async Instants({ store }) {
    const wrong = [new Date(Number.NaN), new Date(-1), new Date(Date.UTC(10_000, 0, 1)), new Date(8.64e15)];
    for (const date of wrong) {
      await refused(store.insert([newJob({ runAt: date })]), "jobs[0].runAt");
      await refused(store.insert([newJob({ deadline: date })]), "jobs[0].deadline");
    }
    // A deadline that has passed is the server's affair.
    const id = await insertOne(store, { deadline: new Date(0) });
    assert.deepEqual((await record(store, id)).deadline, new Date(0));
    assert.equal(await stateOf(store, id), "enqueued");
  },

  async Delays({ store }) {
    await register(store);
    for (const delay of [Number.NaN, Number.POSITIVE_INFINITY, LONGEST_DURATION + 1, 1e300]) {
      await refused(store.insert([newJob({ delay })]), "jobs[0].delay");
    }
    for (const delay of [Number.NEGATIVE_INFINITY, -1e300, -1, -0]) {
      const id = await insertOne(store, { delay });
      assert.deepEqual(await claimIds(store), [id], `a delay of ${delay} is none`);
    }
    const before = await clock(store);
    const latest = await insertOne(store, { delay: LONGEST_DURATION });
    assertNear((await record(store, latest)).runAt, before + LONGEST_DURATION, "runAt after the longest delay");
    const { jobs, nextIn } = await claimReply(store);
    assert.deepEqual(jobs, []);
    assertBetween(nextIn, LONGEST_DURATION - SLACK, LONGEST_DURATION, "nextIn");
  },

  /** Instants have whole milliseconds; a delay is never cut short for it. */
  async FractionalDelay({ store }) {
    const before = await clock(store);
    const { runAt, createdAt } = await record(store, await insertOne(store, { delay: HOUR + 0.25 }));
    assert.ok(runAt.getTime() > createdAt.getTime() + HOUR);
    assertNear(runAt, before + HOUR + 1, "runAt");
  },

  async Invalid({ store }) {
    await insertOne(store);
    const before = await snapshot(store);
    const wrong: [keyof NewJob, Partial<NewJob>][] = [
      ...["", "1a", ".a", "a b", "a/b", "é", "a\u0000", `a${"b".repeat(128)}`].map((kind) => one("kind", { kind })),
      ...["", ".", "..", "BAD", "Mail Out", "a/b", "é", "a\u0000", "a".repeat(65)].map((queue) =>
        one("queue", { queue }),
      ),
      ...[0, -1, 1.5, Number.NaN, 32_768].map((maxAttempts) => one("maxAttempts", { maxAttempts })),
      ...[-32_769, 32_768, 0.5, Number.NaN].map((priority) => one("priority", { priority })),
      ...["", "{", '{"a":', "undefined", "{'a':1}", "NaN", '"\u0000"', "{} {}"].map((args) => one("args", { args })),
    ];
    for (const [field, fields] of wrong) {
      await refused(store.insert([newJob(), newJob(fields), newJob()]), `jobs[1].${field}`);
    }
    await refused(
      store.insert(wrong.slice(-10).map(([, fields]) => newJob(fields))),
      "jobs[0].priority",
      "jobs[9].args",
    );
    assert.deepEqual(await snapshot(store), before, "a refused call writes nothing");

    const good = [{ queue: "..." }, { queue: "a".repeat(64) }, { kind: `a${"b".repeat(127)}` }, { args: "null" }];
    assert.equal((await store.insert(good.map((fields) => newJob(fields)))).length, good.length);
  },

  async Size({ store }) {
    await register(store);
    // The limit is in bytes, not in characters.
    const largest = JSON.stringify("é".repeat((JSON_MAX_BYTES - 2) / 2));
    const id = await insertOne(store, { args: largest });
    assert.ok((await record(store, id)).args === largest, "shown as it was");
    assert.ok((await claimOne(store)).args === largest, "claimed as it was");
    await refused(store.insert([newJob(), newJob({ args: `${largest} ` })]), "jobs[1].args");
    assert.equal((await store.counts()).enqueued, 0);
  },

  async HostileArgs({ store }) {
    await register(store);
    await storedExactlyOrRefused(
      store,
      HOSTILE_JSON.map((args) => ({ args })),
    );
  },

  async HostileText({ store }) {
    await register(store);
    await storedExactlyOrRefused(
      store,
      HOSTILE_TEXTS.flatMap((text) => [
        { title: text },
        { tags: ["first", text, "last"] },
        { meta: { key: text } },
        // `fromEntries`, because in a literal `__proto__` would not be a key.
        { meta: Object.fromEntries([[text, "value"]]) },
      ]),
    );
  },

  async Nothing({ store }) {
    const before = await snapshot(store);
    assert.deepEqual(await store.insert([]), []);
    assert.deepEqual(await snapshot(store), before);
  },

  async Bulk({ store }) {
    await register(store);
    const ids = await insertMany(
      store,
      Array.from({ length: 20_000 }, (_, n) => newJob({ args: `{"n":${n}}`, kind: n % 2 === 0 ? "even" : "odd" })),
    );
    assert.equal(new Set(ids).size, 20_000);
    assert.ok(
      ids.every((id, n) => n === 0 || id > at(ids, n - 1)),
      "ids grow in the order given",
    );
    assert.equal((await store.counts()).enqueued, 20_000);
    assert.equal((await record(store, at(ids, 19_999))).args, '{"n":19999}');
    assert.deepEqual(await claimIds(store, { limit: 500 }), ids.slice(0, 500));
  },

  /** What was passed in, or has come out, is no way to change what is stored. */
  async Copies({ store }) {
    await register(store);
    const tags = ["a"];
    const meta: Record<string, string> = { a: "1" };
    const runAt = new Date(1_000);
    const id = await insertOne(store, { tags, meta, runAt, deadline: runAt });
    tags.push("b");
    meta["b"] = "2";
    runAt.setTime(0);
    const expected = { tags: ["a"], meta: { a: "1" }, runAt: new Date(1_000), deadline: new Date(1_000) };
    const shown = await record(store, id);
    assert.deepEqual(pick(shown, expected), expected);
    shown.runAt.setTime(0);
    shown.createdAt.setTime(0);
    // A store may hand out frozen values instead of copies.
    attempt(() => (shown.tags as string[]).push("c"));
    attempt(() => Object.assign(shown.meta, { c: "3" }));
    const claimed = await claimOne(store);
    assert.deepEqual(pick(claimed, expected), expected);
    assert.notEqual(claimed.createdAt.getTime(), 0);
  },
};

function one(field: keyof NewJob, fields: Partial<NewJob>): [keyof NewJob, Partial<NewJob>] {
  return [field, fields];
}

/** The part of `value` that `like` has too. */
function pick(value: object, like: object): unknown {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key in like));
}

function attempt(fn: () => void): void {
  try {
    fn();
  } catch (error) {
    assert.ok(error instanceof TypeError);
  }
}
