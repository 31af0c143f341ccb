/** What the cases of limits and rates share. */
import assert from "node:assert/strict";
import type { ClaimedJob, JobId, Limit, NewJob, Store } from "../../engine/store.ts";
import { claim, claimIds, claimReply, type Harness, insertMany, newJobs } from "./support.ts";

export const limitOf = (fields: Partial<Limit>): Limit => ({ key: "k", max: 0, rate: 0, per: 0, burst: 0, ...fields });
export const atOnce = (max: number, key = "k"): Limit => limitOf({ key, max });
export const paced = (rate: number, per: number, burst: number, fields: Partial<Limit> = {}): Limit =>
  limitOf({ rate, per, burst, ...fields });

/** Lets time pass until the claim says that something may be ready, and claims. */
export async function claimNext({ store, advance }: Harness, wait: number): Promise<readonly ClaimedJob[]> {
  const { jobs, nextIn } = await claimReply(store);
  assert.deepEqual(jobs, []);
  assert.equal(nextIn, wait, "says when the key opens");
  await advance(wait - 1);
  assert.deepEqual(await claimIds(store), [], "and not before");
  await advance(1);
  return claim(store);
}

export const waiters = (store: Store, limit: Limit, count: number, fields: Partial<NewJob> = {}): Promise<JobId[]> =>
  insertMany(store, newJobs(count, { limit, ...fields }));

/** Removes only what nobody uses. */
export const NOTHING = { succeeded: null, deleted: null, failed: null, servers: 1e12, stats: 1e12, limit: 100 };
