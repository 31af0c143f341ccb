import assert from "node:assert/strict";
import { test } from "node:test";
import { checkNewJobs } from "../../engine/rules/check.ts";
import { occurrenceJob, occurrenceOf, templateJob } from "../../engine/rules/recurring.ts";
import { UNFINISHED } from "../../engine/rules/state.ts";
import type { RecurringTemplate } from "../../engine/store.ts";
import { recurringOf } from "../conformance/recurring.ts";

test("the occurrence that a job is the run for is read back from it", () => {
  const at = Date.UTC(2026, 2, 8, 7, 30);
  const job = occurrenceJob(recurringOf(), { at, skipped: 3 });
  assert.deepEqual(job.meta, { "kiln.occurrence": "2026-03-08T07:30:00.000Z", "kiln.skipped": "3" });
  assert.deepEqual([job.recurringId, job.runAt, job.delay, job.deadline], ["a", new Date(at), 0, null]);
  assert.deepEqual(occurrenceOf(job), { at: new Date(at), skipped: 3 });
});

test("a template that was stored before jobs had keys, parents and limits still makes jobs", () => {
  const { unique: _unique, parents: _parents, limit: _limit, ...older } = recurringOf().template;
  const job = templateJob(older as RecurringTemplate, "a", null);
  assert.deepEqual([job.unique, job.parents, job.limit], [null, [], null]);
  checkNewJobs([job]);
});

test("other jobs are the run for none, whatever their meta says", () => {
  const meta = { "kiln.occurrence": "2026-03-08T07:30:00.000Z" };
  assert.equal(occurrenceOf({ recurringId: null, meta }), null);
  assert.equal(occurrenceOf({ recurringId: "a", meta: {} }), null);
  assert.equal(occurrenceOf({ recurringId: "a", meta: { "kiln.occurrence": "soon" } }), null);
  assert.equal(occurrenceOf({ recurringId: "a", meta: { ...meta, "kiln.skipped": "x" } })?.skipped, 0);
});

test("a job that waits or runs is unfinished, a failed one is not", () => {
  assert.deepEqual(
    ["scheduled", "enqueued", "processing"].every((state) => (UNFINISHED as readonly string[]).includes(state)),
    true,
  );
  for (const state of ["failed", "succeeded", "deleted"] as const) assert.ok(!UNFINISHED.includes(state));
});
