/** The arithmetic of rates: the bound in every window, no less than the allowance, clocks that step, rules that change. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { admissible, admit, interval, opening, type Rate } from "../../engine/rules/gcra.ts";

/** Microseconds; the store's clock has whole milliseconds. */
const MS = 1_000;
const START = 1_767_225_600_000_000;

/** Mostly rates that do not divide their period. */
const rate: fc.Arbitrary<Rate> = fc.record({
  rate: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 1_000_000 })),
  per: fc.oneof(fc.constantFrom(1, 997, 1_000, 1_001, 60_000, 3_600_000), fc.integer({ min: 1, max: 100_000 })),
  burst: fc.integer({ min: 1, max: 20 }),
});

/** Steps of the clock in microseconds, from none to a stall of ten periods, some of them close to what decides. */
const gaps = (given: Rate): fc.Arbitrary<number[]> => {
  const t = interval(given);
  const tau = (given.burst - 1) * t;
  const near = [0, 1, t - 1, t, t + 1, tau, tau + 1, given.per * MS - 1, given.per * MS, given.per * MS * 10];
  const gap = fc.oneof(fc.constantFrom(...near), fc.nat(2 * t), fc.nat(given.per * MS));
  return fc.array(gap, { maxLength: 60 });
};

/** What a source that never runs dry gets at each reading; a batch at most of what a claim asks for. */
function saturate(given: Rate, readings: readonly number[], batch = 100): number[] {
  let tat = 0;
  const admitted: number[] = [];
  for (const now of readings) {
    const count = Math.min(admissible(given, tat, now), batch);
    tat = admit(given, tat, now, count);
    for (let n = 0; n < count; n++) admitted.push(now);
  }
  return admitted;
}

const readingsOf = (steps: readonly number[]): number[] => {
  let now = START;
  return steps.map((step) => (now += step));
};

/** All windows of all lengths at once: (j - i) · T ≤ tau + c_j - c_i, for readings in the order of the admissions. */
function assertSpaced(given: Rate, admitted: readonly number[]): void {
  const t = BigInt(interval(given));
  const tau = BigInt(given.burst - 1) * t;
  let least: bigint | null = null;
  admitted.forEach((at, index) => {
    const phase = BigInt(index) * t - BigInt(at);
    if (least === null || phase < least) least = phase;
    assert.ok(phase - least <= tau, `admission ${index} is too early`);
  });
}

/** Most admissions in a closed window of this length. */
function busiest(admitted: readonly number[], length: number): number {
  let [first, most] = [0, 0];
  admitted.forEach((at, index) => {
    while (at - (admitted[first] ?? 0) > length) first += 1;
    most = Math.max(most, index - first + 1);
  });
  return most;
}

const scenario = rate.chain((given) => fc.tuple(fc.constant(given), gaps(given), fc.integer({ min: 1, max: 50 })));

test("no window of any length holds more than its share, and one of length per at most rate + burst", () => {
  fc.assert(
    fc.property(scenario, ([given, steps, batch]) => {
      const admitted = saturate(given, readingsOf(steps), batch);
      assertSpaced(given, admitted);
      assert.ok(busiest(admitted, given.per * MS) <= given.rate + given.burst);
      for (const share of [0, 0.5, 1.7, 3]) {
        const length = Math.floor(given.per * MS * share);
        const bound = Math.floor(length / interval(given)) + given.burst;
        assert.ok(busiest(admitted, length) <= bound);
        assert.ok(bound <= given.rate * share + given.burst);
      }
    }),
    { numRuns: 500 },
  );
});

test("rates that do not divide their period keep the bound, every one of them", () => {
  for (let each = 1; each <= 60; each++) {
    for (const per of [1, 997, 1_001, 60_000]) {
      for (const burst of [1, 3]) {
        const given = { rate: each, per, burst };
        const t = interval(given);
        assert.ok(t * each >= per * MS && (t - 1) * each < per * MS, "T is per ÷ rate, rounded up");
        const steps = [0, ...Array.from({ length: 2 * each }, () => t)];
        assert.ok(busiest(saturate(given, readingsOf(steps)), per * MS) <= each + burst);
      }
    }
  }
});

test("the bound is reached: a burst from rest, then one for each interval", () => {
  const given = { rate: 10, per: 1_000, burst: 4 };
  const steps = [0, ...Array.from({ length: 30 }, () => 100 * MS)];
  const admitted = saturate(given, readingsOf(steps));
  assert.equal(admitted.filter((at) => at === START).length, 4);
  assert.equal(busiest(admitted, 1_000 * MS), 14);
});

test("no less than the allowance: a waiting job is admitted at the opening, and a backlog uses all of the rate", () => {
  fc.assert(
    fc.property(rate, fc.integer({ min: 1, max: 400 }), (given, count) => {
      let [tat, now] = [0, START];
      const admitted: number[] = [];
      while (admitted.length < count) {
        assert.ok(admissible(given, tat, now) > 0, "at the opening one may start");
        tat = admit(given, tat, now, 1);
        admitted.push(now);
        const next = opening(given, tat, now);
        if (next > now) assert.equal(admissible(given, tat, next - 1), 0, "and not a microsecond before");
        now = next;
      }
      assertSpaced(given, admitted);
      const elapsed = (admitted.at(-1) ?? START) - START;
      assert.equal(elapsed, Math.max(count - given.burst, 0) * interval(given));
    }),
  );
});

test("one by one or many at once, what may be admitted at an instant is the same", () => {
  fc.assert(
    fc.property(rate, fc.nat(10_000_000), (given, ahead) => {
      const tat = START + ahead;
      const all = admissible(given, tat, START);
      let [one, left] = [admit(given, tat, START, 0), 0];
      for (; admissible(given, one, START) > 0; left++) one = admit(given, one, START, 1);
      assert.equal(left, all);
      assert.equal(one, admit(given, tat, START, all));
      assert.ok(all <= given.burst);
    }),
  );
});

test("a clock that steps back and forth: never blocked for longer than T, never more in true time than the steps allow", () => {
  const move = fc.oneof(
    { weight: 4, arbitrary: fc.record({ pass: fc.integer({ min: 1, max: 3_000_000 }), step: fc.constant(0) }) },
    {
      weight: 1,
      arbitrary: fc.record({ pass: fc.integer({ min: 1, max: 1_000 }), step: fc.integer({ min: -4e9, max: 4e9 }) }),
    },
  );
  fc.assert(
    fc.property(rate, fc.array(move, { maxLength: 60 }), (given, moves) => {
      const t = interval(given);
      let [truth, offset, tat] = [START, 0, 0];
      const admitted: number[] = [];
      const forward: { readonly at: number; readonly by: number }[] = [];
      for (const { pass, step } of moves) {
        truth += pass;
        offset += step;
        if (step > 0) forward.push({ at: truth, by: step });
        const now = truth + offset;
        assert.ok(opening(given, tat, now) - now <= t, "blocked for at most T");
        const count = admissible(given, tat, now);
        tat = admit(given, tat, now, count);
        assert.ok(admissible(given, tat, now + t) > 0, "and then one may start");
        for (let n = 0; n < count; n++) admitted.push(truth);
      }
      // Forward steps add what they pretend has passed; backward steps nothing.
      admitted.forEach((last, j) => {
        const first = admitted[Math.max(j - given.rate - given.burst - 5, 0)] ?? last;
        const window = admitted.slice(0, j + 1).filter((at) => at >= first);
        const stepped = forward.filter(({ at }) => at > first && at <= last).reduce((sum, { by }) => sum + by, 0);
        const bound = Math.floor((last - first + stepped) / t) + given.burst;
        assert.ok(window.length <= bound, `${window.length} of ${bound} in ${last - first} µs`);
      });
    }),
    { numRuns: 300 },
  );
});

test("rules that change: within one rule its bound, across a change at most both together, and no block from the old one", () => {
  fc.assert(
    fc.property(rate, rate, gaps({ rate: 5, per: 1_000, burst: 2 }), fc.nat(60), (before, after, steps, change) => {
      let tat = 0;
      const admitted: { readonly at: number; readonly rule: Rate }[] = [];
      readingsOf(steps).forEach((now, index) => {
        const rule = index < change ? before : after;
        if (index === change) assert.ok(opening(rule, tat, now) - now <= interval(rule), "applies at once");
        const count = admissible(rule, tat, now);
        tat = admit(rule, tat, now, count);
        assert.ok(admissible(rule, tat, now + interval(rule)) > 0);
        for (let n = 0; n < count; n++) admitted.push({ at: now, rule });
      });
      for (const rule of [before, after]) {
        const own = admitted.filter((each) => each.rule === rule).map(({ at }) => at);
        assertSpaced(rule, own);
        assert.ok(busiest(own, rule.per * MS) <= rule.rate + rule.burst);
      }
    }),
  );
});

test("many claimers of one key, in any order: together they get what one would", () => {
  fc.assert(
    fc.property(
      rate,
      fc.array(fc.record({ pass: fc.nat(100_000), batch: fc.integer({ min: 1, max: 9 }) }), { maxLength: 80 }),
      (given, claims) => {
        let [tat, now] = [0, START];
        const admitted: number[] = [];
        for (const { pass, batch } of claims) {
          now += pass;
          const count = Math.min(batch, admissible(given, tat, now));
          tat = admit(given, tat, now, count);
          for (let n = 0; n < count; n++) admitted.push(now);
        }
        assertSpaced(given, admitted);
      },
    ),
  );
});

test("without a rate everything is admitted, at once and without a trace", () => {
  const none = { rate: 0, per: 0, burst: 0 };
  assert.equal(admissible(none, 5, START), Number.POSITIVE_INFINITY);
  assert.equal(admit(none, 5, START, 1_000), 5);
  assert.equal(opening(none, 5, START), START);
});

test("all is exact up to the largest limits: nothing leaves the whole numbers", () => {
  const century = 100 * 366 * 24 * 3_600_000;
  for (const given of [
    { rate: 1, per: century, burst: 1 },
    { rate: 1_000_000, per: century, burst: 1_000_000 },
    { rate: 1_000_000, per: 1, burst: 1_000_000 },
  ]) {
    const tat = admit(given, 0, START, admissible(given, 0, START));
    assert.ok(Number.isSafeInteger(tat));
    assert.equal(admissible(given, tat, START), 0);
    assert.equal(opening(given, tat, START), START + interval(given));
  }
});
