import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { dueOccurrences, FIRE_LIMIT, LATE_LIMIT, MISFIRES, SKIPPED_LIMIT } from "../../engine/rules/misfire.ts";

const SECOND = 1_000;

/** Occurrences at these instants and no others; ascending. */
const at =
  (instants: readonly number[]) =>
  (after: number): number | null =>
    instants.find((instant) => instant > after) ?? null;

/** An occurrence every `period`. */
const every =
  (period: number) =>
  (after: number): number =>
    (Math.floor(after / period) + 1) * period;

test("an occurrence that is on time fires, whatever the mode", () => {
  for (const misfire of MISFIRES) {
    const fired = { occurrences: [{ at: 60, skipped: 0 }], last: 60, next: 120 };
    assert.deepEqual(dueOccurrences(every(60), 60, 60, misfire), fired);
    assert.deepEqual(dueOccurrences(every(60), 60, 119, misfire), fired);
  }
});

test("once: the latest of those missed fires and knows how many it stands for", () => {
  const fired = { occurrences: [{ at: 300, skipped: 4 }], last: 300, next: 360 };
  assert.deepEqual(dueOccurrences(every(60), 60, 359, "once"), fired);
});

test("skip: the latest fires when it is at most a minute late, else none does", () => {
  const hourly = every(3_600 * SECOND);
  const due = 3_600 * SECOND;
  const [last, next] = [3 * due, 4 * due];
  const fired = { occurrences: [{ at: last, skipped: 2 }], last, next };
  assert.deepEqual(dueOccurrences(hourly, due, last + LATE_LIMIT, "skip"), fired);
  assert.deepEqual(dueOccurrences(hourly, due, last + LATE_LIMIT + 1, "skip"), { occurrences: [], last, next });
});

test("all: a hundred at a time, the rest stays due", () => {
  const firing = dueOccurrences(every(60), 60, 60 * 250, "all");
  assert.equal(firing.occurrences.length, FIRE_LIMIT);
  assert.deepEqual(firing.occurrences.at(-1), { at: 6_000, skipped: 0 });
  assert.deepEqual([firing.last, firing.next], [6_000, 6_060]);
});

test("a row that was put off fires at no instant that is not an occurrence", () => {
  assert.deepEqual(dueOccurrences(every(60), 61, 100, "once"), { occurrences: [], last: null, next: 120 });
  assert.deepEqual(dueOccurrences(at([10]), 61, 100, "all"), { occurrences: [], last: null, next: null });
});

test("the last occurrence of all fires, and nothing is due any more", () => {
  for (const misfire of MISFIRES) {
    const fired = { occurrences: [{ at: 10, skipped: 0 }], last: 10, next: null };
    assert.deepEqual(dueOccurrences(at([10]), 10, 20, misfire), fired);
  }
});

test("years down cost a bounded number of steps, and the latest is exact", () => {
  let steps = 0;
  const counted = (after: number): number => {
    steps += 1;
    return every(SECOND)(after);
  };
  const now = 10 * 366 * 86_400 * SECOND + 999;
  const { occurrences, next } = dueOccurrences(counted, SECOND, now, "once");
  assert.deepEqual(occurrences, [{ at: now - 999, skipped: SKIPPED_LIMIT }]);
  assert.equal(next, now + 1);
  assert.ok(steps < SKIPPED_LIMIT + 60, `${steps} steps`);
});

test("no occurrence fires twice or is forgotten, whenever someone looks", () => {
  const instants = fc
    .uniqueArray(fc.integer({ min: 1, max: 400 * SECOND }), { minLength: 1, maxLength: 1_500 })
    .map((all) => all.sort((a, b) => a - b));
  const looks = fc.array(fc.integer({ min: 1, max: 100 * SECOND }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(instants, looks, fc.constantFrom(...MISFIRES), (all, pauses, misfire) => {
      const next = at(all);
      let due: number | null = all[0] ?? 0;
      let now = 0;
      const fired: number[] = [];
      let skipped = 0;
      for (const pause of pauses) {
        now += pause;
        while (due !== null && due <= now) {
          const firing = dueOccurrences(next, due, now, misfire);
          const from = all.filter((instant) => instant >= Number(due) && instant <= Number(firing.last));
          fired.push(...firing.occurrences.map((occurrence) => occurrence.at));
          skipped += from.length - firing.occurrences.length;
          const latest = from.at(-1) ?? 0;
          if (misfire === "all")
            assert.deepEqual(
              firing.occurrences.map((one) => one.at),
              from,
            );
          if (misfire === "once")
            assert.deepEqual(
              firing.occurrences.map((one) => one.at),
              [latest],
            );
          if (misfire === "skip") assert.equal(firing.occurrences.length, now - latest <= LATE_LIMIT ? 1 : 0);
          const [only] = firing.occurrences;
          if (misfire !== "all" && only) assert.equal(only.skipped, Math.min(from.length - 1, SKIPPED_LIMIT));
          if (misfire !== "all") assert.ok(firing.next === null || firing.next > now);
          due = firing.next;
        }
      }
      assert.equal(fired.length + skipped, all.filter((instant) => instant <= now).length, "each is dealt with once");
      assert.deepEqual([...new Set(fired)], fired);
    }),
  );
});
