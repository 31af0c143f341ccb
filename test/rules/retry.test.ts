import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { InvalidError, SnoozeError } from "../../engine/errors.ts";
import { type Backoff, constant, defaultBackoff, delays, exponential, retryDelay, snooze } from "../../engine/retry.ts";
import { LONGEST_DURATION } from "../../engine/rules/limits.ts";
import { systemRuntime } from "../../engine/runtime.ts";

const LOWEST = (): number => 0;
/** The largest number that a random function may give. */
const HIGHEST = (): number => 1 - 2 ** -53;
const MINUTE = 60_000;

const attempts = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 2 ** 53 - 1 }));
const randomness = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }).map((value) => () => value);

/** All waits of a job that fails `n` times and then no more. */
function waits(backoff: Backoff, n: number, random: () => number): number[] {
  return Array.from({ length: n - 1 }, (_, index) => backoff(index + 1, null, random));
}

const sum = (list: readonly number[]): number => list.reduce((total, wait) => total + wait, 0);

test("exponential doubles until its limit, of which it takes half to all", () => {
  const backoff = exponential("2s", "2m");
  const full = [2, 4, 8, 16, 32, 64, 120, 120, 120, 120, 120].map((seconds) => seconds * 1_000);
  assert.deepEqual(waits(backoff, 12, HIGHEST), full);
  assert.deepEqual(
    waits(backoff, 12, LOWEST),
    full.map((wait) => wait / 2),
  );
});

test('exponential("2s", "2m") with 12 attempts waits six to twelve minutes in all', () => {
  const backoff = exponential("2s", "2m");
  assert.equal(sum(waits(backoff, 12, LOWEST)), 6 * MINUTE + 3_000);
  assert.equal(sum(waits(backoff, 12, HIGHEST)), 12 * MINUTE + 6_000);
  fc.assert(
    fc.property(fc.infiniteStream(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })), (draws) => {
      const total = sum(waits(backoff, 12, () => draws.next().value as number));
      assert.ok(total >= 363_000 && total <= 726_000, String(total));
    }),
  );
});

test("exponential stays whole and within [half, full] for any base, limit, attempt and draw", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: LONGEST_DURATION }),
      fc.integer({ min: 0, max: LONGEST_DURATION }),
      attempts,
      randomness,
      (base, more, attempt, random) => {
        const limit = Math.min(base + more, LONGEST_DURATION);
        const wait = exponential(base, limit)(attempt, null, random);
        const full = Math.min(base * 2 ** (attempt - 1), limit);
        assert.ok(Number.isInteger(wait) && wait >= full / 2 && wait <= full, `${wait} of ${full}`);
      },
    ),
  );
});

test("constant and delays give what they were given; the last delay repeats", () => {
  assert.deepEqual(waits(constant("5s"), 4, LOWEST), [5_000, 5_000, 5_000]);
  assert.deepEqual(waits(constant(0), 3, LOWEST), [0, 0]);
  assert.deepEqual(waits(delays("1s", 500, "1m"), 6, LOWEST), [1_000, 500, MINUTE, MINUTE, MINUTE]);
  assert.equal(delays("1s", "2s")(2 ** 53 - 1, null, LOWEST), 2_000);
  assert.equal(delays(), defaultBackoff);
});

test("the default backoff is (n - 1)^4 + 15 + n * r seconds", () => {
  assert.equal(defaultBackoff(1, null, LOWEST), 15_000);
  assert.equal(defaultBackoff(1, null, HIGHEST), 44_000);
  assert.equal(defaultBackoff(3, null, LOWEST), 31_000);
  assert.equal(defaultBackoff(3, null, HIGHEST), 31_000 + 3 * 29_000);
  assert.equal(defaultBackoff(10, null, LOWEST), (9 ** 4 + 15) * 1_000);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100 }), randomness, (attempt, random) => {
      const jitter = defaultBackoff(attempt, null, random) - ((attempt - 1) ** 4 + 15) * 1_000;
      assert.ok(jitter % (attempt * 1_000) === 0 && jitter >= 0 && jitter <= attempt * 29_000);
    }),
  );
});

test("no backoff overflows, whatever the attempt", () => {
  fc.assert(
    fc.property(attempts, randomness, (attempt, random) => {
      for (const backoff of [defaultBackoff, exponential(1, LONGEST_DURATION), constant(7), delays(1, 2)]) {
        const wait = backoff(attempt, null, random);
        assert.ok(Number.isInteger(wait) && wait >= 0 && wait <= LONGEST_DURATION, String(wait));
      }
    }),
  );
});

test("all randomness comes from the function that is passed in", () => {
  let draws = 0;
  const random = (): number => {
    draws += 1;
    return 0.5;
  };
  assert.equal(exponential("2s", "2m")(3, null, random), 6_000);
  assert.equal(defaultBackoff(2, null, random), 46_000);
  assert.equal(draws, 2);
});

test("bad arguments are refused, all at once", () => {
  const problems = (fn: () => unknown): string[] => {
    try {
      fn();
    } catch (error) {
      assert.ok(error instanceof InvalidError);
      return error.problems.map(({ field, value }) => `${field}=${value}`);
    }
    return [];
  };
  assert.deepEqual(
    problems(() => exponential(0, "never")),
    ["base=0", 'limit="never"'],
  );
  assert.deepEqual(
    problems(() => exponential("2m", "2s")),
    ['limit="2s"'],
  );
  assert.deepEqual(
    problems(() => exponential(1, LONGEST_DURATION + 1)),
    [`limit=${LONGEST_DURATION + 1}`],
  );
  assert.deepEqual(
    problems(() => constant(-1)),
    ["delays[0]=-1"],
  );
  assert.deepEqual(
    problems(() => delays("1s", Number.NaN, "x")),
    ["delays[1]=NaN", 'delays[2]="x"'],
  );
  assert.deepEqual(
    problems(() => snooze(Number.POSITIVE_INFINITY)),
    ["delay=Infinity"],
  );
  assert.throws(() => exponential("2m", "2s"), /limit must be a duration.* of at least 2m and at most a hundred years/);
});

test("retryDelay makes any backoff usable", () => {
  const fallback = defaultBackoff(2, null, LOWEST);
  const wait = (backoff: unknown): number => retryDelay(backoff as Backoff, 2, null, LOWEST);
  assert.equal(
    wait(() => 1_200.4),
    1_201,
  );
  assert.equal(
    wait(() => -5),
    0,
  );
  assert.equal(
    wait(() => Number.POSITIVE_INFINITY),
    LONGEST_DURATION,
  );
  for (const bad of [() => Number.NaN, () => "5s", () => undefined, () => 5n, null]) assert.equal(wait(bad), fallback);
  assert.equal(
    wait(() => {
      throw new Error("no");
    }),
    fallback,
  );
});

test("a backoff is given the attempt, the error and the randomness", () => {
  const error = new Error("x");
  const backoff: Backoff = (...given) => {
    assert.deepEqual(given, [3, error, LOWEST]);
    return 7;
  };
  assert.equal(retryDelay(backoff, 3, error, LOWEST), 7);
});

test("snooze makes the error that a handler throws", () => {
  const error = snooze("1.5s");
  assert.ok(error instanceof SnoozeError);
  assert.equal(error.delay, 1_500);
});

test("an async backoff is none, and its rejection does not end the process", async (t) => {
  const unhandled: unknown[] = [];
  const note = (error: unknown): number => unhandled.push(error);
  process.on("unhandledRejection", note);
  t.after(() => process.off("unhandledRejection", note));
  const broken = async (): Promise<number> => {
    throw new Error("no");
  };
  assert.equal(
    retryDelay(broken as never, 1, null, () => 0),
    15_000,
  );
  await systemRuntime.turn();
  await systemRuntime.turn();
  assert.deepEqual(unhandled, []);
});
