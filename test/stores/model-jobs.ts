/** What the model makes of inserts, claims and results. */
import assert from "node:assert/strict";
import type {
  ClaimQuery,
  ClaimReply,
  FinishResult,
  InsertedJob,
  JobId,
  JobRef,
  JsonText,
  NewJob,
  Outcome,
  ParentState,
} from "../../engine/store.ts";
import {
  addHistory,
  BY_PARENT,
  ended,
  heldJob,
  isEnd,
  isLiving,
  isMet,
  isTaken,
  type Job,
  jobsOf,
  Refused,
  readyStateOf,
  settle,
  useRule,
  type World,
} from "./model.ts";
import { claimedOf } from "./model-views.ts";

/** A job of the call, or the holder that it is a duplicate of. */
type Made = Pick<InsertedJob, "id" | "duplicate">;

/** `fresh`: the ids that the store has given to the new jobs, in their order. A parent by position comes before its child. */
export function insert(
  world: World,
  given: readonly NewJob[],
  fresh: readonly JobId[],
  whileHeld?: JobRef,
): InsertedJob[] {
  if (whileHeld !== undefined && heldJob(world, whileHeld) === null) throw new Refused("claim_lost");
  requireParents(world, given);
  const left = [...fresh];
  const made: Made[] = [];
  // Within one call a repeated key is always a duplicate of the first, whatever became of that.
  const inCall = new Map<string, JobId>();
  for (const each of given) {
    const key = each.unique?.key ?? "";
    const holder = inCall.get(key) ?? (isTaken(world, key, null) ? world.keys.get(key)?.id : undefined);
    const id = holder ?? add(world, each, made, left.shift());
    if (each.unique !== null) inCall.set(key, id);
    made.push({ id, duplicate: holder !== undefined });
  }
  assert.equal(left.length, 0, "the store has added no more jobs than there were to add");
  return made.map(({ id, duplicate }) => {
    return { id, state: world.jobs.get(id)?.state ?? "deleted", duplicate, replaced: false };
  });
}

/** A job that is added must not name a parent that is not there; what a duplicate names is not looked at. */
function requireParents(world: World, given: readonly NewJob[]): void {
  const keys = new Set<string>();
  for (const { unique, parents } of given) {
    const twin = unique !== null && (keys.has(unique.key) || isTaken(world, unique.key, null));
    if (unique !== null) keys.add(unique.key);
    const missing = parents.some((parent) => "id" in parent && !world.jobs.has(parent.id));
    if (missing && !twin) throw new Refused("not_found");
  }
}

function add(world: World, given: NewJob, made: readonly Made[], id = 0): JobId {
  assert.ok(id > world.lastId, `id ${id} is higher than ${world.lastId}`);
  world.lastId = id;
  const parents = parentsOf(given, made);
  const runAt = world.now + given.delay;
  const job: Job = {
    ...{
      id,
      given,
      createdAt: world.now,
      parents,
      waitsFor: new Set(),
      stillborn: false,
      state: "awaiting",
      claim: 0,
      attempt: 0,
    },
    ...{ maxAttempts: given.maxAttempts, runAt, attemptedAt: null, finalizedAt: null, server: null, sequence: 0 },
    ...{ cancelRequested: false, params: {}, history: [], output: null },
  };
  world.jobs.set(id, job);
  world.touched.add(id);
  begin(world, job);
  // One that is deleted at once never holds its key.
  if (given.unique !== null && job.state !== "deleted") {
    const { key, window } = given.unique;
    world.keys.set(key, { id, until: window === null ? null : world.now + window });
  }
  return id;
}

/** Several entries for one parent must all be met. */
function parentsOf({ parents }: NewJob, made: readonly Made[]): Map<JobId, readonly ParentState[]> {
  const found = new Map<JobId, readonly ParentState[]>();
  for (const parent of parents) {
    const id = "id" in parent ? parent.id : (made[parent.index]?.id ?? 0);
    const before = found.get(id);
    found.set(id, before === undefined ? parent.on : before.filter((state) => parent.on.includes(state)));
  }
  return found;
}

/** Where a new job begins: it waits for its parents, or its time, or is ready, or can never be. */
function begin(world: World, job: Job): void {
  let doomed = false;
  for (const [parent, on] of job.parents) {
    world.touched.add(parent);
    const state = world.jobs.get(parent)?.state ?? "deleted";
    const met = isEnd(state) ? isMet(on, state) : null;
    if (met === null) job.waitsFor.add(parent);
    doomed ||= met === false;
  }
  if (doomed) {
    Object.assign(job, { state: "deleted", stillborn: true });
    addHistory(world, job, { reason: BY_PARENT });
    ended(world, job);
    return;
  }
  useRule(world, job);
  if (job.waitsFor.size === 0) job.state = job.runAt > world.now ? "scheduled" : readyStateOf(job);
}

export function claim(world: World, { server, sequence, queues, kinds, limit }: ClaimQuery): ClaimReply {
  if (!isLiving(world, server)) return { known: false, jobs: [], nextIn: null };
  const open = [...new Set(queues)].filter((queue) => !world.paused.has(queue));
  const asked = jobsOf(world, ({ given }) => open.includes(given.queue) && isOf(given, kinds));
  for (const job of asked) promote(world, job);
  const taken: Job[] = [];
  for (const queue of open) {
    const waiting = asked.filter(({ given }) => given.queue === queue).sort(byUrgency);
    for (const job of waiting) {
      if (taken.length === limit || !mayStart(world, job)) continue;
      Object.assign(job, { state: "processing", attempt: job.attempt + 1, claim: job.claim + 1 });
      Object.assign(job, { server, sequence, attemptedAt: world.now });
      world.claims.push({ id: job.id, claim: job.claim });
      world.touched.add(job.id);
      taken.push(job);
    }
  }
  const scheduled = asked.filter(({ state }) => state === "scheduled").map(({ runAt }) => runAt - world.now);
  const next = asked.some((job) => mayStart(world, job)) ? 0 : Math.min(...scheduled);
  return { known: true, jobs: taken.map(claimedOf), nextIn: Number.isFinite(next) ? next : null };
}

const isOf = ({ kind }: NewJob, kinds: readonly string[]): boolean => kinds.length === 0 || kinds.includes(kind);

const byUrgency = (a: Job, b: Job): number => b.given.priority - a.given.priority || a.id - b.id;

/** A scheduled job whose time has come waits to be claimed. False when it is none. */
export function promote(world: World, job: Job): boolean {
  if (job.state !== "scheduled" || job.runAt > world.now) return false;
  job.state = readyStateOf(job);
  world.touched.add(job.id);
  return true;
}

function mayStart(world: World, { state, given: { limit } }: Job): boolean {
  if (state !== "throttled" || limit === null) return state === "enqueued";
  const running = jobsOf(world, (job) => job.state === "processing" && job.given.limit?.key === limit.key);
  return running.length < (world.rules.get(limit.key)?.max ?? 0);
}

export function finish(world: World, server: string, outcomes: readonly Outcome[]): FinishResult[] {
  const finished: Job[] = [];
  const results = outcomes.map((outcome): FinishResult => {
    const job = heldJob(world, outcome);
    if (job === null) return { status: "stale" };
    apply(world, job, outcome, server);
    finished.push(job);
    return { status: "applied", state: job.state };
  });
  for (const { id, state } of finished) if (isEnd(state)) settle(world, id, state);
  return results;
}

function apply(world: World, job: Job, outcome: Outcome, server: string): void {
  const { state, delay, refund, error, trace } = outcome;
  const cancelled = job.cancelRequested && state !== "succeeded";
  const again = state === "enqueued" || (state === "scheduled" && delay <= 0);
  job.state = cancelled ? "deleted" : again ? readyStateOf(job) : state;
  job.cancelRequested = false;
  world.touched.add(job.id);
  const reason = cancelled && state !== "deleted" ? "cancelled" : outcome.reason;
  if (reason !== null) addHistory(world, job, { reason, error, trace, server });
  if (refund) job.attempt -= 1;
  if (job.state === "succeeded" || job.state === "deleted") job.output = outcome.output;
  if (isEnd(job.state)) ended(world, job);
  else job.runAt = world.now + (job.state === "scheduled" ? delay : 0);
}

export function setParams(world: World, ref: JobRef, params: Readonly<Record<string, JsonText>>): void {
  const job = heldJob(world, ref);
  if (job === null) throw new Refused("claim_lost");
  Object.assign(job.params, params);
  world.touched.add(job.id);
}
