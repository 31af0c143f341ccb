/** The checker of the chaos finds what it is there to find. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { HistoryEntry, JobRecord } from "../../engine/store.ts";
import { type Line, toRuns } from "./log.ts";
import { type Evidence, type Run, verdict } from "./verdict.ts";

const AT = new Date(0);

function recordOf(fields: Partial<JobRecord>): JobRecord {
  return {
    ...{ id: 1, claim: 1, kind: "plain", queue: "default", args: "{}", priority: 0, attempt: 1, maxAttempts: 3 },
    ...{ timeout: null, runAt: AT, deadline: null, createdAt: AT, title: null, tags: [], meta: {}, params: {} },
    ...{
      recurringId: null,
      limitKey: null,
      batch: null,
      afterBatch: null,
      parents: [],
      pendingParents: 0,
      children: [],
    },
    ...{
      state: "succeeded",
      attemptedAt: AT,
      finalizedAt: AT,
      server: "s",
      cancelRequested: false,
      history: [],
      progress: null,
    },
    output: null,
    ...fields,
  };
}

function orphaned(attempt: number): HistoryEntry {
  return { at: AT, state: "enqueued", attempt, reason: "orphaned", error: null, trace: null, server: "s" };
}

function runOf(fields: Partial<Run>): Run {
  return { id: 1, attempt: 1, process: "a", start: 0, end: 10, how: "returned", ...fields };
}

/** What is found in the story of one job that has to succeed. */
function judge(runs: readonly Run[], record: Partial<JobRecord> = {}, rest: Partial<Evidence> = {}): string[] {
  return verdict({
    expected: [{ id: 1, kind: "plain", state: "succeeded" }],
    records: new Map([[1, recordOf(record)]]),
    runs,
    cutOff: new Set(["killed"]),
    rows: { live: 0, archived: 1 },
    ...rest,
  });
}

const KILLED = runOf({ process: "killed", how: "killed" });

test("nothing is found in stories as they should be", () => {
  assert.deepEqual(judge([runOf({})]), []);
  const second = runOf({ attempt: 2, start: 10, end: 20 });
  assert.deepEqual(judge([second, runOf({ how: "threw" })], { attempt: 2 }), []);
  assert.deepEqual(judge([KILLED, second], { attempt: 2 }), []);
  // What a killed process could not store.
  assert.deepEqual(judge([{ ...KILLED, how: "returned" }, second], { attempt: 2 }), []);
  // Claimed by a process that was killed before the handler began.
  assert.deepEqual(judge([second], { attempt: 2, history: [orphaned(1)] }), []);
  // Handed back at shutdown: the number comes again.
  assert.deepEqual(judge([runOf({ how: "shutdown" }), runOf({ start: 10, end: 20 })]), []);
  // A fenced run is handed back or rescued.
  assert.deepEqual(judge([runOf({ how: "fenced" }), runOf({ start: 10, end: 20 })]), []);
  assert.deepEqual(judge([runOf({ how: "fenced" }), second], { attempt: 2 }), []);
});

test("a lost job", () => {
  assert.deepEqual(judge([runOf({})], {}, { records: new Map() }), ["job 1 (plain) is lost"]);
  assert.deepEqual(judge([runOf({})], {}, { rows: { live: 0, archived: 0 } }), [
    "1 jobs were enqueued, 0 are live and 0 archived",
  ]);
});

test("a job that is not where it has to end", () => {
  assert.deepEqual(judge([runOf({})], { state: "processing" }), ["job 1 (plain) ended as processing, not succeeded"]);
  assert.deepEqual(judge([runOf({ how: "threw" })]), ["job 1 (plain) never succeeded"]);
});

test("two runs at once, also of one that was killed", () => {
  const second = runOf({ attempt: 2, start: 9.5, end: 20 });
  const problem = "job 1 (plain): attempt 2 began 0.5 ms before the end of a run";
  assert.deepEqual(judge([runOf({ how: "threw" }), second], { attempt: 2 }), [problem]);
  assert.deepEqual(judge([KILLED, second], { attempt: 2 }), [problem]);
  // The third within the first, which the second does not hide.
  const long = runOf({ how: "threw", end: 100 });
  const short = runOf({ attempt: 2, start: 20, end: 30, how: "threw" });
  const third = runOf({ attempt: 3, start: 50, end: 60 });
  assert.deepEqual(judge([long, short, third], { attempt: 3 }), [
    "job 1 (plain): attempt 2 began 80.0 ms before the end of a run",
    "job 1 (plain): attempt 3 began 50.0 ms before the end of a run",
  ]);
});

test("an attempt beyond the maximum", () => {
  const runs = [1, 2, 3, 4].map((attempt) =>
    runOf({ attempt, start: attempt * 10, end: attempt * 10 + 5, how: attempt === 4 ? "returned" : "threw" }),
  );
  assert.deepEqual(judge(runs, { attempt: 4 }), ["job 1 (plain) had attempt 4 of 3"]);
});

test("attempts that are not numbered one by one", () => {
  const third = runOf({ attempt: 3, start: 10, end: 20 });
  assert.deepEqual(judge([runOf({ how: "threw" }), third], { attempt: 3 }), [
    "job 1 (plain): nothing is known of attempt 2 before attempt 3",
  ]);
  assert.deepEqual(judge([runOf({ how: "threw" }), runOf({ start: 10, end: 20 })]), [
    "job 1 (plain): attempt 1 was repeated",
  ]);
  assert.deepEqual(judge([runOf({})], { attempt: 2 }), ["job 1 (plain): nothing is known of attempt 2 before the end"]);
  // Handing back at shutdown must not use an attempt.
  assert.deepEqual(judge([runOf({ how: "shutdown" }), runOf({ attempt: 2, start: 10, end: 20 })], { attempt: 2 }), [
    "job 1 (plain): nothing is known of attempt 1 before attempt 2",
  ]);
  assert.deepEqual(judge([runOf({ how: "threw" }), runOf({ attempt: 2, start: 10, end: 20 })]), [
    "job 1 (plain) had 2 attempts, its record says 1",
  ]);
});

test("a run after a success that must have been stored", () => {
  assert.deepEqual(judge([runOf({}), runOf({ attempt: 2, start: 10, end: 20 })], { attempt: 2 }), [
    "job 1 (plain) ran again after attempt 1 had succeeded",
  ]);
});

test("a run that its server has left behind", () => {
  const runs = [runOf({ how: "killed" }), runOf({ attempt: 2, start: 10, end: 20 })];
  assert.deepEqual(judge(runs, { attempt: 2 }), ["job 1 (plain): attempt 1 never came to an end"]);
});

test("a job that nobody enqueued", () => {
  assert.deepEqual(judge([runOf({}), runOf({ id: 7 })]), ["job 7 ran though it was never enqueued"]);
});

test("runs are read from what a worker wrote: those that are open were killed", () => {
  const lines: readonly Line[] = [
    { type: "start", id: 1, attempt: 1, at: 1 },
    { type: "start", id: 2, attempt: 1, at: 2 },
    { type: "end", id: 1, attempt: 1, at: 3, how: "threw" },
    { type: "start", id: 1, attempt: 2, at: 4 },
  ];
  assert.deepEqual(toRuns("w", lines, 9), [
    { id: 1, attempt: 1, process: "w", start: 1, end: 3, how: "threw" },
    { id: 2, attempt: 1, process: "w", start: 2, end: 9, how: "killed" },
    { id: 1, attempt: 2, process: "w", start: 4, end: 9, how: "killed" },
  ]);
});
