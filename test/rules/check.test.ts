import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { InvalidError } from "../../engine/errors.ts";
import { checkFilter, checkNewJobs, checkParams, checkQuery, checkSeries } from "../../engine/rules/check.ts";
import { INSTANT, JSON_MAX_BYTES, KIND, LONGEST_DURATION, QUEUE } from "../../engine/rules/limits.ts";
import { isDuration, isName } from "../../engine/rules/values.ts";
import {
  JOB_STATES,
  type JobFilter,
  type JobQuery,
  type JobState,
  type Limit,
  type NewJob,
  PARENT_STATES,
  type UniqueKey,
} from "../../engine/store.ts";

const letters = "abcdefghijklmnopqrstuvwxyz";
const rest = `${letters}0123456789_.:-`;
const name = (first: string, more: string, maxLength: number): fc.Arbitrary<string> =>
  fc
    .tuple(fc.constantFrom(...first), fc.array(fc.constantFrom(...more), { maxLength: maxLength - 1 }))
    .map(([head, tail]) => head + tail.join(""));
const kind = name(letters + letters.toUpperCase(), rest + letters.toUpperCase(), 128);
const queue = name(rest, rest, 64).filter((text) => text !== "." && text !== "..");
const text = fc.string({ unit: "grapheme" }).filter((value) => !value.includes("\u0000"));
const filled = text.filter((value) => value !== "" && !value.startsWith("kiln."));
const instant = fc.date({ min: new Date(INSTANT.min), max: new Date(INSTANT.max), noInvalidDate: true });

const goodLimit = fc.record({
  key: fc.constantFrom("a", "k".repeat(200)),
  max: fc.integer({ min: 1, max: 1_000_000 }),
  rate: fc.nat(1_000_000),
  per: fc.integer({ min: 1, max: 3_600_000 }),
  burst: fc.integer({ min: 1, max: 1_000 }),
});

const uniqueKey: fc.Arbitrary<UniqueKey> = fc.record({
  key: fc.string({ unit: fc.constantFrom(..."0123456789abcdef"), minLength: 32, maxLength: 32 }),
  window: fc.option(fc.double({ min: 0, minExcluded: true, max: LONGEST_DURATION, noNaN: true }), { nil: null }),
  onConflict: fc.constantFrom("keep", "replace", "debounce"),
});

const goodJob: fc.Arbitrary<NewJob> = fc.record({
  kind,
  queue,
  args: fc.json(),
  priority: fc.integer({ min: -32_768, max: 32_767 }),
  maxAttempts: fc.integer({ min: 1, max: 32_767 }),
  timeout: fc.option(fc.double({ min: 0, max: LONGEST_DURATION, noNaN: true }), { nil: null }),
  delay: fc.double({ max: LONGEST_DURATION, noNaN: true }),
  runAt: fc.option(instant, { nil: null }),
  deadline: fc.option(instant, { nil: null }),
  title: fc.option(text, { nil: null }),
  tags: fc.array(
    text.filter((tag) => tag !== "" && Buffer.byteLength(tag) <= 64),
    { maxLength: 32 },
  ),
  // Some of it kiln's own, which has as much room again.
  meta: fc
    .tuple(fc.dictionary(filled, text, { maxKeys: 64 }), fc.dictionary(filled, text, { maxKeys: 64 }))
    .map(([given, own]) => ({
      ...given,
      ...Object.fromEntries(Object.entries(own).map(([k, v]) => [`kiln.${k}`, v])),
    })),
  recurringId: fc.constantFrom(null, "a", "Nightly_report.eu:1-2", "..."),
  unique: fc.option(uniqueKey, { nil: null }),
  parents: fc.array(fc.record({ id: fc.integer({ min: 1 }), on: fc.subarray([...PARENT_STATES], { minLength: 1 }) })),
  limit: fc.option(goodLimit, { nil: null }),
  batch: fc.constantFrom(null, 1, 2 ** 53 - 1),
  afterBatch: fc.constantFrom(null, 2, 2 ** 52),
});

const nan = Number.NaN;
const badDate = fc.constantFrom(
  new Date(nan),
  new Date(-1),
  new Date(INSTANT.max + 1),
  "2026-01-01" as unknown as Date,
  0 as unknown as Date,
);
const badText = fc.constantFrom("\u0000", "a\u0000b", "\ud800", "\udc00\ud800", 1 as unknown as string);
const tooLong = `"${"a".repeat(JSON_MAX_BYTES - 1)}"`;

const goodKey: UniqueKey = { key: "0".repeat(32), window: null, onConflict: "keep" };
const badKey = fc.constantFrom("", "0".repeat(31), "0".repeat(33), "A".repeat(32), `${"0".repeat(32)}\n`, 1 as never);

const throwing = {
  get key(): string {
    throw new Error("not to be read");
  },
};

const keys = (count: number, start: string): Record<string, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`${start}${n}`, ""]));

/** A value that each field must refuse. */
const bad: { [Field in keyof NewJob]: fc.Arbitrary<NewJob[Field]> } = {
  kind: fc.constantFrom("", "1a", "a b", "é", "a\n", `a${"b".repeat(128)}`, null as unknown as string),
  queue: fc.constantFrom("", ".", "..", "A", "a b", "a\n", "a".repeat(65), 1 as unknown as string),
  args: fc.constantFrom("", "{", "NaN", '"\u0000"', '"\ud800"', tooLong, undefined as unknown as string),
  priority: fc.constantFrom(-32_769, 32_768, 0.5, nan, Number.POSITIVE_INFINITY, "1" as unknown as number),
  maxAttempts: fc.constantFrom(0, -1, 1.5, 32_768, nan, null as unknown as number),
  timeout: fc.constantFrom(-1, nan, Number.POSITIVE_INFINITY, LONGEST_DURATION + 1),
  delay: fc.constantFrom(nan, Number.POSITIVE_INFINITY, LONGEST_DURATION + 1, undefined as unknown as number),
  runAt: badDate,
  deadline: badDate,
  title: badText,
  limit: fc.oneof(
    fc.constantFrom({}, undefined, 1, "limit", throwing).map((value) => value as unknown as Limit),
    fc
      .constantFrom<Partial<Limit>>(
        ...[
          { key: "" },
          { key: "k".repeat(201) },
          { key: "a\u0000" },
          { key: 1 as unknown as string },
          { max: 0, rate: 0 },
        ],
        ...[
          { max: -1 },
          { rate: -1 },
          { per: -1 },
          { burst: -1 },
          { per: 0 },
          { burst: 0 },
          { max: 0.5 },
          { rate: nan },
        ],
        ...[{ rate: 1_000_001 }, { burst: 1_000_000, rate: 1, per: LONGEST_DURATION }, { max: 1, rate: 0, per: -1 }],
      )
      .map((fields) => ({ key: "k", max: 1, rate: 1, per: 1, burst: 1, ...fields })),
  ),
  tags: fc.oneof(
    badText.map((value) => ["good", value]),
    fc.constantFrom(
      [""],
      ["é".repeat(33)],
      Array.from({ length: 33 }, (_, n) => `${n}`),
      { length: 0 } as never,
    ),
  ),
  meta: fc.oneof(
    fc.constantFrom({ "": "a" }, { a: "b".repeat(16 * 1024) }, keys(65, ""), keys(65, "kiln."), [] as never),
    badText.map((value) => ({ good: value })),
    badText.filter((key) => typeof key === "string").map((key) => ({ [key]: "good" })),
  ),
  recurringId: fc.constantFrom("", ".", "..", "a b", "é", "a".repeat(201), 1 as unknown as string),
  unique: fc.oneof(
    badKey.map((key) => ({ ...goodKey, key })),
    fc.constantFrom(0, -1, nan, LONGEST_DURATION + 1, "1" as never).map((window) => ({ ...goodKey, window })),
    fc.constantFrom("", "Keep", undefined, null).map((onConflict) => ({ ...goodKey, onConflict: onConflict as never })),
    fc.constantFrom({}, undefined, 1, "unique").map((value) => value as unknown as UniqueKey),
  ),
  batch: fc.constantFrom(0, -1, 1.5, nan, 2 ** 53, "1", undefined, {}).map((value) => value as number),
  afterBatch: fc.constantFrom(0, -1, 1.5, nan, 2 ** 53, "1", undefined, {}).map((value) => value as number),
  parents: fc.oneof(
    fc.constantFrom(0, -1, 1.5, nan, "1", null, 2 ** 53).map((id) => [{ id: id as number, on: ["failed"] as const }]),
    fc.constantFrom(-1, 5, 0.5, nan, "0", null).map((index) => [{ index: index as number, on: ["failed"] as const }]),
    fc.constantFrom([], ["processing"], ["failed", "x"], undefined, "failed").map((on) => [{ id: 1, on: on as never }]),
    fc.constantFrom(undefined, null, 1, [null], [{}], ["a"]).map((value) => value as unknown as NewJob["parents"]),
  ),
};

function problemsOf(fn: () => unknown): string[] {
  try {
    fn();
  } catch (error) {
    assert.ok(error instanceof InvalidError, `${error}`);
    for (const { value, rule } of error.problems) {
      assert.ok(value.length > 0 && Buffer.byteLength(value) <= 100, "the value is shown, shortly");
      assert.match(rule, /^must /);
    }
    for (const { field } of error.problems) assert.ok(error.message.includes(field), "the message names all");
    return error.problems.map(({ field }) => field);
  }
  return [];
}

test("good jobs pass", () => {
  fc.assert(
    fc.property(fc.array(goodJob, { maxLength: 5 }), (jobs) =>
      assert.deepEqual(
        problemsOf(() => checkNewJobs(jobs)),
        [],
      ),
    ),
  );
});

test("every bad field is named with its position, all at once and nothing else", () => {
  const fields = Object.keys(bad) as (keyof NewJob)[];
  const spoiled = fc
    .tuple(goodJob, fc.subarray(fields, { maxLength: 3 }), fc.record(bad))
    .map(([job, chosen, values]) => ({
      job: { ...job, ...Object.fromEntries(chosen.map((field) => [field, values[field]])) } as NewJob,
      chosen,
    }));
  fc.assert(
    fc.property(fc.array(spoiled, { maxLength: 5 }), (jobs) => {
      const expected = jobs.flatMap(({ chosen }, index) => chosen.map((field) => `jobs[${index}].${field}`));
      const named = problemsOf(() => checkNewJobs(jobs.map(({ job }) => job)));
      // A problem of these names its field within them.
      const fields = named.map((field) => field.replace(/(unique|parents|limit)[.[].*/, "$1"));
      assert.deepEqual([...new Set(fields)].sort(), expected.sort());
    }),
  );
});

test("names are ASCII of the right alphabet and length", () => {
  const any = fc.oneof(kind, queue, fc.string({ unit: "binary" }), fc.string(), fc.anything());
  fc.assert(
    fc.property(any, (value) => {
      if (isName(value, KIND)) assert.match(value, /^[A-Za-z][A-Za-z0-9_.:-]{0,127}$/);
      if (isName(value, QUEUE)) assert.ok(/^[a-z0-9_.:-]{1,64}$/.test(value) && value !== "." && value !== "..");
    }),
  );
  fc.assert(fc.property(kind, (value) => assert.ok(isName(value, KIND))));
  fc.assert(fc.property(queue, (value) => assert.ok(isName(value, QUEUE))));
  for (const value of ["a\n", "a\u0000", "a/b", "a%"]) assert.ok(!isName(value, KIND) && !isName(value, QUEUE));
});

test("durations are from none to a hundred years", () => {
  fc.assert(fc.property(fc.double({ min: 0, max: LONGEST_DURATION, noNaN: true }), (ms) => assert.ok(isDuration(ms))));
  for (const ms of [nan, -1, -Number.MIN_VALUE, Number.POSITIVE_INFINITY, LONGEST_DURATION + 1])
    assert.ok(!isDuration(ms));
});

test("params are JSON of at most 1 MiB each under clean keys; every problem is named", () => {
  fc.assert(
    fc.property(fc.dictionary(text, fc.json()), (params) =>
      assert.deepEqual(
        problemsOf(() => checkParams(params)),
        [],
      ),
    ),
  );
  const params = Object.fromEntries([
    ["good", "1"],
    ["text", "abc"],
    ["long", tooLong],
    ["number", 1 as unknown as string],
    ["\ud800", "1"],
    ["__proto__", "{"],
  ]);
  const named = problemsOf(() => checkParams(params));
  assert.deepEqual(named, [
    "params.text",
    "params.long",
    "params.number",
    String.raw`params["\ud800"]`,
    "params.__proto__",
  ]);
});

test("a filter needs ids or a state, and a state has to be one", () => {
  for (const state of JOB_STATES)
    assert.deepEqual(
      problemsOf(() => checkFilter({ state })),
      [],
    );
  assert.deepEqual(
    problemsOf(() => checkFilter({ ids: [] })),
    [],
  );
  assert.deepEqual(
    problemsOf(() => checkFilter({ queue: "a", kind: "b" })),
    ["filter"],
  );
  fc.assert(
    fc.property(fc.anything(), (state) => {
      fc.pre(state !== undefined && !(JOB_STATES as readonly unknown[]).includes(state));
      const wrong = state as JobState;
      assert.deepEqual(
        problemsOf(() => checkFilter({ ids: [1], state: wrong } as JobFilter)),
        ["state"],
      );
      assert.deepEqual(
        problemsOf(() => checkQuery({ state: wrong })),
        ["state"],
      );
    }),
  );
});

test("a page has from 1 to 500 jobs, by default 20", () => {
  const query = (limit: number): JobQuery => ({ state: "failed", limit });
  assert.equal(checkQuery({ state: "failed" }), 20);
  assert.equal(checkQuery(query(0)), 20);
  fc.assert(fc.property(fc.integer({ min: 1, max: 500 }), (limit) => assert.equal(checkQuery(query(limit)), limit)));
  fc.assert(
    fc.property(
      fc.maxSafeInteger().filter((n) => n > 500),
      (limit) => assert.equal(checkQuery(query(limit)), 500),
    ),
  );
  for (const limit of [-1, 0.5, nan, Number.POSITIVE_INFINITY]) {
    assert.deepEqual(
      problemsOf(() => checkQuery(query(limit))),
      ["limit"],
    );
  }
});

test("a series begins with the bucket that holds `from` and ends before the minute of `to`", () => {
  const step = fc.integer({ min: 1, max: 100_000 }).map((minutes) => minutes * 60_000);
  fc.assert(
    fc.property(instant, instant, step, (from, to, ms) => {
      const range = checkSeries({ from, to, step: ms });
      assert.equal(range.step, ms);
      assert.equal(range.from % ms, 0);
      assert.ok(range.from <= from.getTime() && from.getTime() < range.from + ms);
      assert.equal(range.to % 60_000, 0);
      assert.ok(range.to <= to.getTime() && to.getTime() < range.to + 60_000);
    }),
  );
  const wrong = { from: new Date(nan), to: new Date(INSTANT.max + 1), step: 1 };
  assert.deepEqual(
    problemsOf(() => checkSeries(wrong)),
    ["step", "from", "to"],
  );
  for (const ms of [0, -60_000, 90_000, 60_000.5, nan, Number.POSITIVE_INFINITY]) {
    assert.deepEqual(
      problemsOf(() => checkSeries({ from: new Date(0), to: new Date(0), step: ms })),
      ["step"],
    );
  }
});
