/** Something that is done to a store and to the model of it, after which both have to say the same. */
import assert from "node:assert/strict";
import type fc from "fast-check";
import { JOB_STATES, type JobState, type Store } from "../../engine/store.ts";
import type { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { Refused, type World } from "./model.ts";
import { countsOf, limitsOf, listOf, queuesOf, recordOf, serversOf, withReasons } from "./model-views.ts";

export interface Real {
  readonly store: Store;
  readonly time: VirtualTime;
}

export type Act = (world: World, real: Real) => Promise<void>;

export class Command implements fc.AsyncCommand<World, Real> {
  readonly #name: string;
  readonly #act: Act;
  readonly #can: (world: World) => boolean;

  constructor(name: string, act: Act, can: (world: World) => boolean) {
    this.#name = name;
    this.#act = act;
    this.#can = can;
  }

  check(world: Readonly<World>): boolean {
    return this.#can(world);
  }

  async run(world: World, real: Real): Promise<void> {
    world.touched.clear();
    await this.#act(world, real);
    for (const id of world.touched) {
      const [job, found] = [world.jobs.get(id), await real.store.job(id)];
      assert.deepEqual(found && withReasons(found), job ? recordOf(world, job) : null, `job ${id} after ${this}`);
    }
  }

  toString(): string {
    return this.#name;
  }
}

/** `act` gets what was drawn; `can` says whether it may be done now. */
export function command<T>(
  name: string,
  fields: fc.Arbitrary<T>,
  act: (drawn: T) => Act,
  can: (drawn: T, world: World) => boolean = () => true,
): fc.Arbitrary<Command> {
  const shown = (drawn: T): string => `${name} ${JSON.stringify(drawn)}`;
  return fields.map((drawn) => new Command(shown(drawn), act(drawn), (world) => can(drawn, world)));
}

/** Lets store and model do the same, the model knowing what the store said. Answers and codes of errors must be equal. */
export async function both(
  what: string,
  store: () => Promise<unknown>,
  model: (found: unknown) => unknown,
): Promise<void> {
  const found = await answer(store);
  assert.deepEqual(found, await answer(() => model(found)), what);
}

async function answer(call: () => unknown): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof assert.AssertionError || !(error instanceof Error && "code" in error)) throw error;
    return { code: error.code };
  }
}

/** All that store and model show of themselves, of jobs those in these states. */
export async function compareViews(
  world: World,
  store: Store,
  states: readonly JobState[] = JOB_STATES,
): Promise<void> {
  for (const state of states) {
    const { jobs } = await store.jobs({ state, limit: 500 });
    assert.deepEqual(jobs.map(withReasons), listOf(world, state), `jobs that are ${state}`);
  }
  assert.deepEqual(await store.counts(), countsOf(world), "counts");
  assert.deepEqual(await store.queues(), queuesOf(world), "queues");
  assert.deepEqual(await store.servers(), serversOf(world), "servers");
  const limits = await store.limits({});
  const known = limits.map(({ key, max, active, throttled }) => ({ key, max, active, throttled }));
  assert.deepEqual(known, limitsOf(world), "limits");
}

/** The error of a transaction that is to be rolled back. */
export const ROLLBACK = new Refused("rolled back");
