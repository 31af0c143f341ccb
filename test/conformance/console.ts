/** Log lines and progress of running jobs. */
import assert from "node:assert/strict";
import { CONSOLE } from "../../engine/rules/limits.ts";
import { cleanText } from "../../engine/rules/text.ts";
import type { ConsoleLine, JobId, JobRef, Store } from "../../engine/store.ts";
import { HOSTILE_TEXTS } from "./hostile.ts";
import {
  assertNear,
  at,
  claimOne,
  clock,
  DAY,
  end,
  type Group,
  HOUR,
  insertOne,
  MINUTE,
  only,
  record,
  refused,
  register,
  running,
  snapshot,
} from "./support.ts";

/** All lines, over as many pages as it takes. */
async function linesOf(store: Store, id: JobId, limit = 500): Promise<ConsoleLine[]> {
  const lines: ConsoleLine[] = [];
  for (;;) {
    const page = await store.consoleLines({ id, after: lines.at(-1)?.seq ?? 0, limit });
    if (page.length === 0) return lines;
    assert.ok(page.length <= limit, "a page is not longer than its limit");
    lines.push(...page);
  }
}

const textsOf = async (store: Store, id: JobId): Promise<string[]> =>
  (await linesOf(store, id)).map(({ text }) => text);

const attemptsOf = async (store: Store, id: JobId): Promise<number[]> =>
  (await linesOf(store, id)).map(({ attempt }) => attempt);

const write = (store: Store, ref: JobRef, ...lines: readonly string[]): Promise<void> =>
  store.writeConsole(ref, { lines, progress: null });

const report = (store: Store, ref: JobRef, progress: number): Promise<void> =>
  store.writeConsole(ref, { lines: [], progress });

const progressOf = async (store: Store, id: JobId): Promise<number | null> => (await record(store, id)).progress;

export const consoleCases: Group = {
  async Fencing({ store }) {
    await register(store);
    const idle = await insertOne(store);
    const job = await running(store);
    await store.writeConsole(job, { lines: ["kept"], progress: 10 });
    const finished = await running(store);
    await end(store, finished, "succeeded");
    const failed = await running(store);
    await end(store, failed, "failed");
    const lost: JobRef[] = [
      { id: job.id, claim: job.claim + 1 },
      { id: job.id, claim: job.claim - 1 },
      { id: job.id + 1_000, claim: 1 },
      { id: idle, claim: 0 },
      { id: idle, claim: 1 },
      finished,
      failed,
    ];
    const before = await snapshot(store);
    for (const ref of lost) {
      for (const lines of [[], ["lost"]]) {
        for (const progress of [null, 99]) {
          await assert.rejects(store.writeConsole(ref, { lines, progress }), { code: "claim_lost" });
        }
      }
    }
    assert.deepEqual(await snapshot(store), before);
    assert.deepEqual(await textsOf(store, job.id), ["kept"]);
    for (const id of [idle, finished.id, failed.id, job.id + 1_000]) assert.deepEqual(await textsOf(store, id), []);
  },

  async Order({ store, advance }) {
    await register(store);
    const job = await running(store);
    const other = await running(store);
    const first = ["", "\ttabs \"quotes\" 'and' back\\slash", "new\nline\n", "é日😀", "x".repeat(CONSOLE.lineMaxBytes)];
    const started = await clock(store);
    await write(store, job, ...first);
    await write(store, other, "of another job");
    await advance(MINUTE);
    const second = Array.from({ length: 300 }, (_, n) => `line ${n}`);
    await write(store, job, ...second);
    await write(store, job);

    const lines = await linesOf(store, job.id, 7);
    assert.deepEqual(
      lines.map(({ text }) => text),
      [...first, ...second],
    );
    lines.reduce((before, { seq }) => {
      assert.ok(Number.isSafeInteger(seq) && seq > before, `${seq} is after ${before}`);
      return seq;
    }, 0);
    lines.forEach((line, index) => {
      assert.deepEqual(Object.keys(line).sort(), ["at", "attempt", "seq", "text"]);
      assertNear(line.at, started + (index < first.length ? 0 : MINUTE), "the store's time");
    });
    assert.deepEqual(await store.consoleLines({ id: job.id }), lines.slice(0, 100), "a page has 100 lines by default");
    const { seq: after } = at(lines, 150);
    assert.deepEqual(await store.consoleLines({ id: job.id, after, limit: 10 }), lines.slice(151, 161));
    assert.deepEqual(await store.consoleLines({ id: job.id, after: at(lines, -1).seq }), []);
    assert.deepEqual(await textsOf(store, other.id), ["of another job"]);
    assert.deepEqual(await store.consoleLines({ id: job.id + 1_000 }), [], "an unknown job has none");
  },

  async Attempts({ store, advance }) {
    await register(store);
    const first = await running(store);
    const next = (): Promise<JobRef> => claimOne(store, { queues: [first.queue] });
    await write(store, first, "1");
    await end(store, first, "scheduled", { delay: HOUR, reason: "retry" });
    await assert.rejects(write(store, first, "between"), { code: "claim_lost" });
    await advance(HOUR);
    const second = await next();
    await assert.rejects(write(store, first, "stale"), { code: "claim_lost" });
    await write(store, second, "2");
    await end(store, second, "failed");
    await store.requeue({ ids: [first.id] });
    const third = await next();
    await write(store, third, "1 again");
    assert.deepEqual(await textsOf(store, first.id), ["1", "2", "1 again"]);
    assert.deepEqual(await attemptsOf(store, first.id), [1, 2, 1]);
    await end(store, third, "succeeded");
    assert.deepEqual(await attemptsOf(store, first.id), [1, 2, 1], "they stay with the job when it has ended");
    await store.requeue({ ids: [first.id] });
    await write(store, await next(), "and again");
    assert.deepEqual(await attemptsOf(store, first.id), [1, 2, 1, 1]);
  },

  async Progress({ store }) {
    await register(store);
    const job = await running(store, { args: '{"a":1}' });
    const before = await record(store, job.id);
    assert.equal(before.progress, null);
    await write(store, job, "none yet");
    assert.equal(await progressOf(store, job.id), null);
    for (const progress of [0, 33.25, 100, 0, 7]) {
      await report(store, job, progress);
      assert.equal(await progressOf(store, job.id), progress);
    }
    await report(store, job, -0);
    assert.ok(Object.is(await progressOf(store, job.id), 0));
    await store.writeConsole(job, { lines: ["both"], progress: 40 });
    await write(store, job, "null keeps it");
    assert.deepEqual(await record(store, job.id), { ...before, progress: 40 }, "nothing else has changed");
    assert.equal(only((await store.jobs({ state: "processing" })).jobs).progress, 40, "it is in pages too");
    await end(store, job, "failed");
    assert.equal(await progressOf(store, job.id), 40);
    await store.requeue({ ids: [job.id] });
    assert.equal(await progressOf(store, job.id), 40);
    const again = await claimOne(store, { queues: [job.queue] });
    assert.equal(await progressOf(store, job.id), 40, "until the next attempt reports its own");
    await report(store, again, 0);
    await end(store, again, "succeeded");
    assert.equal(only((await store.jobs({ state: "succeeded" })).jobs).progress, 0);
    await store.requeue({ ids: [job.id] });
    assert.equal(await progressOf(store, job.id), 0);
  },

  async Prune({ store, advance }) {
    await register(store);
    const withConsole = async (state: "succeeded" | "failed" | "deleted"): Promise<JobId> => {
      const job = await running(store);
      await store.writeConsole(job, { lines: [state, "more"], progress: 50 });
      await end(store, job, state);
      return job.id;
    };
    const old = [await withConsole("succeeded"), await withConsole("failed"), await withConsole("deleted")];
    const live = await running(store);
    await write(store, live, "live");
    await advance(DAY);
    const young = await withConsole("succeeded");
    const deleted = await withConsole("failed");
    await store.delete({ ids: [deleted] });
    const query = { servers: 365 * DAY, stats: 365 * DAY, limit: 100 };
    const removed = await store.prune({ ...query, succeeded: HOUR, failed: HOUR, deleted: HOUR });
    assert.equal(removed, 3, "lines are not counted");
    for (const id of old) {
      assert.equal(await store.job(id), null);
      assert.deepEqual(await textsOf(store, id), []);
    }
    assert.deepEqual(await textsOf(store, live.id), ["live"]);
    assert.deepEqual(await textsOf(store, young), ["succeeded", "more"]);
    assert.equal(await progressOf(store, young), 50);
    assert.deepEqual(await textsOf(store, deleted), ["failed", "more"], "a deleted job keeps its lines");
    assert.equal(await progressOf(store, deleted), 50);
    await advance(DAY);
    await store.prune({ ...query, succeeded: null, failed: null, deleted: HOUR });
    assert.deepEqual(await textsOf(store, deleted), []);
    assert.deepEqual(await textsOf(store, young), ["succeeded", "more"]);
  },

  async Invalid({ store }) {
    await register(store);
    const job = await running(store);
    await store.writeConsole(job, { lines: ["kept"], progress: 5 });
    const before = await snapshot(store);
    const tooLong = `${"é".repeat(CONSOLE.lineMaxBytes / 2)}x`;
    for (const bad of [tooLong, "\u0000", "\ud800", 5 as unknown as string]) {
      await refused(write(store, job, "good", bad), "lines[1]");
    }
    for (const progress of [-1, 101, Number.NaN, Number.POSITIVE_INFINITY]) {
      await refused(store.writeConsole(job, { lines: ["good"], progress }), "progress");
    }
    assert.deepEqual(await snapshot(store), before, "a refused call writes nothing");
    assert.deepEqual(await textsOf(store, job.id), ["kept"]);
    for (const after of [-1, 0.5, Number.NaN]) await refused(store.consoleLines({ id: job.id, after }), "after");
    for (const limit of [0, -1, 501, 1.5, Number.NaN])
      await refused(store.consoleLines({ id: job.id, limit }), "limit");
  },

  async Hostile({ store }) {
    await register(store);
    const job = await running(store);
    const clean = HOSTILE_TEXTS.filter((text) => cleanText(text) === text);
    await write(store, job, ...clean);
    for (const text of clean) await write(store, job, text);
    assert.deepEqual(await textsOf(store, job.id), [...clean, ...clean]);
  },
};
