/** Values that break careless stores, and what has to be true of each. */
import assert from "node:assert/strict";
import type { JobId, NewJob, Store } from "../../engine/store.ts";
import { allPages, ascending, claim, idsOf, newJob, only, outcome, record } from "./support.ts";

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
 * Of each job, the store takes it and gives it back exactly, wherever it is shown, and it can be claimed, ended, requeued
 * and deleted; or it is refused at once. Server `s1` is registered and has no jobs.
 */
export async function storedExactlyOrRefused(store: Store, fields: readonly Partial<NewJob>[]): Promise<void> {
  const stored = new Map<JobId, NewJob>();
  for (const each of fields) {
    const job = newJob(each);
    const id = await idUnlessRefused(store, job);
    if (id === null) continue;
    stored.set(id, job);
    assertSame(await record(store, id), job);
  }
  const ids = [...stored.keys()];
  assert.ok(ids.length > 0, "not all are refused");
  const jobOf = (id: JobId): NewJob => stored.get(id) ?? newJob();

  const claimed = await claim(store, { limit: 1_000 });
  assert.deepEqual(idsOf(claimed), ids);
  for (const job of claimed) assertSame(job, jobOf(job.id));
  const results = await store.finish(
    "s1",
    claimed.map((job) => outcome(job, "succeeded", { output: job.args })),
  );
  assert.deepEqual(new Set(results.map(({ status }) => status)), new Set(["applied"]));
  const shown = await allPages(store, { state: "succeeded", limit: 500 });
  assert.deepEqual(ascending(idsOf(shown)), ids);
  for (const job of shown) {
    assertSame(job, jobOf(job.id));
    assert.ok(job.output === job.args, `output: ${describe(job)}`);
  }
  for (const tag of new Set([...stored.values()].flatMap(({ tags }) => tags))) {
    const found = await allPages(store, { state: "succeeded", tag, limit: 500 });
    const expected = ids.filter((id) => jobOf(id).tags.includes(tag));
    assert.deepEqual(ascending(idsOf(found)), expected, `found by tag ${JSON.stringify(tag)}`);
  }
  assert.equal(await store.requeue({ ids }), ids.length);
  for (const id of ids) assertSame(await record(store, id), jobOf(id));
  assert.equal(await store.delete({ ids }), ids.length);
}

/** Says what `value` says when it is asked first, and `later` from then on; so do the objects within. */
export function fickle<T extends object>(value: T, later: unknown): T {
  const asked = new Set<PropertyKey>();
  return new Proxy(value, {
    get(target, key) {
      const found: unknown = Reflect.get(target, key);
      if (Array.isArray(target) && !/^\d+$/.test(String(key))) return found;
      if (asked.has(key)) return later;
      asked.add(key);
      return typeof found === "object" && found !== null && !(found instanceof Date) ? fickle(found, later) : found;
    },
  });
}

async function idUnlessRefused(store: Store, job: NewJob): Promise<JobId | null> {
  try {
    return only(await store.insert([job])).id;
  } catch (error) {
    assert.equal((error as { code?: unknown }).code, "invalid", describe(job));
    return null;
  }
}

type Payload = Pick<NewJob, "args" | "title" | "tags" | "meta">;

const describe = ({ args, title, tags, meta }: Payload): string =>
  JSON.stringify({ args: args.slice(0, 100), title, tags, meta });

function assertSame(found: Payload, job: NewJob): void {
  // Compared as text first, because a difference of long values is slow to print.
  assert.ok(found.args === job.args, `args: ${describe(job)}`);
  assert.equal(found.title, job.title, `title: ${describe(job)}`);
  assert.deepEqual(found.tags, job.tags, `tags: ${describe(job)}`);
  assert.deepEqual(Object.entries(found.meta).sort(), Object.entries(job.meta).sort(), `meta: ${describe(job)}`);
}
