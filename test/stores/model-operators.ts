/** What the model makes of servers, of operators, and of what the leader does. */
import type {
  Beat,
  BeatReply,
  JobFilter,
  LeadQuery,
  LeadReply,
  Orphan,
  PruneQuery,
  ServerInfo,
} from "../../engine/store.ts";
import {
  addHistory,
  ended,
  isEnd,
  isLiving,
  isTaken,
  type Job,
  jobsOf,
  Refused,
  readyStateOf,
  settle,
  type World,
} from "./model.ts";
import { promote } from "./model-jobs.ts";

export function register(world: World, info: ServerInfo): void {
  if (world.servers.has(info.id)) throw new Refused("conflict");
  world.servers.set(info.id, { info, startedAt: world.now, heartbeatAt: world.now, deadAt: null, running: 0 });
}

export function heartbeat(world: World, { server: id, running }: Beat): BeatReply {
  const server = world.servers.get(id);
  if (!server || !isLiving(world, id)) return { known: false, leases: [], pausedQueues: [] };
  Object.assign(server, { heartbeatAt: world.now, running });
  const held = jobsOf(world, (job) => job.state === "processing" && job.server === id);
  return {
    known: true,
    leases: held.map(({ id, claim, sequence, cancelRequested }) => ({ id, claim, sequence, cancelRequested })),
    pausedQueues: [...world.paused].sort(),
  };
}

export function unregister(world: World, id: string): void {
  world.servers.delete(id);
}

export function lead(world: World, { name, holder, ttl }: LeadQuery): LeadReply {
  const lease = world.leases.get(name);
  const isHeld = lease !== undefined && lease.until > world.now;
  if (isHeld && lease.holder !== holder) return { held: false, heldFor: 0 };
  const since = isHeld ? lease.since : world.now;
  world.leases.set(name, { holder, since, until: world.now + ttl });
  return { held: true, heldFor: world.now - since };
}

export function resign(world: World, { name, holder }: Omit<LeadQuery, "ttl">): void {
  if (world.leases.get(name)?.holder === holder) world.leases.delete(name);
}

export function orphans(world: World, limit: number): Orphan[] {
  for (const server of world.servers.values()) {
    const silent = world.now - server.heartbeatAt;
    if (server.deadAt === null && silent > server.info.deadAfter) server.deadAt = world.now;
  }
  return jobsOf(world, ({ state, server }) => state === "processing" && !isLiving(world, server))
    .slice(0, limit)
    .map(({ id, claim, given: { kind, queue }, attempt, maxAttempts, server, cancelRequested, history }) => ({
      ...{ id, claim, kind, queue, attempt, maxAttempts, server: server ?? "", cancelRequested },
      lastReason: history.at(-1)?.reason ?? null,
    }));
}

function matching(world: World, { ids, state, queue, kind }: JobFilter): Job[] {
  return jobsOf(
    world,
    (job) =>
      (ids === undefined || ids.includes(job.id)) &&
      (state === undefined || job.state === state) &&
      (queue === undefined || job.given.queue === queue) &&
      (kind === undefined || job.given.kind === kind),
  );
}

export function deleteJobs(world: World, filter: JobFilter): number {
  const jobs = matching(world, filter);
  const running = jobs.filter(({ state, cancelRequested }) => state === "processing" && !cancelRequested);
  const others = jobs.filter(({ state }) => !["processing", "succeeded", "deleted"].includes(state));
  for (const job of [...running, ...others]) world.touched.add(job.id);
  for (const job of running) job.cancelRequested = true;
  for (const job of others) {
    job.state = "deleted";
    addHistory(world, job, { reason: "deleted" });
    ended(world, job);
  }
  for (const { id } of others) settle(world, id, "deleted");
  return running.length + others.length;
}

const requeueable = (world: World, filter: JobFilter): Job[] =>
  matching(world, filter).filter(({ state }) => isEnd(state) || state === "scheduled");

/** The key that a job takes again when it is requeued. */
const keyOf = ({ given: { unique } }: Job): string | null => (unique?.window === null ? unique.key : null);

/**
 * True unless it is open what requeueing does: which of two jobs takes the same unique key again, and whether the rule of a
 * limit counts anew that came with a job which was deleted at its insert.
 */
export function isDecided(world: World, filter: JobFilter): boolean {
  const jobs = requeueable(world, filter);
  const keys = jobs.flatMap((job) => keyOf(job) ?? []);
  return new Set(keys).size === keys.length && !jobs.some((job) => job.stillborn && job.given.limit !== null);
}

export function requeue(world: World, filter: JobFilter): number {
  const jobs = requeueable(world, filter).filter((job) => !isTaken(world, keyOf(job) ?? "", job.id));
  for (const job of jobs) {
    const wasScheduled = job.state === "scheduled";
    const key = keyOf(job);
    if (key !== null) world.keys.set(key, { id: job.id, until: null });
    job.state = readyStateOf(job);
    addHistory(world, job, { reason: "requeued" });
    Object.assign(job, { runAt: world.now, finalizedAt: null, output: null });
    if (wasScheduled) job.maxAttempts = Math.max(job.maxAttempts, job.attempt + 1);
    else job.attempt = 0;
    world.touched.add(job.id);
  }
  return jobs.length;
}

export function pauseQueue(world: World, queue: string): void {
  world.paused.add(queue);
}

export function resumeQueue(world: World, queue: string): void {
  world.paused.delete(queue);
}

/** Without a limit, and all that other calls have left is done in the same call here. */
export function sweep(world: World): number {
  return jobsOf(world, (job) => promote(world, job)).length;
}

/** Without a limit. Keys of limits and statistics stay: no run lasts as long as they are kept. */
export function prune(world: World, query: PruneQuery): number {
  const { now, servers, keys } = world;
  const jobs = jobsOf(world, ({ state, finalizedAt }) => {
    const age = isEnd(state) ? query[state] : null;
    return age !== null && (finalizedAt ?? now) <= now - age;
  });
  for (const { id, parents } of jobs) {
    world.jobs.delete(id);
    for (const touched of [id, ...parents.keys()]) world.touched.add(touched);
  }
  for (const { id } of jobs) settle(world, id, "deleted");
  const silent = [...servers.values()].filter(
    ({ heartbeatAt, info }) => now - heartbeatAt > Math.max(query.servers, info.deadAfter),
  );
  for (const { info } of silent) servers.delete(info.id);
  const free = [...keys].filter(([, { until }]) => until !== null && until <= now);
  for (const [key] of free) keys.delete(key);
  return jobs.length + silent.length + free.length;
}
