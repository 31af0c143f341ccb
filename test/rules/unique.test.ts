import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { dueAt } from "../../engine/rules/state.ts";
import {
  findHolders,
  isHeld,
  keptKey,
  keyExpiry,
  releasesKey,
  replacement,
  uniqueDueAt,
} from "../../engine/rules/unique.ts";
import { JOB_STATES, type UniqueKey } from "../../engine/store.ts";

const NOW = 1_000_000;
const key = fc.constantFrom("a", "b", "c");
const onConflict = fc.constantFrom<UniqueKey["onConflict"]>("keep", "replace", "debounce");
const unique: fc.Arbitrary<UniqueKey> = fc.record({
  key,
  window: fc.option(fc.double({ min: 1e-6, max: 1e9, noNaN: true }), { nil: null }),
  onConflict,
});
const times = {
  delay: fc.integer({ min: -10, max: 1_000 }),
  runAt: fc.option(
    fc.integer({ min: NOW - 1_000, max: NOW + 1_000 }).map((ms) => new Date(ms)),
    { nil: null },
  ),
};

test("a window ends exactly when it is over; without one a key is held until it is released", () => {
  fc.assert(
    fc.property(unique, (given) => {
      const expiry = keyExpiry(given, NOW);
      if (given.window === null) {
        assert.ok(expiry === null && isHeld(expiry, Number.MAX_SAFE_INTEGER));
        return;
      }
      assert.ok(expiry !== null && Number.isInteger(expiry) && expiry >= NOW + given.window);
      assert.ok(isHeld(expiry, expiry - 1) && !isHeld(expiry, expiry));
      assert.ok(isHeld(expiry, NOW), "even the shortest holds at first");
    }),
  );
});

test("only a key without a window goes with its job", () => {
  assert.equal(keptKey(null), null);
  fc.assert(fc.property(unique, (given) => assert.equal(keptKey(given), given.window === null ? given.key : null)));
  assert.deepEqual(JOB_STATES.filter(releasesKey), ["succeeded", "failed", "deleted"]);
});

test("each key of a call goes to its holder or to its first job, and one duplicate at most may replace", () => {
  const jobs = fc.array(fc.record({ unique: fc.option(unique, { nil: null }) }), { maxLength: 10 });
  fc.assert(
    fc.property(jobs, fc.dictionary(key, fc.nat()), (given, held) => {
      const holders = findHolders(given, (name) => (Object.hasOwn(held, name) ? held[name] : undefined));
      const firsts = new Map<string, number>();
      given.forEach((job, position) => {
        const holder = holders[position];
        if (job.unique === null) {
          assert.equal(holder, null);
          return;
        }
        const { key: name } = job.unique;
        const first = firsts.get(name);
        firsts.set(name, first ?? position);
        if (Object.hasOwn(held, name)) assert.deepEqual(holder, { id: held[name], first: first === undefined });
        else assert.deepEqual(holder, first === undefined ? null : { position: first });
      });
    }),
  );
});

test("debouncing goes by the delay alone, all others by the run time", () => {
  fc.assert(
    fc.property(fc.record({ ...times, unique: fc.option(unique, { nil: null }) }), (job) => {
      const expected = job.unique?.onConflict === "debounce" ? { delay: job.delay, runAt: null } : job;
      assert.equal(uniqueDueAt(job, NOW), dueAt(expected, NOW));
    }),
  );
});

test("only waiting holders are replaced, and a ready one never loses its place for a past time", () => {
  const holder = fc.record({ state: fc.constantFrom(...JOB_STATES), runAt: fc.integer({ min: 0, max: 2 * NOW }) });
  fc.assert(
    fc.property(holder, fc.record({ ...times, unique }), ({ state, runAt }, job) => {
      const to = replacement({ state, runAt }, job, NOW);
      const due = uniqueDueAt(job, NOW);
      const waits = {
        keep: [],
        replace: ["awaiting", "scheduled", "throttled", "enqueued"],
        debounce: ["scheduled"],
      } as const;
      const may = (waits[job.unique.onConflict] as readonly string[]).includes(state);
      if (!may) assert.equal(to, null);
      else if ((state === "enqueued" || state === "throttled") && due <= NOW) assert.deepEqual(to, { state, runAt });
      else assert.deepEqual(to, { state: state === "awaiting" ? state : "scheduled", runAt: due });
    }),
  );
});
