import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { Client, type EnqueueOptions } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import { LONGEST_DURATION } from "../../engine/rules/limits.ts";
import type { NewJob } from "../../engine/store.ts";
import { hostileProxy, revokedProxy, rulesOf, throwingGetter, world } from "./support.ts";

const mail = defineJob<{ to: string }>("mail");
const order = defineJob<{ to: string }>("order");

/** What the client hands to the store. */
async function sent(options: EnqueueOptions, definition = mail): Promise<NewJob> {
  let seen: readonly NewJob[] = [];
  const { client } = await world([
    (jobs, next) => {
      seen = jobs;
      return next(jobs);
    },
  ]);
  await client.enqueue(definition, { to: "a" }, options);
  assert.equal(seen.length, 1);
  return seen[0] as NewJob;
}

const hash = (kind: string, key: string): string =>
  createHash("sha256")
    .update(kind)
    .update(Buffer.from([0]))
    .update(key)
    .digest("hex")
    .slice(0, 32);

test("the key is the first 16 bytes of SHA-256 over kind, a zero byte and the key", async () => {
  assert.equal((await sent({})).unique, null);
  const plain = { window: null, onConflict: "keep" } as const;
  const byArgs = { key: hash("mail", '{"to":"a"}'), ...plain };
  assert.deepEqual((await sent({ unique: true })).unique, byArgs);
  assert.deepEqual((await sent({ unique: {} })).unique, byArgs);
  assert.deepEqual((await sent({ unique: { key: "é\u2028" } })).unique, { key: hash("mail", "é\u2028"), ...plain });
  const other = (await sent({ unique: true }, order)).unique;
  assert.deepEqual(other, { ...byArgs, key: hash("order", '{"to":"a"}') }, "kinds have keys of their own");
});

test("options become the store's", async () => {
  const windowed = (await sent({ unique: { for: "1m", key: "k" } })).unique;
  assert.deepEqual(windowed, { key: hash("mail", "k"), window: 60_000, onConflict: "keep" });
  assert.equal((await sent({ unique: { replace: true }, delay: 5 })).unique?.onConflict, "replace");
  assert.equal((await sent({ unique: { replace: false } })).unique?.onConflict, "keep");
  const debounced = await sent({ unique: { debounce: "10s" } });
  assert.deepEqual([debounced.unique?.onConflict, debounced.delay], ["debounce", 10_000]);
});

test("enqueue gives the holder's id, enqueueMany what became of each", async () => {
  const { client, record } = await world();
  const id = await client.enqueue(mail, { to: "a" }, { unique: true });
  assert.equal(await client.enqueue(mail, { to: "a" }, { unique: true }), id);
  assert.notEqual(await client.enqueue(mail, { to: "b" }, { unique: true }), id, "other args are another job");
  const next = await client.enqueue(mail, { to: "a" });
  assert.notEqual(next, id, "a plain job is never a duplicate");
  const results = await client.enqueueMany([
    mail.spec({ to: "a" }, { unique: true }),
    mail.spec({ to: "a" }, { unique: { replace: true }, title: "new" }),
    order.spec({ to: "a" }, { unique: true }),
    order.spec({ to: "c" }, { unique: { key: "c" } }),
    order.spec({ to: "d" }, { unique: { key: "c" } }),
  ]);
  assert.deepEqual(
    results.map(({ id: given, duplicate, replaced }) => [given - id, duplicate, replaced]),
    [
      [0, true, false],
      [0, true, false],
      [3, false, false],
      [4, false, false],
      [4, true, false],
    ],
  );
  await client.enqueue(mail, { to: "a" }, { unique: { replace: true }, title: "new" });
  assert.equal((await record(id)).title, "new");
});

test("debounce pushes the job until it is left alone", async () => {
  const { client, record, now } = await world();
  const push = (to: string): Promise<number> => client.enqueue(mail, { to }, { unique: { key: "k", debounce: "10s" } });
  const id = await push("first");
  assert.equal(await push("last"), id);
  const job = await record(id);
  assert.deepEqual([job.args, job.state, job.runAt.getTime()], ['{"to":"last"}', "scheduled", now + 10_000]);
});

test("every bad option is named, and nothing is stored", async () => {
  const { client } = await world();
  const rules = (options: unknown): Promise<string[]> =>
    rulesOf(() => client.enqueue(mail, { to: "a" }, options as EnqueueOptions));
  const both = await rules({ unique: { replace: true, debounce: "1s" } });
  assert.deepEqual(both, ["unique.debounce can't be given together with replace"]);
  assert.deepEqual(await rules({ unique: { debounce: "1s" }, delay: 0 }), [
    "delay can't be given together with unique.debounce",
  ]);
  assert.deepEqual(await rules({ unique: { debounce: "1s" }, runAt: new Date() }), [
    "runAt can't be given together with unique.debounce",
  ]);
  const range = 'must be a duration, in ms or such as "30s", of at least 1ms and at most a hundred years';
  for (const name of ["for", "debounce"]) {
    for (const value of [0, -1, Number.NaN, LONGEST_DURATION + 1, "soon", true, null]) {
      assert.deepEqual(await rules({ unique: { [name]: value } }), [`unique.${name} ${range}`], `${value}`);
    }
  }
  for (const value of ["", "\u0000", "a\ud800", 7, null]) {
    const [rule = "", ...more] = await rules({ unique: { key: value } });
    assert.match(rule, /^unique\.key must be /);
    assert.deepEqual(more, []);
  }
  assert.deepEqual(await rules({ unique: { replace: 1 } }), ["unique.replace must be true or false"]);
  for (const value of [false, "key", 1, Symbol("s"), () => ({})]) {
    assert.deepEqual(await rules({ unique: value }), [
      "unique must be true or an object with key, for, replace or debounce",
    ]);
  }
  for (const value of [null, [], hostileProxy(), revokedProxy(), throwingGetter("key"), { keys: 1 }]) {
    assert.equal((await rules({ unique: value })).length > 0, true);
  }
  assert.equal((await client.counts()).enqueued, 0);
});

test("whatever is given as unique is refused or stored, never thrown on", async () => {
  const { store } = await world();
  const client = new Client(store);
  await fc.assert(
    fc.asyncProperty(fc.oneof(fc.anything(), fc.record({ key: fc.string({ unit: "binary" }) })), async (unique) => {
      await rulesOf(() => client.enqueue(mail, { to: "a" }, { unique } as EnqueueOptions));
    }),
  );
});
