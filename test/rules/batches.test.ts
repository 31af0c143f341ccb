import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type BatchState, checkJoins, checkNesting, isBatch, namedBatches } from "../../engine/rules/batches.ts";
import { asParent, births, splitParents } from "../../engine/rules/dependencies.ts";
import type { Holder } from "../../engine/rules/unique.ts";
import { newJob } from "../conformance/support.ts";

const STATES: Readonly<Record<number, BatchState>> = {
  ...{ 1: { finished: false, parent: null }, 2: { finished: true, parent: null } },
  ...{ 4: { finished: false, parent: 1 }, 5: { finished: false, parent: 4 } },
};
const batchOf = (id: number): BatchState | undefined => STATES[id];
const batch = fc.constantFrom(null, 1, 2, 3);
const holder = fc.constantFrom<Holder | null>(null, { id: 5, first: true });

test("only an open batch is joined; a duplicate joins none, and need not be able to", () => {
  fc.assert(
    fc.property(fc.array(fc.record({ batch, holder }), { minLength: 1 }), (given) => {
      const jobs = given.map((each) => newJob({ batch: each.batch }));
      const holders = given.map((each) => each.holder);
      const joining = given.map((each) => (each.holder === null ? each.batch : null));
      const bad = joining.findIndex((id) => id === 2 || id === 3);
      const check = (): void => checkJoins(jobs, holders, batchOf);
      if (bad < 0) check();
      else {
        const [code, why] =
          joining[bad] === 2 ? ["batch_closed", "batch 2 has finished"] : ["not_found", "there is no batch 3"];
        assert.throws(check, { code, message: `can't insert: jobs[${bad}].batch: ${why}` });
      }
      assert.deepEqual(namedBatches(jobs, holders).sort(), [...new Set(joining.filter((id) => id !== null))].sort());
    }),
  );
  assert.deepEqual(namedBatches([newJob({ batch: 1, afterBatch: 2 }), newJob()], null), [1, 2]);
});

test("nobody waits for a batch that holds the one that it joins", () => {
  const check = (batch: number, afterBatch: number): void => checkJoins([newJob({ batch, afterBatch })], null, batchOf);
  for (const [batch, afterBatch] of [
    [1, 4],
    [1, 5],
    [4, 5],
    [5, 2],
  ] as const) {
    check(batch, afterBatch);
  }
  for (const [batch, afterBatch] of [
    [4, 1],
    [5, 4],
    [5, 1],
  ] as const) {
    assert.throws(() => check(batch, afterBatch), {
      code: "invalid",
      message: `can't insert: jobs[0].afterBatch must not be a batch that batch ${batch} is nested in, got ${afterBatch}`,
    });
  }
});

test("a batch is nested in an open one only", () => {
  checkNesting(1, batchOf);
  assert.throws(() => checkNesting(2, batchOf), { code: "batch_closed", message: /parent: batch 2 has finished/ });
  assert.throws(() => checkNesting(3, batchOf), { code: "not_found", message: /parent: there is no batch 3/ });
});

test("who waits for a batch has it among its parents: met when it has finished, and never doomed by it", () => {
  const family = { holders: [null], ids: [11], batchOf };
  const birthOf = (afterBatch: number, on: "succeeded" | "deleted" | null): ReturnType<typeof births>[number] => {
    const parents = on === null ? [] : [{ id: 7, on: [on] }];
    const [found] = births({ ...family, jobs: [newJob({ afterBatch, parents })], stateOf: () => "succeeded" });
    return found ?? assert.fail();
  };
  const open = { parent: asParent(1), mask: 7, open: true };
  assert.deepEqual(birthOf(1, null), { links: [open], pending: 1, doomedBy: null });
  assert.deepEqual(birthOf(2, null), {
    links: [{ parent: asParent(2), mask: 7, open: false }],
    ...{ pending: 0, doomedBy: null },
  });
  assert.equal(birthOf(1, "succeeded").pending, 1);
  const doomed = birthOf(1, "deleted");
  assert.deepEqual([doomed.doomedBy, doomed.pending], ["parent 7 succeeded", 0]);
  assert.deepEqual(splitParents(doomed.links.map(({ parent }) => parent)), { parents: [7], afterBatch: 1 });
  assert.throws(() => birthOf(3, null), {
    code: "not_found",
    message: "can't insert: jobs[0].afterBatch: there is no batch 3",
  });
});

test("what a job waits for comes apart again", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 1 })), fc.option(fc.integer({ min: 1 }), { nil: null }), (ids, id) => {
      const all = id === null ? ids : [...ids, asParent(id)];
      assert.deepEqual(splitParents(all), { parents: ids, afterBatch: id });
    }),
  );
});

test("ids of batches are whole numbers from 1", () => {
  for (const id of [1, 2 ** 53 - 1]) assert.equal(isBatch(id), true);
  for (const id of [0, -1, 0.5, Number.NaN, 2 ** 53, "1", null, undefined, {}, 1n]) assert.equal(isBatch(id), false);
});
