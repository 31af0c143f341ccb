import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import fc from "fast-check";
import {
  JOB_STATES,
  type JobFilter,
  type JobRef,
  type NewJob,
  OUTCOME_STATES,
  PARENT_STATES,
  type Store,
} from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { conformance, type Harness, type OwnTransaction } from "../conformance/index.ts";
import { newJob, outcome, register, snapshot } from "../conformance/support.ts";
import { transactionCases } from "../conformance/transaction.ts";

interface SqliteHarness extends Harness {
  readonly store: SqliteStore;
  readonly path: string;
}

async function openHarness(): Promise<SqliteHarness> {
  const time = new VirtualTime();
  const directory = await mkdtemp(join(tmpdir(), "kiln-conformance-"));
  const path = join(directory, "jobs.db");
  // Waiting for the disk would only make the tests slow.
  const store = await SqliteStore.open({ path, runtime: time.runtime(), durability: "normal" });
  return {
    store,
    path,
    advance: (ms) => time.advance(ms),
    close: async () => {
      await store.close();
      await rm(directory, { recursive: true });
    },
  };
}

/** On a connection that the application has made as it likes. */
async function begin({ store, path }: SqliteHarness): Promise<OwnTransaction> {
  const db = new DatabaseSync(path, { readBigInts: true, timeout: 100 });
  db.exec("BEGIN IMMEDIATE");
  const end = async (how: string): Promise<void> => db.exec(how);
  return { writer: store.within(db), commit: () => end("COMMIT"), rollback: () => end("ROLLBACK") };
}

conformance("SQLite store", openHarness, begin);

describe("SQLite store in memory", () => {
  // Its transactions are on the connection that everything else uses.
  for (const [title, run] of Object.entries(transactionCases)) {
    test(title, async () => {
      const time = new VirtualTime();
      const store = await SqliteStore.open({ path: ":memory:", runtime: time.runtime() });
      await run({ store, advance: (ms) => time.advance(ms), close: () => store.close() });
      await store.close();
    });
  }
});

/** A call, made in the same way on any store; it may look at what was claimed before. */
type Call = (store: Store, claimed: JobRef[]) => Promise<unknown>;
type Step = { readonly name: string; readonly call: Call } | { readonly name: string; readonly pass: number };

const queue = fc.constantFrom("a", "b");
const kind = fc.constantFrom("x", "y");
const server = fc.constantFrom("s1", "s2");
const delay = fc.constantFrom(0, 0, 500, 60_000);
const limit = fc.oneof(
  { weight: 2, arbitrary: fc.constant(null) },
  {
    weight: 3,
    arbitrary: fc.record({
      key: fc.constantFrom("k", "l"),
      max: fc.constantFrom(1, 2, 100),
      rate: fc.constantFrom(0, 1, 3, 1_000),
      per: fc.constantFrom(1, 700, 60_000),
      burst: fc.constantFrom(1, 2, 5),
    }),
  },
);
const unique = fc.option(
  fc.record({
    key: fc.constantFrom("a", "b").map((digit) => digit.repeat(32)),
    window: fc.constantFrom(null, 500, 60_000),
    onConflict: fc.constantFrom("keep", "replace", "debounce"),
  }),
  { nil: null },
);
const on = fc.subarray([...PARENT_STATES], { minLength: 1 });
type Given = Partial<NewJob> & { readonly kind: string };
const madeOf = (given: readonly Given[]): NewJob[] =>
  given.map((job) => newJob({ ...job, maxAttempts: 2, tags: [job.kind] }));

const parent = fc.oneof(
  { arbitrary: fc.record({ id: fc.integer({ min: 1, max: 9 }), on }), weight: 3 },
  { arbitrary: fc.record({ index: fc.nat(1), on }), weight: 1 },
);
/** Not too often: a parent that does not exist refuses the whole call. */
const parents = fc.oneof(
  { arbitrary: fc.constant([]), weight: 3 },
  { arbitrary: fc.array(parent, { minLength: 1, maxLength: 2 }), weight: 1 },
);
const index = fc.nat(5);
const filter: fc.Arbitrary<JobFilter> = fc
  .record({
    ids: fc.option(fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 4 }), { nil: undefined }),
    state: fc.option(fc.constantFrom(...JOB_STATES), { nil: undefined }),
    queue: fc.option(queue, { nil: undefined }),
    kind: fc.option(kind, { nil: undefined }),
  })
  .map((fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)));

/** Shown by its name in a counterexample. */
const named = <Fields>(name: string, fields: Fields): Fields & { readonly name: string } => ({
  ...fields,
  name,
  [fc.toStringMethod]: () => name,
});

const step = <T>(name: string, fields: fc.Arbitrary<T>, call: (fields: T) => Call): fc.Arbitrary<Step> =>
  fields.map((value) => named(`${name} ${JSON.stringify(value)}`, { call: call(value) }));

const jobs = fc.array(
  fc.record({ queue, kind, delay, limit, priority: fc.integer({ min: -1, max: 1 }), unique, parents }),
  { maxLength: 3 },
);

/** The first ones are what most of a store's life is. */
const COMMON = 4;
const steps: fc.Arbitrary<Step>[] = [
  step("insert", jobs, (given) => (store) => store.insert(madeOf(given))),
  step(
    "transaction",
    fc.record({ calls: fc.array(jobs, { maxLength: 4 }), index, rollsBack: fc.boolean() }),
    ({ calls, index: at, rollsBack }) =>
      async (store, claimed) => {
        const answers: unknown[] = [];
        const ended = await answer(
          () =>
            store.transaction(async (writer) => {
              for (const given of calls) answers.push(await outcomeOf(writer.insert(madeOf(given))));
              const ref = claimed.at(-1 - at);
              if (ref) answers.push(await outcomeOf(writer.setParams(ref, { [`k${at % 3}`]: `${at + 1}` })));
              if (rollsBack) throw Object.assign(new Error("no"), { code: "rolled back" });
            }),
          store,
          claimed,
        );
        return { answers, ended };
      },
  ),
  step(
    "claim",
    fc.record({
      server,
      queues: fc.array(queue, { maxLength: 3 }),
      kinds: fc.array(kind),
      limit: fc.nat(3).map((n) => n + 1),
    }),
    (query) => async (store, claimed) => {
      const reply = await store.claim({ ...query, sequence: claimed.length });
      claimed.push(...reply.jobs);
      return reply;
    },
  ),
  step(
    "finish",
    fc.array(
      fc.record({
        index,
        state: fc.constantFrom(...OUTCOME_STATES),
        delay,
        refund: fc.boolean(),
        reason: fc.constantFrom(null, "retry"),
      }),
      { maxLength: 3 },
    ),
    (ends) => async (store, claimed) => {
      const outcomes = ends.flatMap(({ index: at, state, ...fields }) => {
        const ref = claimed.at(-1 - at);
        return ref ? [outcome(ref, state, { ...fields, output: "1", error: fields.reason })] : [];
      });
      return store.finish("s2", outcomes);
    },
  ),
  step("setParams", index, (at) => async (store, claimed) => {
    const ref = claimed.at(-1 - at);
    if (ref) await store.setParams(ref, { [`k${at % 3}`]: `${at}` });
  }),
  step("writeConsole", fc.record({ index, lines: fc.nat(3), progress: fc.constantFrom(null, 0, 50) }), (entry) => {
    const lines = Array.from({ length: entry.lines }, (_, n) => `line ${n}`);
    return async (store, claimed) => {
      const ref = claimed.at(-1 - entry.index);
      if (ref) await store.writeConsole(ref, { lines, progress: entry.progress });
    };
  }),
  step("consoleLines", fc.record({ id: fc.integer({ min: 1, max: 30 }), after: fc.nat(3) }), (query) => (store) => {
    return store.consoleLines(query);
  }),
  step(
    "register",
    server,
    (id) => (store) =>
      store.register({
        id,
        hostname: "h",
        pid: 1,
        version: "1",
        queues: ["a"],
        kinds: [],
        workers: 1,
        deadAfter: 60_000,
      }),
  ),
  step("heartbeat", server, (id) => async (store) => {
    const { leases, ...reply } = await store.heartbeat({ server: id, running: 1 });
    return { ...reply, leases: [...leases].sort((a, b) => a.id - b.id) };
  }),
  step("unregister", server, (id) => (store) => store.unregister(id)),
  step("lead", server, (holder) => (store) => store.lead({ name: "l", holder, ttl: 60_000 })),
  step("resign", server, (holder) => (store) => store.resign({ name: "l", holder })),
  step("orphans", fc.integer({ min: 1, max: 3 }), (limit) => (store) => store.orphans(limit)),
  // All at once, as with prune: which of several go first is open.
  step("sweep", fc.constant(1_000), (limit) => (store) => store.sweep(limit)),
  step("delete", filter, (query) => (store) => store.delete(query)),
  step("requeue", filter, (query) => (store) => store.requeue(query)),
  step("pause", queue, (name) => (store) => store.pauseQueue(name)),
  step("resume", queue, (name) => (store) => store.resumeQueue(name)),
  step(
    "prune",
    fc.constantFrom(null, 60_001),
    (kept) => (store) =>
      store.prune({ succeeded: kept, deleted: kept, failed: kept, servers: 600_001, stats: 1e12, limit: 1_000 }),
  ),
  step(
    "page",
    fc.record({ state: fc.constantFrom(...JOB_STATES), limit: fc.nat(3), tag: kind }),
    (query) => async (store) => {
      const { jobs, next } = await store.jobs({ state: query.state, limit: query.limit });
      const tagged = (await store.jobs({ ...query, limit: 500 })).jobs;
      return { jobs, more: next !== null && (await store.jobs({ state: query.state, cursor: next })).jobs, tagged };
    },
  ),
  step("limits", fc.constantFrom("", "k"), (after) => (store) => store.limits({ after })),
  step("series", fc.constantFrom(60_000, 300_000), (ms) => async (store) => {
    const now = (await store.now()).getTime();
    return store.series({ from: new Date(now - 600_000), to: new Date(now + 60_000), step: ms });
  }),
  fc.constantFrom(1, 500, 30_000, 60_000).map((pass) => named(`${pass} ms pass`, { pass })),
];

const answer = (call: Call, store: Store, claimed: JobRef[]): Promise<unknown> => outcomeOf(call(store, claimed));

async function outcomeOf(call: Promise<unknown>): Promise<unknown> {
  try {
    return await call;
  } catch (error) {
    return (error as { code?: string }).code ?? error;
  }
}

test("SQLite answers every call as memory does, whatever is asked", async () => {
  const weighted = steps.map((arbitrary, place) => ({ arbitrary, weight: place < COMMON ? 5 : 1 }));
  const scenario = fc.array(fc.oneof(...weighted), { minLength: 20, maxLength: 80, size: "max" });
  await fc.assert(
    fc.asyncProperty(scenario, async (calls) => {
      const time = new VirtualTime();
      const memory = new MemoryStore({ runtime: time.runtime() });
      const store = await SqliteStore.open({ path: ":memory:", runtime: time.runtime() });
      const claimed: [JobRef[], JobRef[]] = [[], []];
      try {
        await Promise.all([register(memory), register(store)]);
        for (const each of calls) {
          if ("pass" in each) await time.advance(each.pass);
          else {
            const expected = await answer(each.call, memory, claimed[0]);
            assert.deepEqual(await answer(each.call, store, claimed[1]), expected, each.name);
          }
        }
        assert.deepEqual(await snapshot(store), await snapshot(memory));
        assert.deepEqual(await store.queues(), await memory.queues());
      } finally {
        await store.close();
        await memory.close();
      }
    }),
    { numRuns: Number(process.env["RUNS"] ?? 30) },
  );
});
