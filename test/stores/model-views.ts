/** The model as a store shows it. */
import {
  type ClaimedJob,
  type Counts,
  type HistoryEntry,
  JOB_STATES,
  type JobFields,
  type JobRecord,
  type JobState,
  type QueueRecord,
  type ServerRecord,
} from "../../engine/store.ts";
import { BY_PARENT, isLiving, type Job, jobsOf, type World } from "./model.ts";

const dateOf = (instant: number | null): Date | null => (instant === null ? null : new Date(instant));

function fieldsOf({ given, ...job }: Job): JobFields {
  const { kind, queue, args, priority, timeout, deadline, title, tags, meta, recurringId, batch } = given;
  return {
    ...{ kind, queue, args, priority, timeout, deadline, title, tags, meta, recurringId, batch },
    ...{ id: job.id, claim: job.claim, attempt: job.attempt, maxAttempts: job.maxAttempts, params: { ...job.params } },
    runAt: new Date(job.runAt),
    createdAt: new Date(job.createdAt),
    limitKey: given.limit?.key ?? null,
    parents: [...job.parents.keys()],
  };
}

export function claimedOf(job: Job): ClaimedJob {
  return { ...fieldsOf(job), limited: false, attemptedAt: new Date(job.attemptedAt ?? 0) };
}

export function recordOf(world: World, job: Job): JobRecord {
  const { state, server, cancelRequested, history, output } = job;
  return {
    ...fieldsOf(job),
    ...{ state, server, cancelRequested, history, output, progress: null, afterBatch: null },
    attemptedAt: dateOf(job.attemptedAt),
    finalizedAt: dateOf(job.finalizedAt),
    pendingParents: job.waitsFor.size,
    children: jobsOf(world, ({ parents }) => parents.has(job.id)).map(({ id }) => id),
  };
}

/**
 * What a store has, with reasons as the model has them: when several parents end at once, it is open which of them a child
 * is deleted for. One of its parents it must be.
 */
export function withReasons<Record extends Pick<JobRecord, "parents" | "history">>(found: Record): Record {
  const plain = (entry: HistoryEntry): HistoryEntry => {
    const [, parent] = /^parent (\d+) (?:succeeded|deleted|pruned)$/.exec(entry.reason) ?? [];
    return found.parents.includes(Number(parent)) ? { ...entry, reason: BY_PARENT } : entry;
  };
  return { ...found, history: found.history.map(plain) };
}

/** What lists of each state are sorted by, ascending. */
const ORDER: Readonly<Record<JobState, (job: Job) => readonly [number, number]>> = {
  awaiting: ({ id }) => [0, -id],
  scheduled: ({ id, runAt }) => [runAt, id],
  throttled: ({ id, given }) => [-given.priority, id],
  enqueued: ({ id, given }) => [-given.priority, id],
  processing: ({ id }) => [0, -id],
  succeeded: ({ id, finalizedAt }) => [-(finalizedAt ?? 0), -id],
  failed: ({ id, finalizedAt }) => [-(finalizedAt ?? 0), -id],
  deleted: ({ id, finalizedAt }) => [-(finalizedAt ?? 0), -id],
};

export function listOf(world: World, state: JobState): JobRecord[] {
  const keyOf = ORDER[state];
  return jobsOf(world, (job) => job.state === state)
    .sort((a, b) => keyOf(a)[0] - keyOf(b)[0] || keyOf(a)[1] - keyOf(b)[1])
    .map((job) => recordOf(world, job));
}

export function countsOf(world: World): Counts {
  const count = (state: JobState): number => jobsOf(world, (job) => job.state === state).length;
  return {
    awaiting: count("awaiting"),
    scheduled: count("scheduled"),
    throttled: count("throttled"),
    enqueued: count("enqueued"),
    processing: count("processing"),
    failed: count("failed"),
    retries: jobsOf(world, ({ state, attempt }) => state === "scheduled" && attempt > 0).length,
    succeeded: world.succeeded,
    deleted: world.deleted,
    capped: false,
  };
}

const LIVE: readonly JobState[] = JOB_STATES.filter((state) => state !== "succeeded" && state !== "deleted");

export function queuesOf(world: World): QueueRecord[] {
  const served = [...world.servers.values()].filter(({ info }) => isLiving(world, info.id));
  const live = jobsOf(world, ({ state }) => LIVE.includes(state));
  const names = new Set([
    ...world.paused,
    ...served.flatMap(({ info }) => info.queues),
    ...live.map(({ given }) => given.queue),
  ]);
  return [...names].sort().map((name) => {
    const jobs = live.filter(({ given }) => given.queue === name);
    const count = (state: JobState): number => jobs.filter((job) => job.state === state).length;
    const due = jobs.filter(({ state }) => state === "enqueued").map(({ runAt }) => world.now - runAt);
    return {
      ...{ name, paused: world.paused.has(name) },
      ...{ awaiting: count("awaiting"), scheduled: count("scheduled"), throttled: count("throttled") },
      ...{ enqueued: count("enqueued"), processing: count("processing"), failed: count("failed") },
      latency: due.length === 0 ? null : Math.max(...due),
    };
  });
}

/** Of limits what the model knows. */
export function limitsOf(world: World): { key: string; max: number; active: number; throttled: number }[] {
  return [...world.rules.keys()].sort().map((key) => {
    const jobs = jobsOf(world, ({ given }) => given.limit?.key === key);
    const count = (state: JobState): number => jobs.filter((job) => job.state === state).length;
    return { key, max: world.rules.get(key)?.max ?? 0, active: count("processing"), throttled: count("throttled") };
  });
}

export function serversOf({ servers }: World): ServerRecord[] {
  return [...servers.values()]
    .map(({ info, startedAt, heartbeatAt, deadAt, running }) => ({
      ...{ ...info, running, startedAt: new Date(startedAt), heartbeatAt: new Date(heartbeatAt) },
      deadAt: dateOf(deadAt),
    }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}
