/** Whatever is done to batches, in whatever order: they are what a plain model says, and their counters what can be counted. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import fc from "fast-check";
import type { BatchId, JobId, Store, Writer } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { openBatch } from "../conformance/batches-support.ts";
import { KEEP } from "../conformance/dependencies-support.ts";
import { ALL_STATES, claim, newJob, outcome, register, SECOND } from "../conformance/support.ts";
import { directoryFor } from "./sqlite-support.ts";

/** What a transaction is made of; numbers choose among what there is. */
type Write =
  | { readonly type: "open"; readonly parent: number | null }
  | {
      readonly type: "insert";
      /** Each joins a batch, waits for another, or waits for a job, or none of it. */
      readonly jobs: readonly { batch: number | null; after: number | null; parent: number | null }[];
    }
  | { readonly type: "seal"; readonly batch: number };

/** What may happen. */
type Step =
  | Write
  | { readonly type: "transaction"; readonly writes: readonly Write[]; readonly commit: boolean }
  | { readonly type: "finish"; readonly ends: readonly ("succeeded" | "failed" | "deleted" | "scheduled")[] }
  | { readonly type: "delete" | "requeue"; readonly jobs: readonly number[] }
  | {
      readonly type: "prune";
      readonly states: readonly ("succeeded" | "deleted" | "failed")[];
      readonly limit: number;
    };

const maybe = fc.option(fc.nat(), { nil: null });
const write: fc.Arbitrary<Write> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ type: fc.constant("open" as const), parent: maybe }) },
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant("insert" as const),
      jobs: fc.array(fc.record({ batch: maybe, after: maybe, parent: maybe }), { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ type: fc.constant("seal" as const), batch: fc.nat() }) },
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 13, arbitrary: write },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant("transaction" as const),
      writes: fc.array(write, { minLength: 1, maxLength: 6 }),
      commit: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant("finish" as const),
      ends: fc.array(fc.constantFrom("succeeded", "succeeded", "failed", "deleted", "scheduled"), {
        minLength: 1,
        maxLength: 4,
      }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constantFrom("delete" as const, "requeue" as const),
      jobs: fc.array(fc.nat(), { maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("prune" as const),
      states: fc.subarray(["succeeded", "deleted", "failed"] as const),
      limit: fc.integer({ min: 1, max: 3 }),
    }),
  },
);

interface Model {
  readonly id: BatchId;
  readonly parent: Model | null;
  sealed: boolean;
  total: number;
  /** As the store said it first; once it is set it must stay. */
  finishedAt: Date | null;
  /** Retention has removed it. */
  gone: boolean;
}

interface ModelJob {
  readonly id: JobId;
  readonly batch: Model | null;
  readonly after: Model | null;
  readonly parent: JobId | null;
  gone: boolean;
}

/** Does steps in a store, and after each compares everything with the model. */
class Run {
  readonly #store: Store;
  readonly #time: VirtualTime;
  readonly batches: Model[] = [];
  readonly jobs: ModelJob[] = [];
  refused = 0;
  rolledBack = 0;

  constructor(store: Store, time: VirtualTime) {
    this.#store = store;
    this.#time = time;
  }

  async do(step: Step): Promise<void> {
    await this.#time.advance(SECOND);
    await this.#apply(step);
    await this.#check();
  }

  async #write(writer: Writer, step: Write): Promise<void> {
    switch (step.type) {
      case "open":
        return this.#open(writer, this.#pick(this.batches, step.parent));
      case "insert":
        return this.#insert(writer, step.jobs);
      case "seal": {
        const batch = this.#pick(this.batches, step.batch);
        if (batch === null || batch.gone) return;
        await writer.sealBatch(batch.id);
        batch.sealed = true;
        return;
      }
    }
  }

  async #transaction(writes: readonly Write[], commit: boolean): Promise<void> {
    const stop = new Error("rolled back");
    const { length: jobs } = this.jobs;
    const batches = this.batches.map((batch) => ({ batch, before: { ...batch } }));
    const done = this.#store.transaction(async (writer) => {
      for (const write of writes) await this.#write(writer, write);
      if (!commit) throw stop;
    });
    if (commit) return done;
    await assert.rejects(done, (error) => error === stop);
    this.jobs.length = jobs;
    this.batches.length = batches.length;
    for (const { batch, before } of batches) Object.assign(batch, before);
    this.rolledBack += 1;
  }

  async #apply(step: Step): Promise<void> {
    switch (step.type) {
      case "open":
      case "insert":
      case "seal":
        return this.#write(this.#store, step);
      case "transaction":
        return this.#transaction(step.writes, step.commit);
      case "finish": {
        const jobs = await claim(this.#store, { limit: step.ends.length });
        await this.#store.finish(
          "s1",
          jobs.map((job, n) => outcome(job, step.ends[n] ?? "succeeded", { delay: SECOND })),
        );
        return;
      }
      case "delete":
      case "requeue": {
        const ids = step.jobs.flatMap((n) => this.#pick(this.jobs, n)?.id ?? []);
        await this.#store[step.type]({ ids });
        return;
      }
      case "prune": {
        const age = (state: (typeof step.states)[number]): number | null => (step.states.includes(state) ? 0 : null);
        const ages = { succeeded: age("succeeded"), deleted: age("deleted"), failed: age("failed") };
        await this.#store.prune({ ...KEEP, ...ages, limit: step.limit });
        return;
      }
    }
  }

  #pick<T>(from: readonly T[], number: number | null): T | null {
    return number === null ? null : (from[number % Math.max(from.length, 1)] ?? null);
  }

  async #open(writer: Writer, parent: Model | null): Promise<void> {
    const refusal = parent === null ? null : refusalOf(parent);
    const call = openBatch(writer, { parent: parent?.id ?? null });
    const id = await this.#unlessClosed(
      writer,
      call,
      parent === null ? [] : [parent],
      refusal === null ? [] : [refusal],
    );
    if (id === null) return;
    this.batches.push({ id, parent, sealed: false, total: 0, finishedAt: null, gone: false });
  }

  /**
   * What the call gives, or null when it was refused, with one of `refusals`. In a transaction the model does not know which
   * of its sealed batches have finished since it began.
   */
  async #unlessClosed<T>(
    writer: Writer,
    call: Promise<T>,
    joined: readonly Model[],
    refusals: readonly string[],
  ): Promise<T | null> {
    const mayBeClosed = writer !== this.#store && joined.some(({ sealed }) => sealed);
    try {
      const result = await call;
      assert.deepEqual(refusals, []);
      return result;
    } catch (error) {
      const { code = "" } = error as { code?: string };
      if (!refusals.includes(code) && !(mayBeClosed && code === "batch_closed")) throw error;
      this.refused += 1;
      return null;
    }
  }

  async #insert(
    writer: Writer,
    given: readonly { batch: number | null; after: number | null; parent: number | null }[],
  ): Promise<void> {
    const jobs = given.map(({ batch, after, parent }) => {
      const [joined, awaited] = [this.#pick(this.batches, batch), this.#pick(this.batches, after)];
      const head = this.#pick(this.jobs, parent);
      return {
        batch: joined,
        after: holds(awaited, joined) ? null : awaited,
        parent: head?.gone ? null : (head?.id ?? null),
      };
    });
    const refusals = jobs.flatMap(({ batch, after }) => [
      ...(after?.gone ? ["not_found"] : []),
      ...(batch === null ? [] : [refusalOf(batch)].filter((code) => code !== null)),
    ]);
    const call = writer.insert(
      jobs.map(({ batch, after, parent }) =>
        newJob({
          batch: batch?.id ?? null,
          afterBatch: after?.id ?? null,
          parents: parent === null ? [] : [{ id: parent, on: ["succeeded"] }],
        }),
      ),
    );
    const joined = jobs.flatMap(({ batch }) => (batch === null ? [] : [batch]));
    const inserted = await this.#unlessClosed(writer, call, joined, refusals);
    for (const [n, { id }] of (inserted ?? []).entries()) {
      const job = jobs[n] ?? assert.fail();
      this.jobs.push({ id, ...job, gone: false });
      if (job.batch !== null) job.batch.total += 1;
    }
  }

  async #check(): Promise<void> {
    const records = new Map<JobId, Awaited<ReturnType<Store["job"]>>>();
    for (const job of this.jobs) {
      if (job.gone) continue;
      const record = await this.#store.job(job.id);
      job.gone = record === null;
      records.set(job.id, record);
    }
    // From within, because those that are nested come after those that they are nested in.
    for (const batch of this.batches.toReversed()) await this.#checkBatch(batch, records);
    for (const { id, batch, after } of this.jobs) {
      const record = records.get(id);
      if (!record) continue;
      assert.deepEqual([record.batch, record.afterBatch], [batch?.id ?? null, after?.id ?? null]);
      if (record.state === "awaiting" && after?.finishedAt) assert.ok(record.parents.length > 0, "the batch was met");
      if (after !== null && after.finishedAt === null && record.history.every(({ reason }) => reason !== "requeued")) {
        assert.ok(["awaiting", "deleted"].includes(record.state), `job ${id} waits for batch ${after.id}`);
      }
    }
  }

  async #checkBatch(batch: Model, records: ReadonlyMap<JobId, Awaited<ReturnType<Store["job"]>>>): Promise<void> {
    const members = this.jobs.filter((job) => job.batch === batch).flatMap(({ id }) => records.get(id) ?? []);
    const nested = this.batches.filter(({ parent }) => parent === batch);
    const found = await this.#store.batch(batch.id);
    if (found === null) {
      if (!batch.gone) {
        const waiters = this.jobs.filter(({ after, gone }) => after === batch && !gone);
        assert.ok(batch.sealed && members.length === 0 && waiters.length === 0, "nothing needs it");
        assert.ok(
          nested.every(({ gone }) => gone),
          "those that were nested in it went before",
        );
      }
      batch.gone = true;
      return;
    }
    const live = members.filter(({ state }) => state !== "succeeded" && state !== "deleted").length;
    const open = nested.filter(({ finishedAt }) => finishedAt === null).length;
    if (batch.finishedAt === null && batch.sealed && live === 0 && open === 0)
      batch.finishedAt = found.finishedAt ?? assert.fail(`batch ${batch.id} has finished`);
    const { createdAt: _, description: _d, meta: _m, ...shown } = found;
    assert.deepEqual(shown, {
      ...{ id: batch.id, parent: batch.parent?.id ?? null, total: batch.total, sealed: batch.sealed },
      finishedAt: batch.finishedAt,
      ...{ nested: nested.length, nestedFinished: nested.length - open },
      counts: Object.fromEntries(
        ALL_STATES.map((state) => [state, members.filter((member) => member.state === state).length]),
      ),
    });
  }
}

/** Waiting for such a batch is refused. */
function holds(outer: Model | null, batch: Model | null): boolean {
  for (let at = batch; at !== null; at = at.parent) if (at === outer) return true;
  return false;
}

const refusalOf = ({ gone, finishedAt }: Model): string | null =>
  gone ? "not_found" : finishedAt === null ? null : "batch_closed";

/** Counters of the SQLite store that can't be seen through it. */
const RECOUNT = `SELECT id, live, needed, open_nested,
    (SELECT count(*) FROM kiln_jobs WHERE batch_id = b.id),
    (SELECT count(*) FROM kiln_jobs WHERE batch_id = b.id) + (SELECT count(*) FROM kiln_archive WHERE batch_id = b.id)
      + (SELECT count(*) FROM kiln_dependencies WHERE parent_id = -b.id)
      + (SELECT count(*) FROM kiln_batches WHERE parent_id = b.id),
    (SELECT count(*) FROM kiln_batches WHERE parent_id = b.id AND finished_at IS NULL)
  FROM kiln_batches AS b`;

function recount(db: DatabaseSync): void {
  const statement = db.prepare(RECOUNT);
  statement.setReturnArrays(true);
  for (const row of statement.all() as unknown as number[][])
    assert.deepEqual(row.slice(1, 4), row.slice(4), `batch ${row[0]}`);
}

/** What ends everything that is left, so that most batches finish and are removed. */
function* ending({ batches, jobs }: Run): Generator<Step> {
  for (const batch of batches.keys()) yield { type: "seal", batch };
  for (let n = 0; n < 3; n++) yield { type: "finish", ends: ["succeeded", "failed", "succeeded", "deleted"] };
  yield { type: "delete", jobs: [...jobs.keys()] };
  const states = ["succeeded", "deleted", "failed"] as const;
  for (let n = 0; n < 3; n++) yield { type: "prune", states, limit: 100 };
}

const STORES = ["memory", "SQLite"] as const;
for (const name of STORES) {
  test(`${name}: batches are what the model says after every step`, async (t) => {
    const seen = { finished: 0, gone: 0, refused: 0, chained: 0, rolledBack: 0 };
    let files = 0;
    const directory = directoryFor(t);
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
        const time = new VirtualTime();
        files += 1;
        const path = name === "SQLite" ? `${directory}/${files}.db` : "";
        const store =
          name === "SQLite"
            ? await SqliteStore.open({ path, runtime: time.runtime(), durability: "normal" })
            : await MemoryStore.open({ runtime: time.runtime() });
        const db = path === "" ? null : new DatabaseSync(path, { readOnly: true });
        try {
          await register(store, "s1", { deadAfter: 1_000 * SECOND });
          const run = new Run(store, time);
          const doAndRecount = async (step: Step): Promise<void> => {
            await run.do(step);
            if (db !== null) recount(db);
          };
          for (const step of steps) await doAndRecount(step);
          for (const step of ending(run)) await doAndRecount(step);
          seen.finished += run.batches.filter(({ finishedAt }) => finishedAt !== null).length;
          seen.chained += run.batches.filter(
            ({ finishedAt, parent }) => finishedAt !== null && parent?.finishedAt,
          ).length;
          seen.gone += run.batches.filter(({ gone }) => gone).length;
          seen.refused += run.refused;
          seen.rolledBack += run.rolledBack;
        } finally {
          db?.close();
          await store.close();
        }
      }),
      { numRuns: Number(process.env["RUNS"] ?? 50) },
    );
    for (const [what, count] of Object.entries(seen)) assert.ok(count > 10, `${what}: ${count}`);
  });
}
