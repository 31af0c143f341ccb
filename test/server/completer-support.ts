/** A completer over a real store, with faults in front of `finish`, and jobs that are processing. */
import assert from "node:assert/strict";
import { StoreError } from "../../engine/errors.ts";
import type { Logger } from "../../engine/logger.ts";
import { Completer, type Decision } from "../../engine/server/completer.ts";
import { Faults } from "../../engine/server/faults.ts";
import type { ClaimedJob, FinishResult, JobId, JobState, Outcome, OutcomeState } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { claim, insertMany, newJobs, outcome, register } from "../conformance/support.ts";

export const SECOND = 1_000;

/** What becomes of a call of `finish` instead of, or before, its reaching the store. */
export type Fault =
  | "fails"
  /** Is stored, but the caller is told otherwise. */
  | "reply lost"
  /** Is never answered and never stored. */
  | "hangs"
  /** Is stored so many milliseconds later. */
  | number
  /** Results for some of the outcomes, which do not reach the store. */
  | ((outcome: Outcome) => FinishResult | null);

export class FaultyStore extends MemoryStore {
  /** One for each call, in order; then the store works. */
  readonly faults: Fault[] = [];
  /** When there is none for a call. */
  always: Fault | null = null;
  readonly calls: { readonly at: number; readonly server: string; readonly ids: readonly JobId[] }[] = [];
  mostInFlight = 0;
  readonly #time: VirtualTime;
  #inFlight = 0;

  constructor(time: VirtualTime) {
    super({ runtime: time.runtime() });
    this.#time = time;
  }

  override async finish(server: string, outcomes: readonly Outcome[]): Promise<FinishResult[]> {
    this.calls.push({ at: this.#time.now, server, ids: outcomes.map(({ id }) => id) });
    this.#inFlight += 1;
    this.mostInFlight = Math.max(this.mostInFlight, this.#inFlight);
    try {
      return await this.#finish(server, outcomes, this.faults.shift() ?? this.always);
    } finally {
      this.#inFlight -= 1;
    }
  }

  async #finish(server: string, outcomes: readonly Outcome[], fault: Fault | null): Promise<FinishResult[]> {
    if (fault === "fails") throw new StoreError("store_unavailable", "no route");
    if (fault === "hangs") return new Promise(() => {});
    if (typeof fault === "number") await new Promise<void>((resolve) => this.#time.setTimer(fault, resolve));
    const instead = outcomes.map((one) => (typeof fault === "function" ? fault(one) : null));
    const stored = await super.finish(
      server,
      outcomes.filter((_, index) => instead[index] === null),
    );
    if (fault === "reply lost") throw new StoreError("store_unavailable", "the reply was lost");
    return instead.map((result) => result ?? (stored.shift() as FinishResult));
  }
}

export interface Setup {
  readonly time: VirtualTime;
  readonly store: FaultyStore;
  readonly faults: Faults;
  readonly completer: Completer;
  readonly jobs: readonly ClaimedJob[];
  /** Level, message and fields of what was logged. */
  readonly lines: [level: string, message: string, fields: unknown][];
  /** What was reported of each job, in order. */
  readonly decided: Map<JobId, Decision[]>;
  /** As an attempt does; `taken` counts those that were. */
  submit(job: ClaimedJob, state?: OutcomeState, fields?: Partial<Outcome>): Promise<void>;
  readonly taken: () => number;
  /** How many jobs are in each state. */
  states(): Promise<Partial<Record<JobState, number>>>;
}

export async function setup(count: number, capacity = 10_000): Promise<Setup> {
  const time = new VirtualTime();
  const store = new FaultyStore(time);
  await register(store, "s1");
  await insertMany(store, newJobs(count));
  const jobs = count === 0 ? [] : await claim(store, { limit: count });
  const lines: Setup["lines"] = [];
  const at = (level: string) => (message: string, fields?: object) => void lines.push([level, message, fields]);
  const logger: Logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  const runtime = time.runtime();
  const faults = new Faults(runtime, logger);
  const completer = new Completer({ runtime, store, faults, server: () => "s1", capacity });
  const decided: Setup["decided"] = new Map();
  let taken = 0;
  return {
    ...{ time, store, faults, completer, jobs, lines, decided },
    taken: () => taken,
    async submit(job, state = "succeeded", fields = {}) {
      const done = (now: Decision): void => {
        decided.set(job.id, [...(decided.get(job.id) ?? []), now]);
      };
      await completer.submit({ outcome: outcome(job, state, fields), done });
      taken += 1;
    },
    async states() {
      const states: Partial<Record<JobState, number>> = {};
      for (const { id } of jobs) {
        const state = (await store.job(id))?.state;
        assert.ok(state);
        states[state] = (states[state] ?? 0) + 1;
      }
      return states;
    },
  };
}

/** Every job was reported exactly once. */
export function assertReportedOnce({ decided, jobs }: Setup, expected: Decision): void {
  assert.equal(decided.size, jobs.length);
  for (const [id, states] of decided) assert.deepEqual(states, [expected], `job ${id}`);
}
