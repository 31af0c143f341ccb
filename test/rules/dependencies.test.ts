import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Problems } from "../../engine/problems.ts";
import {
  births,
  isParentState,
  maskOf,
  namedParents,
  parentReason,
  parentsFirst,
  refuseCycle,
  released,
  verdict,
} from "../../engine/rules/dependencies.ts";
import type { Holder } from "../../engine/rules/unique.ts";
import { JOB_STATES, type JobState, type NewJob, PARENT_STATES, type Parent } from "../../engine/store.ts";
import { newJob } from "../conformance/support.ts";

const on = fc.subarray([...PARENT_STATES], { minLength: 1 });

/** For each of a few jobs, the positions that it waits for. */
const graph = fc
  .integer({ min: 1, max: 8 })
  .chain((size) => fc.array(fc.array(fc.nat(size - 1), { maxLength: 3 }), { minLength: size, maxLength: size }));

/** Can the job be reached again from itself? */
function waitsForItself(parents: readonly (readonly number[])[], start: number): boolean {
  const seen = new Set<number>();
  const look = [...(parents[start] ?? [])];
  for (let next = look.pop(); next !== undefined; next = look.pop()) {
    if (next === start) return true;
    if (!seen.has(next)) look.push(...(parents[next] ?? []));
    seen.add(next);
  }
  return false;
}

const jobsOf = (parents: readonly (readonly number[])[]): NewJob[] =>
  parents.map((positions) => newJob({ parents: positions.map((index) => ({ index, on: ["succeeded"] })) }));

test("an end is met when it is asked for; otherwise only a failed parent is waited for", () => {
  fc.assert(
    fc.property(on, fc.constantFrom(...PARENT_STATES), (asked, end) => {
      const mask = maskOf(asked);
      assert.ok(mask >= 1 && mask <= 7);
      const expected = asked.includes(end) ? "met" : end === "failed" ? "open" : "doomed";
      assert.equal(verdict(mask, end), expected);
      assert.equal(verdict(mask, "pruned"), verdict(mask, "deleted"), "a removed job counts as deleted");
    }),
  );
  assert.deepEqual(JOB_STATES.filter(isParentState), [...PARENT_STATES]);
  assert.equal(parentReason(7, "pruned"), "parent 7 pruned");
});

test("a released job is due at its time, but never before it was released", () => {
  fc.assert(
    fc.property(fc.nat(), fc.nat(), (runAt, now) => {
      const to = released(runAt, now);
      assert.deepEqual(to, runAt > now ? { state: "scheduled", runAt } : { state: "enqueued", runAt: now });
    }),
  );
});

test("parents come first, and exactly those that wait for a cycle are left out", () => {
  fc.assert(
    fc.property(graph, (parents) => {
      const order = parentsFirst(parents);
      assert.equal(new Set(order).size, order.length);
      for (const [place, position] of order.entries()) {
        for (const parent of parents[position] ?? [])
          assert.ok(order.indexOf(parent) < place && order.includes(parent));
      }
      const cyclic = parents.some((_, position) => waitsForItself(parents, position));
      assert.equal(order.length < parents.length, cyclic);
    }),
  );
});

test("a cycle is refused, naming jobs that are in it", () => {
  fc.assert(
    fc.property(graph, (parents) => {
      const problems = new Problems();
      refuseCycle(jobsOf(parents), problems);
      const cyclic = parents.some((_, position) => waitsForItself(parents, position));
      assert.equal(problems.count, cyclic ? 1 : 0);
      const [problem] = problems.error("no")?.problems ?? [];
      if (problem === undefined) return;
      const path = (/\(jobs (.*) of the call\)/.exec(problem.rule)?.[1] ?? "").split(" → ").map(Number);
      assert.ok(path.length >= 2 && path[0] === path.at(-1));
      assert.equal(problem.field, `jobs[${path[0]}].parents`);
      for (const [step, position] of path.entries()) {
        const next = path[step + 1];
        if (next !== undefined) assert.ok(parents[position]?.includes(next), `${position} waits for ${next}`);
      }
    }),
  );
});

test("a long chain needs no deep stack", () => {
  const length = 100_000;
  const chain = Array.from({ length }, (_, n) => (n === 0 ? [] : [n - 1]));
  assert.equal(parentsFirst(chain).length, length);
  const problems = new Problems();
  refuseCycle(jobsOf(chain.map((parents, n) => (n === 0 ? [length - 1] : parents))), problems);
  assert.equal(problems.count, 1);
});

const parent: fc.Arbitrary<Parent> = fc.oneof(
  fc.record({ id: fc.integer({ min: 1, max: 6 }), on }),
  fc.record({ index: fc.nat(3), on }),
);

test("a new job is doomed by any parent that can't be met, else waits for those that are open", () => {
  const states = fc.array(fc.constantFrom(...JOB_STATES), { minLength: 6, maxLength: 6 });
  const parents = fc.array(parent, { maxLength: 4 });
  fc.assert(
    fc.property(
      states,
      parents,
      fc.constantFrom<Holder | null>(null, { id: 5, first: true }),
      (known, named, second) => {
        // Jobs 0 to 3 of the call have no parents; the second may be a duplicate of job 5; the last one is looked at.
        const jobs = [newJob(), newJob(), newJob(), newJob(), newJob({ parents: named })];
        const holders = [null, second, null, null, null];
        const ids = [101, 102, 103, 104, 105];
        const stateOf = (id: number): JobState | undefined => known[id - 1];
        const last = births({ jobs, holders, ids, stateOf, batchOf: () => undefined })[4];
        assert.ok(last);
        const idOf = (each: Parent): number =>
          "id" in each ? each.id : each.index === 1 && second !== null ? 5 : (ids[each.index] ?? 0);
        const expected = new Map<number, number>();
        for (const each of named) expected.set(idOf(each), maskOf(each.on) & (expected.get(idOf(each)) ?? 7));
        const verdicts = [...expected].map(([id, mask]) => {
          const state = stateOf(id);
          return state !== undefined && isParentState(state) ? verdict(mask, state) : "open";
        });
        const doomed = verdicts.indexOf("doomed");
        assert.deepEqual(
          last.links.map(({ parent: id, mask }) => [id, mask]),
          [...expected],
        );
        const by = [...expected.keys()][doomed] ?? 0;
        assert.equal(last.doomedBy, doomed < 0 ? null : `parent ${by} ${stateOf(by)}`);
        assert.equal(last.pending, doomed < 0 ? verdicts.filter((each) => each === "open").length : 0);
        assert.equal(last.links.filter(({ open }) => open).length, last.pending);
        const asked = named.map(idOf).filter((id) => id <= 6);
        assert.deepEqual(namedParents(jobs, holders).sort(), [...new Set(asked)].sort());
      },
    ),
  );
});

test("doom goes on within a call, whatever the order of the jobs", () => {
  const one = (index: number, ...asked: Parent["on"]): NewJob => newJob({ parents: [{ index, on: asked }] });
  const dead = newJob({ parents: [{ id: 1, on: ["succeeded"] }] });
  const jobs = [one(1, "succeeded"), one(2, "succeeded", "failed"), dead, one(0, "deleted"), one(3, "succeeded")];
  const ids = [11, 12, 13, 14, 15];
  const family = { jobs, holders: jobs.map(() => null), ids, batchOf: () => undefined };
  const found = births({ ...family, stateOf: () => "deleted" });
  const reasons = found.map(({ doomedBy }) => doomedBy);
  assert.deepEqual(reasons, ["parent 12 deleted", "parent 13 deleted", "parent 1 deleted", null, null]);
  assert.deepEqual(
    found.map(({ pending }) => pending),
    [0, 0, 0, 0, 1],
  );
});
