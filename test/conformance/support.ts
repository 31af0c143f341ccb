/** What the cases share: a baseline job and server, short forms of the verbs, and waiting for events. */
import assert from "node:assert/strict";
import { setTimeout as realTime } from "node:timers/promises";
import type {
  ClaimedJob,
  ClaimQuery,
  ClaimReply,
  FinishResult,
  JobId,
  JobQuery,
  JobRecord,
  JobRef,
  JobState,
  Limit,
  NewJob,
  Outcome,
  OutcomeState,
  ServerInfo,
  Store,
  StoreEvent,
  TransactionWriter,
} from "../../engine/store.ts";

/** One empty store and its clock, for one case. */
export interface Harness {
  readonly store: Store;
  /** Moves the store's clock forward by `ms` milliseconds; it may also run by itself. */
  advance(ms: number): Promise<void>;
  /** Closes the store and removes what it left behind. The case may have closed the store itself. */
  close(): Promise<void>;
}

/** A transaction that the application has begun itself, on a connection of its own. */
export interface OwnTransaction {
  readonly writer: TransactionWriter;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

export type Case<H extends Harness = Harness> = (harness: H) => Promise<void>;
/** Cases by name. */
export type Group<H extends Harness = Harness> = Readonly<Record<string, Case<H>>>;

/** How long a case may take on a store whose clock runs by itself. Much shorter than the durations that cases use. */
export const SLACK = 30_000;
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export const ALL_STATES = [
  "awaiting",
  "scheduled",
  "throttled",
  "enqueued",
  "processing",
  "succeeded",
  "failed",
  "deleted",
] as const;

export function newJob(fields: Partial<NewJob> = {}): NewJob {
  return {
    kind: "task",
    queue: "default",
    args: "{}",
    priority: 0,
    maxAttempts: 5,
    timeout: null,
    delay: 0,
    runAt: null,
    deadline: null,
    title: null,
    tags: [],
    meta: {},
    recurringId: null,
    unique: null,
    parents: [],
    limit: null,
    batch: null,
    afterBatch: null,
    ...fields,
  };
}

export const newJobs = (count: number, fields: Partial<NewJob> = {}): NewJob[] =>
  Array.from({ length: count }, () => newJob(fields));

export async function insertMany(store: Store, jobs: readonly NewJob[]): Promise<JobId[]> {
  return (await store.insert(jobs)).map(({ id }) => id);
}

export async function insertOne(store: Store, fields: Partial<NewJob> = {}): Promise<JobId> {
  return only(await insertMany(store, [newJob(fields)]));
}

export async function register(store: Store, id = "s1", fields: Partial<ServerInfo> = {}): Promise<void> {
  await store.register({
    id,
    hostname: "host",
    pid: 1,
    version: "1.2.3",
    queues: ["default"],
    kinds: ["task"],
    workers: 10,
    deadAfter: MINUTE,
    ...fields,
  });
}

export async function claimReply(store: Store, fields: Partial<ClaimQuery> = {}): Promise<ClaimReply> {
  return store.claim({ server: "s1", sequence: 1, queues: ["default"], kinds: [], limit: 100, ...fields });
}

/** Claims as server `s1` from queue `default`, unless `fields` says otherwise. */
export async function claim(store: Store, fields: Partial<ClaimQuery> = {}): Promise<readonly ClaimedJob[]> {
  const reply = await claimReply(store, fields);
  assert.equal(reply.known, true, "the claiming server is known");
  return reply.jobs;
}

export const claimIds = async (store: Store, fields: Partial<ClaimQuery> = {}): Promise<JobId[]> =>
  idsOf(await claim(store, fields));

export const claimOne = async (store: Store, fields: Partial<ClaimQuery> = {}): Promise<ClaimedJob> =>
  only(await claim(store, { limit: 1, ...fields }));

/** A new job that is processing, by default in queue `running`. Nothing else of its queue and kind may be ready. */
export async function running(store: Store, fields: Partial<NewJob> = {}): Promise<ClaimedJob> {
  const id = await insertOne(store, { queue: "running", ...fields });
  const job = await claimOne(store, { queues: [fields.queue ?? "running"], kinds: [fields.kind ?? "task"] });
  assert.equal(job.id, id);
  return job;
}

export function outcome(ref: JobRef, state: OutcomeState, fields: Partial<Outcome> = {}): Outcome {
  const none = { delay: 0, refund: false, reason: null, error: null, trace: null, output: null };
  return { ...none, ...fields, id: ref.id, claim: ref.claim, state };
}

export async function finish(
  store: Store,
  ref: JobRef,
  state: OutcomeState,
  fields: Partial<Outcome> = {},
): Promise<FinishResult> {
  return only(await store.finish("s1", [outcome(ref, state, fields)]));
}

/** Ends an attempt and asserts where the job went. */
export async function end(
  store: Store,
  ref: JobRef,
  state: OutcomeState,
  fields: Partial<Outcome> = {},
  expected: JobState = state,
): Promise<void> {
  assert.deepEqual(await finish(store, ref, state, fields), { status: "applied", state: expected });
}

/** A new job that has ended in `state`, without a reason and with an output. */
export async function ended(
  store: Store,
  state: "succeeded" | "failed" | "deleted",
  fields: Partial<NewJob> = {},
): Promise<JobId> {
  const job = await running(store, fields);
  await end(store, job, state, { output: '"output"' });
  return job.id;
}

let keys = 0;

/**
 * One new job in each state, scheduled an hour ahead, throttled until the running one ends, awaiting that one. Needs server
 * `s1`.
 */
export async function oneOfEach(store: Store, fields: Partial<NewJob> = {}): Promise<Record<JobState, JobId>> {
  keys += 1;
  const limit: Limit = { key: `key ${keys}`, max: 1, rate: 0, per: 0, burst: 0 };
  const processing = (await running(store, { ...fields, limit })).id;
  const succeeded = await ended(store, "succeeded", fields);
  const failed = await ended(store, "failed", fields);
  const deleted = await ended(store, "deleted", fields);
  const scheduled = await insertOne(store, { ...fields, delay: HOUR });
  const enqueued = await insertOne(store, fields);
  const throttled = await insertOne(store, { ...fields, limit });
  const awaiting = await insertOne(store, { ...fields, parents: [{ id: processing, on: ["succeeded"] }] });
  return { awaiting, scheduled, throttled, enqueued, processing, succeeded, failed, deleted };
}

export async function record(store: Store, id: JobId): Promise<JobRecord> {
  const job = await store.job(id);
  assert.ok(job, `job ${id} exists`);
  assert.equal(job.id, id);
  return job;
}

export const stateOf = async (store: Store, id: JobId): Promise<JobState> => (await record(store, id)).state;

export const reasonsOf = async (store: Store, id: JobId): Promise<string[]> =>
  (await record(store, id)).history.map(({ reason }) => reason);

/** All jobs of a query, over as many pages as it takes. */
export async function allPages(store: Store, query: JobQuery): Promise<JobRecord[]> {
  const found: JobRecord[] = [];
  let cursor: string | null = null;
  let pages = 0;
  do {
    const page = await store.jobs(cursor === null ? query : { ...query, cursor });
    if (query.limit) assert.ok(page.jobs.length <= query.limit, "a page is not longer than its limit");
    found.push(...page.jobs);
    cursor = page.next;
    pages += 1;
    assert.ok(pages < 10_000, "pages come to an end");
  } while (cursor !== null);
  return found;
}

/** Everything that a store shows of itself, to tell whether a call changed something. */
export async function snapshot(store: Store): Promise<unknown> {
  const jobs: Partial<Record<JobState, JobRecord[]>> = {};
  for (const state of ALL_STATES) jobs[state] = await allPages(store, { state, limit: 500 });
  const queues = (await store.queues()).map(({ latency, ...queue }) => ({ ...queue, waiting: latency !== null }));
  const { batches } = await store.batches({ limit: 500 });
  return { jobs, counts: await store.counts(), servers: await store.servers(), queues, batches };
}

export const idsOf = (jobs: readonly { readonly id: JobId }[]): JobId[] => jobs.map(({ id }) => id);

export const ascending = (ids: readonly JobId[]): JobId[] => [...ids].sort((a, b) => a - b);

export function only<T>(values: readonly T[]): T {
  assert.equal(values.length, 1, "exactly one");
  return values[0] as T;
}

export function at<T>(values: readonly T[], index: number): T {
  const value = values.at(index);
  assert.ok(value !== undefined, `there is a value at ${index}`);
  return value;
}

export function assertBetween(value: number | null, low: number, high: number, what: string): void {
  assert.ok(value !== null && value >= low && value <= high, `${what}: ${value} is between ${low} and ${high}`);
}

/** `instant` is at most `SLACK` after `expected`, a moment that was read from the store's clock. */
export function assertNear(instant: Date | null, expected: number, what: string): void {
  assertBetween(instant?.getTime() ?? null, expected, expected + SLACK, what);
}

export async function clock(store: Store): Promise<number> {
  return (await store.now()).getTime();
}

/** Moves the clock to just after the start of a minute, so that what follows happens within that one. Returns its start. */
export async function startMinute({ store, advance }: Harness): Promise<number> {
  await advance(MINUTE - ((await clock(store)) % MINUTE));
  const now = await clock(store);
  return now - (now % MINUTE);
}

/** Refused as invalid, with a problem in each of the fields. */
export async function refused(call: Promise<unknown>, ...fields: readonly string[]): Promise<void> {
  await assert.rejects(call, (error: { code?: unknown; problems?: readonly { field: string }[] }) => {
    assert.equal(error.code, "invalid");
    const named = error.problems?.map((problem) => problem.field) ?? [];
    for (const field of fields) assert.ok(named.includes(field), `${field} is among the problems named: ${named}`);
    return true;
  });
}

/** A subscriber and all that it has been told. */
export interface Subscriber {
  readonly events: StoreEvent[];
  readonly stop: () => Promise<void>;
  /** Waits until an event that has not been waited for yet passes `test`, and forgets it and all before. */
  next(test: (event: StoreEvent) => boolean): Promise<StoreEvent>;
}

/** Subscribes and waits until connected. */
export async function subscribe(harness: Harness): Promise<Subscriber> {
  const events: StoreEvent[] = [];
  let seen = 0;
  const stop = harness.store.subscribe((event) => events.push(event));
  const next = async (test: (event: StoreEvent) => boolean): Promise<StoreEvent> => {
    const index = (): number => events.findIndex((event, position) => position >= seen && test(event));
    await eventually(
      harness,
      () => index() >= 0,
      () => `expected event among ${JSON.stringify(events.slice(seen))}`,
    );
    const position = index();
    seen = position + 1;
    return at(events, position);
  };
  const subscriber = { events, stop, next };
  await next(({ type }) => type === "connected");
  return subscriber;
}

/** Waits for `done`, at most 10 real seconds, letting a little of the store's time pass meanwhile. */
export async function eventually(harness: Harness, done: () => boolean, what: () => string): Promise<void> {
  for (let tries = 0; tries < 1_000; tries++) {
    if (done()) return;
    // The first tries take no time: most stores deliver at once.
    if (tries > 10) await realTime(10);
    await harness.advance(1);
  }
  assert.fail(`not within 10 seconds: ${what()}`);
}
