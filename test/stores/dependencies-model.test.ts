/** Random families of jobs that end in random ways: where each of them is at last is what a plain model says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type JobId, type JobState, PARENT_STATES, type ParentState, type Store } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { at, claim, finish, newJob, record, register } from "../conformance/support.ts";

/** The ends of a job that gets to run, one after the other; after each but the last it is requeued. */
const PLANS: readonly (readonly ParentState[])[] = [
  ["succeeded"],
  ["deleted"],
  ["failed"],
  ["failed", "succeeded"],
  ["failed", "deleted"],
  ["failed", "failed", "succeeded"],
  ["succeeded", "deleted"],
];

interface Member {
  readonly plan: readonly ParentState[];
  /** Parents by number; a job may only wait for those of smaller numbers. */
  readonly parents: readonly { readonly to: number; readonly on: readonly ParentState[] }[];
  /** Inserted in one call with the job before it. */
  readonly together: boolean;
}

const member = fc.record({
  plan: fc.constantFrom(...PLANS),
  parents: fc.array(fc.record({ to: fc.nat(), on: fc.subarray([...PARENT_STATES], { minLength: 1 }) }), {
    maxLength: 3,
  }),
  together: fc.boolean(),
});
const family: fc.Arbitrary<Member[]> = fc.array(member, { minLength: 1, maxLength: 10 }).map((members) =>
  members.map((each, number) => ({
    ...each,
    parents: number === 0 ? [] : each.parents.map(({ to, on }) => ({ to: to % number, on })),
  })),
);

interface Live {
  readonly id: JobId;
  readonly member: Member;
  /** Ends so far. */
  readonly ends: ParentState[];
  /** For each parent, how many of its ends were over when this job was inserted. */
  readonly from: readonly number[];
}

/** Runs a family in a store; `choose` decides what happens next. */
class Run {
  readonly #store: Store;
  readonly #choose: (below: number) => number;
  readonly jobs: Live[] = [];

  constructor(store: Store, choose: (below: number) => number) {
    this.#store = store;
    this.#choose = choose;
  }

  async all(members: readonly Member[]): Promise<void> {
    for (let start = 0; start < members.length; ) {
      let stop = start + 1;
      while (members[stop]?.together) stop += 1;
      await this.#insert(members.slice(start, stop), start);
      for (let steps = this.#choose(4); steps > 0; steps--) await this.#step();
      start = stop;
    }
    while (await this.#step());
    assert.equal(await this.#store.sweep(1_000), 0, "nothing was left undone");
  }

  async #insert(members: readonly Member[], start: number): Promise<void> {
    // From last to first, so that parents are named before they come.
    const position = (number: number): number => start + members.length - 1 - number;
    const calls = members.map(({ parents }) =>
      newJob({
        parents: parents.map(({ to, on }) =>
          to >= start ? { index: position(to), on } : { id: at(this.jobs, to).id, on },
        ),
      }),
    );
    const ids = (await this.#store.insert(calls.toReversed())).map(({ id }) => id).toReversed();
    for (const [index, each] of members.entries()) {
      const from: number[] = [];
      for (const { to } of each.parents) from.push(to >= start ? 0 : await this.#endsOver(at(this.jobs, to)));
      this.jobs.push({ id: at(ids, index), member: each, ends: [], from });
    }
  }

  /** The end that a job is in counts as still to come. */
  async #endsOver({ id, ends }: Live): Promise<number> {
    const { state, history } = await record(this.#store, id);
    const doomed = history.some(({ reason }) => reason.startsWith("parent"));
    if (doomed) return 0;
    return (PARENT_STATES as readonly string[]).includes(state) ? ends.length - 1 : ends.length;
  }

  /** Ends a job, or makes one ready again. False when there is nothing more to do. */
  async #step(): Promise<boolean> {
    const waiting: Live[] = [];
    for (const job of this.jobs) {
      const { state } = await record(this.#store, job.id);
      const ended = job.ends.length > 0 && job.ends.length < job.member.plan.length;
      if (ended && state === job.ends.at(-1)) waiting.push(job);
    }
    const again = waiting[this.#choose(waiting.length + 1)];
    if (again !== undefined) {
      await this.#store.requeue({ ids: [again.id] });
      return true;
    }
    const [ready] = await claim(this.#store, { limit: 1 });
    if (ready === undefined) {
      const first = waiting[0];
      return first !== undefined && (await this.#store.requeue({ ids: [first.id] })) === 1;
    }
    const job = this.jobs.find(({ id }) => id === ready.id);
    assert.ok(job);
    const end = at(job.member.plan, job.ends.length);
    job.ends.push(end);
    assert.deepEqual(await finish(this.#store, ready, end), { status: "applied", state: end });
    return true;
  }
}

/** Where each job is at last, and how many deletions there were. */
function model(jobs: readonly Live[]): { states: JobState[]; deletions: number } {
  const ends: (readonly ParentState[])[] = [];
  const states: JobState[] = [];
  for (const { member: each, from } of jobs) {
    const links = new Map<number, { on: readonly ParentState[]; from: number }>();
    each.parents.forEach(({ to, on }, index) => {
      const known = links.get(to)?.on ?? PARENT_STATES;
      links.set(to, { on: known.filter((state) => on.includes(state)), from: from[index] ?? 0 });
    });
    const verdicts = [...links].map(([to, { on, from: over }]) => {
      const decisive = at(ends, to)
        .slice(over)
        .find((end) => on.includes(end) || end !== "failed");
      return decisive === undefined ? "open" : on.includes(decisive) ? "met" : "doomed";
    });
    const doomed = verdicts.includes("doomed");
    const run = doomed ? (["deleted"] as const) : verdicts.includes("open") ? [] : each.plan;
    ends.push(run);
    states.push(run.at(-1) ?? "awaiting");
  }
  return { states, deletions: ends.flat().filter((end) => end === "deleted").length };
}

const STORES: Readonly<Record<string, (time: VirtualTime) => Promise<Store>>> = {
  memory: (time) => MemoryStore.open({ runtime: time.runtime() }),
  SQLite: (time) => SqliteStore.open({ path: ":memory:", runtime: time.runtime() }),
};

for (const [name, open] of Object.entries(STORES)) {
  test(`${name}: every family of jobs ends as the model says`, async () => {
    const seen = new Set<JobState>();
    const choices = fc.infiniteStream(fc.nat());
    await fc.assert(
      fc.asyncProperty(family, choices, async (members, stream) => {
        const store = await open(new VirtualTime());
        try {
          await register(store);
          const run = new Run(store, (below) => (stream.next().value ?? 0) % below);
          await run.all(members);
          const { states, deletions } = model(run.jobs);
          for (const state of states) seen.add(state);
          const found: JobState[] = [];
          for (const { id } of run.jobs) found.push((await record(store, id)).state);
          assert.deepEqual(found, states);
          assert.equal((await store.counts()).deleted, deletions);
        } finally {
          await store.close();
        }
      }),
      { numRuns: Number(process.env["RUNS"] ?? 100) },
    );
    assert.deepEqual([...seen].sort(), ["awaiting", "deleted", "failed", "succeeded"], "all kinds of ends were seen");
  });
}
