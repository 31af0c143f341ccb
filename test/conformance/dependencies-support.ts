/** What the cases about parents and children share. */
import assert from "node:assert/strict";
import type { JobId, JobState, NewJob, Parent, ParentState, Store } from "../../engine/store.ts";
import { DAY, insertMany, newJob, only, stateOf } from "./support.ts";

export const SUCCEEDED = ["succeeded"] as const;
export const FAILED = ["failed"] as const;
export const DELETED = ["deleted"] as const;
/** Prunes nothing. */
export const KEEP = { succeeded: null, deleted: null, failed: null, servers: 99 * DAY, stats: 99 * DAY, limit: 1_000 };

export const parent = (id: JobId, on: readonly ParentState[] = SUCCEEDED): Parent => ({ id, on });
export const position = (index: number, on: readonly ParentState[] = SUCCEEDED): Parent => ({ index, on });

/** A job in queue `default`; parents are by `running` in a queue of their own. */
export const childOf = (...parents: readonly Parent[]): NewJob => newJob({ parents });

export const insertChild = async (store: Store, ...parents: readonly Parent[]): Promise<JobId> =>
  only(await insertMany(store, [childOf(...parents)]));

/** Lets the store complete what it has left for later. */
export async function sweepAll(store: Store): Promise<void> {
  for (let tries = 0; (await store.sweep(1_000)) > 0; tries++) assert.ok(tries < 20, "sweeping comes to an end");
}

export async function statesOf(store: Store, ids: readonly JobId[]): Promise<JobState[]> {
  const states: JobState[] = [];
  for (const id of ids) states.push(await stateOf(store, id));
  return states;
}
