/** Values that break careless stores, and what has to be true of each. */
import assert from "node:assert/strict";
import type { NewJob, Store } from "../../engine/store.ts";
import { allPages, claimOne, end, newJob, only, record, stateOf } from "./support.ts";

const LONE = "\ud800";

export const HOSTILE_TEXTS: readonly string[] = [
  "",
  " ",
  "\u0000",
  "a\u0000b",
  LONE,
  `a${LONE}b`,
  "\udc00\ud800",
  "\ufffd\ufeff\uffff",
  "😀👩‍👩‍👧‍👦e\u0301",
  "\u202eright to left",
  "\r\n\t\u0001\u001b[31m\u007f\u0085\u2028",
  "__proto__",
  "constructor",
  "toString",
  "toJSON",
  "null",
  "'; DROP TABLE jobs; --",
  "\"\\'`$ {} []%_*?",
  "$.a.b",
  "0",
  "1e400",
];

const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);

export const HOSTILE_JSON: readonly string[] = [
  ...HOSTILE_TEXTS.map((text) => JSON.stringify(text)),
  ...HOSTILE_TEXTS.map((text) => `{${JSON.stringify(text)}:${JSON.stringify(text)}}`),
  '{"__proto__":{"polluted":true},"constructor":{"prototype":null}}',
  // JSON.parse takes a lone surrogate that is not escaped; UTF-8 can't hold one.
  `"${LONE}"`,
  '"\\ud800\\u0000\\udfff"',
  '{"a":1,"a":2,"\\u0061":3}',
  "123456789012345678901234567890.123456789",
  "1e400",
  "-0",
  "1E+2",
  " \t\r\n[ 1 , 2 ]\n",
  nested(500),
  nested(5_000),
  nested(100_000),
];

/**
 * The store takes the job and gives it back exactly, wherever it is shown, and the job can be claimed, ended, requeued and
 * deleted; or it refuses the job at once. Server `s1` is registered and nothing else is ready in queue `hostile`.
 */
export async function storedExactlyOrRefused(store: Store, fields: Partial<NewJob>): Promise<void> {
  const job = newJob({ ...fields, queue: "hostile" });
  const what = JSON.stringify(fields).slice(0, 200);
  const inserted = await store.insert([job]).catch((error: { code?: unknown }) => {
    assert.equal(error.code, "invalid", what);
    return null;
  });
  if (inserted === null) return;
  const { id } = only(inserted);
  assertSame(await record(store, id), job, what);
  const claimed = await claimOne(store, { queues: ["hostile"] });
  assert.equal(claimed.id, id);
  assertSame(claimed, job, what);
  await end(store, claimed, "succeeded", { output: job.args });
  assert.equal((await record(store, id)).output, job.args, what);
  assertSame(only(await allPages(store, { state: "succeeded", queue: "hostile" })), job, what);
  for (const tag of job.tags) {
    assert.equal(
      (await allPages(store, { state: "succeeded", queue: "hostile", tag })).length,
      1,
      `found by tag: ${what}`,
    );
  }
  assert.equal(await store.requeue({ ids: [id] }), 1, what);
  assert.equal(await store.delete({ ids: [id] }), 1, what);
  assert.equal(await stateOf(store, id), "deleted");
}

function assertSame(found: Pick<NewJob, "args" | "title" | "tags" | "meta">, job: NewJob, what: string): void {
  // Compared as text first, because a difference of long values is slow to print.
  assert.ok(found.args === job.args, `args: ${what}`);
  assert.equal(found.title, job.title, `title: ${what}`);
  assert.deepEqual(found.tags, job.tags, `tags: ${what}`);
  assert.deepEqual(Object.entries(found.meta).sort(), Object.entries(job.meta).sort(), `meta: ${what}`);
}
