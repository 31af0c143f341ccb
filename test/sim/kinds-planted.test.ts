/** Each checker of limits, unique keys, dependencies and recurring jobs finds what is wrong, and nothing where all is right. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BatchRecord, NewJob, PutRecurring, UniqueKey } from "kiln";
import { AdmissionSpacing, AdmissionWindows, StartWindows } from "../../sim/invariants/rates.ts";
import type { Checker } from "../../sim/run/history.ts";
import { START } from "../../sim/world/process.ts";
import { KindsStory, NEW } from "./kinds-story.ts";

function right(what: string, story: KindsStory): void {
  test(`right: ${what}`, () => assert.equal(story.verdict, null));
}

function wrong(expected: RegExp, what: string, story: KindsStory, checkers?: readonly Checker[]): void {
  test(`${expected.source.slice(1).split(" ")[0]}: ${what}`, () => {
    const verdict = checkers === undefined ? story.verdict : story.verdictOf(checkers);
    assert.match(verdict ?? "nothing was found", expected);
  });
}

const story = (): KindsStory => new KindsStory();

// ---------------------------------------------------------------------------------------------------------------- rates
/** One in a second, two at once. */
const PACE = { rate: 1, per: 1_000, burst: 2 };
const paced = (count = 9): KindsStory => story().limited(PACE, count);

right("a burst, then one at a time", paced().claim([1, 2]).wait(1_000).claim([3]).wait(1_000).claim([4]));
wrong(
  /^S10 .* admission 3 comes 1000 µs too early/,
  "one millisecond too early",
  paced().claim([1, 2]).wait(999).claim([3]),
);
wrong(/^S10 .* 4 admissions in one window, at most 3/, "four at once", paced().claim([1, 2, 3, 4]), [
  new AdmissionWindows(),
]);
right("after a step forward", paced().claim([1, 2]).step(2_000).claim([3, 4]));
wrong(/^S10 .*too early/, "more than a step forward gives", paced().claim([1, 2]).step(2_000).claim([3, 4, 5]), [
  new AdmissionSpacing(),
]);
right("after a step back", paced().claim([1, 2]).step(-60_000).wait(1_000).claim([3]));
wrong(/^S10 .*too early/, "a step back gives nothing", paced().claim([1, 2]).step(-60_000).wait(999).claim([3]));
wrong(
  /^S10 .*too early/,
  "to and fro",
  paced().claim([1, 2]).step(-5_000).claim([]).step(5_000).wait(999).claim([3, 4, 5, 6, 7, 8, 9]),
  [new AdmissionSpacing()],
);
right(
  "each rule of a key for itself",
  story()
    .limited(PACE, 2)
    .claim([1, 2])
    .limited({ ...PACE, burst: 3 }, 3)
    .claim([3, 4, 5]),
);
wrong(
  /^S10 .*burst 3.*too early/,
  "the new rule broken",
  story()
    .limited(PACE, 2)
    .claim([1, 2])
    .limited({ ...PACE, burst: 3 }, 4)
    .claim([3, 4, 5, 6]),
);
wrong(
  /^S10 .*too early/,
  "a changed `max` is no new rate",
  story()
    .limited(PACE, 2)
    .claim([1, 2])
    .limited({ ...PACE, max: 9 }, 2)
    .claim([3]),
);

right("a start within the slack", paced().claim([1]).wait(500).start(1));
wrong(/^S10 .*starts 502 ms after its admission/, "a late start", paced().claim([1]).wait(502).start(1));
wrong(
  /^S10 .* 5 starts in one window, at most 4/,
  "starts that were held up",
  [1, 2, 3, 4, 5].reduce(
    (held, id) => held.start(id),
    paced().claim([1, 2]).wait(1_000).claim([3]).wait(1_000).claim([4]).wait(1_000).claim([5]),
  ),
  [new StartWindows()],
);

// ---------------------------------------------------------------------------------------------------- admitted in full
wrong(/^S10 .*leaves behind what the limit allows/, "a key that is open", paced().claim([1], { room: 1 }));
right("a key that is closed", paced().claim([1, 2], { room: 1, nextIn: 1_000 }));
wrong(
  /^S10 .*opens in 1000 ms, but the claim says 1001/,
  "told too late",
  paced().claim([1, 2], { room: 1, nextIn: 1_001 }),
);
wrong(/^S10 .*opens in 1000 ms, but the claim says null/, "not told", paced().claim([1, 2], { room: 1 }));
wrong(/^S10 .*job 2 was taken before job 1/, "the wrong order", paced().claim([2]));
wrong(/^S10 .*leaves behind/, "a place of `max` is free", story().limited({ max: 2 }, 2).claim([1], { room: 1 }));
right("all places are taken", story().limited({ max: 1 }, 2).claim([1], { room: 1 }));
right("its queue is paused", paced().call("pauseQueue", ["a"], null).claim([], { room: 5 }));
right("closed by a step back", paced().claim([1, 2]).step(-60_000).wait(5_000).claim([], { room: 1, nextIn: null }));
wrong(
  /^S10 .*leaves behind/,
  "closed by a step back that was swept",
  paced()
    .claim([1, 2])
    .step(-60_000)
    .wait(5_000)
    .call("sweep", [9], 1)
    .claim([], { room: 1, nextIn: 0 })
    .wait(1_200)
    .claim([], { room: 1 }),
);
wrong(
  /^L5 a claim with room left leaves a ready job behind/,
  "a job without a limit",
  story().insert().claim([], { room: 1 }),
);
wrong(/^L7 the leader has not swept/, "no sweep", story().led(60_000, false));
right("sweeps", story().led(60_000));

// ---------------------------------------------------------------------------------------------------------- concurrency
right("as many as may", story().limited({ max: 2 }, 3).claim([1, 2]));
wrong(/^S11 key k: 3 jobs run, at most 2 may/, "one too many", story().limited({ max: 2 }, 3).claim([1, 2]).claim([3]));
right(
  "a place was freed",
  story()
    .limited({ max: 1 }, 2)
    .claim([1])
    .edit("finish", { 1: { state: "succeeded" } })
    .claim([2]),
);
right("more run than the new number", story().limited({ max: 2 }, 2).claim([1, 2]).limited({ max: 1 }));
wrong(
  /^S11 a server with 4 workers runs 5 handlers/,
  "too many handlers",
  [1, 2, 3, 4, 5].reduce((all, id) => all.start(id), story()),
);
right(
  "on two servers",
  [1, 2, 3, 4, 5].reduce((all, id) => all.start(id, `n${id % 2}.1`), story()),
);

// ---------------------------------------------------------------------------------------------------------- unique keys
const unique = (more: Partial<UniqueKey> = {}): Partial<NewJob> => {
  return { unique: { key: "u", window: null, onConflict: "keep", ...more } };
};
const once = (more: Partial<UniqueKey> = {}): KindsStory => story().insert(unique(more));

right("a duplicate", once().duplicate(1, unique()));
wrong(/^S12 it was added although job 1 holds/, "two with one key", once().insert(unique()));
right(
  "after the end",
  once()
    .edit("finish", { 1: { state: "failed" } })
    .insert(unique()),
);
wrong(
  /^S12 a duplicate names a job that does not hold/,
  "a duplicate of nothing",
  story().insert().duplicate(1, unique()),
);
wrong(
  /^S12 a duplicate names/,
  "a duplicate of what has ended",
  once()
    .edit("finish", { 1: { state: "succeeded" } })
    .duplicate(1, unique()),
);
right(
  "within the window",
  once({ window: 500 })
    .edit("finish", { 1: { state: "succeeded" } })
    .wait(499)
    .duplicate(1, unique()),
);
wrong(/^S12 it holds a unique key longer/, "after the window", once({ window: 500 }).wait(500).duplicate(1, unique()));
wrong(/^S12 it was added although/, "before the window is over", once({ window: 500 }).wait(499).insert(unique()));
wrong(
  /^S12 it was requeued although job 2/,
  "two live ones by a requeue",
  once()
    .edit("finish", { 1: { state: "failed" } })
    .insert(unique())
    .edit("requeue", { 1: { state: "enqueued" } }),
);
wrong(
  /^S12 2 live jobs hold one unique key/,
  "two live ones by another way",
  once()
    .edit("finish", { 1: { state: "failed" } })
    .insert(unique())
    .edit("sweep", { 1: { state: "enqueued" } }),
);
const replacing = { ...unique({ onConflict: "replace" }), args: "[2]" };
right("replaced", once().duplicate(1, replacing, { replaced: true, edits: { 1: { args: "[2]" } } }));
wrong(/^S12 a duplicate is said to not replace it/, "not replaced", once().duplicate(1, replacing));
wrong(
  /^S12 it does not have the args/,
  "replaced by half",
  once().duplicate(1, replacing, { replaced: true, edits: { 1: { priority: 0 } } }),
);
wrong(
  /^S12 it does not have the args/,
  "changed by `keep`",
  once().duplicate(1, unique(), { edits: { 1: { args: "[3]" } } }),
);

// --------------------------------------------------------------------------------------------------------- dependencies
const after = (id: number, ...on: ("succeeded" | "failed" | "deleted")[]): Partial<NewJob> => ({
  parents: [{ id, on }],
});
const waiting = (...on: ("succeeded" | "failed" | "deleted")[]): KindsStory =>
  story()
    .insert()
    .insert(after(1, ...on), { state: "awaiting" });
const end = (state: "succeeded" | "failed" | "deleted"): { 1: { state: "succeeded" | "failed" | "deleted" } } => ({
  1: { state },
});

right("it goes on", waiting("succeeded").edit("finish", { ...end("succeeded"), 2: { state: "enqueued" } }));
wrong(/^S13 it still waits although all/, "forgotten", waiting("succeeded").edit("finish", end("succeeded")));
wrong(
  /^S13 it is enqueued although job 1/,
  "too early",
  waiting("succeeded").edit("sweep", { 2: { state: "enqueued" } }),
);
wrong(/^S13 it is processing although job 1/, "run too early", waiting("succeeded").claim([2]));
right("a failed parent may be requeued", waiting("succeeded").edit("finish", end("failed")));
right(
  "doomed",
  waiting("failed").edit("finish", { ...end("succeeded"), 2: { state: "deleted", reason: "parent 1 succeeded" } }),
);
wrong(
  /^S13 it still waits although parent 1 succeeded/,
  "left doomed",
  waiting("failed").edit("finish", end("succeeded")),
);
wrong(
  /^S13 it was deleted for the reason "exhausted"/,
  "the wrong reason",
  waiting("failed").edit("finish", { ...end("succeeded"), 2: { state: "deleted", reason: "exhausted" } }),
);
wrong(
  /^S13 it is enqueued although parent 1 deleted/,
  "run although doomed",
  waiting("succeeded").edit("delete", { ...end("deleted"), 2: { state: "enqueued" } }),
);
right("deleted by hand", waiting("succeeded").edit("delete", { 2: { state: "deleted", reason: "deleted" } }));
right("its parent was removed", waiting("deleted").edit("prune", { 1: null, 2: { state: "enqueued" } }));
wrong(/^S13 it still waits/, "its parent was removed, and it stays", waiting("deleted").edit("prune", { 1: null }));

// -------------------------------------------------------------------------------------------------------------- batches
const batch = (parent: number | null = null): KindsStory => story().call("openBatch", [{ parent }], 1);
/** A batch with one job, and another job that waits for it. */
const pending = (): KindsStory =>
  batch().insert({ batch: 1 }).insert({ afterBatch: 1 }, { state: "awaiting" }).call("sealBatch", [1], null);
const record = (more: Partial<BatchRecord> = {}): BatchRecord =>
  ({
    id: 1,
    total: 1,
    sealed: true,
    counts: { succeeded: 1 },
    nested: 0,
    nestedFinished: 0,
    finishedAt: new Date(),
    ...more,
  }) as BatchRecord;
const done = (): KindsStory => pending().edit("finish", { ...end("succeeded"), 2: { state: "enqueued" } });

right("what waits for a batch goes on", done().claim([2]));
wrong(
  /^S13 it still waits although all/,
  "a batch is done, and nobody notices",
  pending().edit("finish", end("succeeded")),
);
wrong(
  /^S13 it is enqueued although batch 1/,
  "a batch is not done",
  pending().edit("finish", { 2: { state: "enqueued" } }),
);
right("a failed job keeps a batch open", pending().edit("finish", end("failed")));
wrong(
  /^S13 it is enqueued although batch 1/,
  "not sealed",
  batch()
    .insert({ afterBatch: 1 }, { state: "awaiting" })
    .edit("sweep", { 1: { state: "enqueued" } }),
);
wrong(/^S14 a job has joined batch 1, which had finished/, "a latecomer", done().insert({ batch: 1 }));
wrong(/^S14 a batch has joined batch 1/, "a late batch", done().call("openBatch", [{ parent: 1 }], 2));
right(
  "a nested batch keeps the outer one open",
  batch()
    .call("openBatch", [{ parent: 1 }], 2)
    .call("sealBatch", [1], null)
    .insert({ batch: 1 }),
);
right("a record", done().call("batch", [1], record()));
wrong(/^L9 batch 1 is said to have not finished/, "forgotten", done().call("batch", [1], record({ finishedAt: null })));
wrong(/^S14 batch 1 is said to have finished/, "too soon", pending().call("batch", [1], record()));
wrong(
  /^S14 batch 1 is 1 jobs \(1 succeeded\).*but said to be 2 jobs/,
  "miscounted",
  done().call("batch", [1], record({ total: 2 })),
);
wrong(/^S14 there is a batch 7/, "from nowhere", done().call("batch", [7], record({ id: 7 })));

// ------------------------------------------------------------------------------------------------------------ recurring
const MINUTE = 60_000;
const slot = (number: number): Date => new Date(START + number * MINUTE);
const each = (number: number, skipped = 0): NewJob => ({
  ...NEW,
  runAt: slot(number),
  meta: { "kiln.occurrence": slot(number).toISOString(), "kiln.skipped": String(skipped) },
});
const set = (more: Partial<PutRecurring> = {}): KindsStory => {
  const put = {
    id: "r",
    cron: "* * * * *",
    misfire: "once",
    overlap: true,
    version: 0,
    paused: false,
    nextRunAt: slot(1),
  };
  return story().call("putRecurring", [{ ...put, ...more }], 1);
};
/** A leader looks at minute `now` and fires these; the last one that is dealt with is `last`. */
function fire(
  of: KindsStory,
  now: number,
  jobs: readonly NewJob[],
  last: number,
  { version = 1, id = 1, added = jobs.length, next = last + 1 } = {},
): KindsStory {
  of.now = now * MINUTE;
  of.call("dueRecurring", [100], { now: slot(now), rows: [{ id: "r", version }], nextIn: 0 });
  const inserted = jobs
    .slice(0, added)
    .map((_, place) => ({ id: id + place, state: "enqueued", duplicate: false, replaced: false }));
  const rows = inserted.map((job, place) => [job.id, { recurringId: "r", runAt: jobs[place]?.runAt?.getTime() ?? 0 }]);
  const firing = { id: "r", version, lastRunAt: slot(last), nextRunAt: slot(next), jobs };
  return of.call("fireRecurring", [firing], inserted, Object.fromEntries(rows));
}

right("it fires", fire(set(), 1, [each(1)], 1));
right("again", fire(fire(set(), 1, [each(1)], 1), 2, [each(2)], 2, { version: 2, id: 2 }));
wrong(/^S15 .*fires .* instead of/, "another time", fire(set(), 2, [each(1)], 2));
wrong(
  /^S15 .*its version 1 was fired, which is over/,
  "twice",
  fire(fire(set(), 1, [each(1)], 1), 1, [each(1)], 1, { id: 2 }),
);
wrong(/^S15 .*too early/, "too early", fire(set(), 0, [each(1)], 1));
right("those missed are skipped", fire(set(), 4, [each(4, 3)], 4));
wrong(/^S15 .*instead of/, "miscounted", fire(set(), 4, [each(4, 2)], 4));
wrong(/^S15 .*after .* comes/, "one forgotten", fire(set(), 1, [each(1)], 2));
right("all that were missed", fire(set({ misfire: "all" }), 3, [each(1), each(2), each(3)], 3));
wrong(/^S15 .*instead of/, "not all", fire(set({ misfire: "all" }), 3, [each(3, 2)], 3));
right("no more than a minute late", fire(set({ misfire: "skip" }), 4.9, [each(4, 3)], 4));
right("too late", fire(set({ misfire: "skip", nextRunAt: slot(5), cron: "*/5 * * * *" }), 7, [], 5, { next: 10 }));
wrong(/^S15 .*0 jobs were added, not 1/, "lost", fire(set(), 1, [each(1)], 1, { added: 0 }));
wrong(
  /^S15 .*1 jobs were added, not 0; the last one is enqueued/,
  "overlap",
  fire(fire(set({ overlap: false }), 1, [each(1)], 1), 2, [each(2)], 2, { version: 2, id: 2 }),
);
right("passed over", fire(fire(set({ overlap: false }), 1, [each(1)], 1), 2, [each(2)], 2, { version: 2, added: 0 }));
wrong(/^S15 .*no time of/, "set for another time", set({ nextRunAt: new Date(START + 1) }));
wrong(/^S15 .*came from insert/, "a run from nowhere", story().insert({}, { recurringId: "r" }));
wrong(/^L8 recurring job r was due/, "not in time", set().led(120_000));
right("in time", fire(set(), 1, [each(1)], 1).led(40_000));
