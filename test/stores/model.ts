/**
 * A store as plain as can be: a few maps, read from end to end whenever something is asked. Written from the documents
 * (`store.ts`, `records.ts`, `requests.ts`, docs/concepts.md) and not from the engine's rules, so that a mistake in those is
 * not made here too. The verbs are in `model-jobs.ts` and `model-operators.ts`, what a store shows in `model-views.ts`.
 *
 * Left out: rates of limits, batches, recurring jobs, the console and the statistics by the minute.
 */
import type {
  HistoryEntry,
  JobId,
  JobRef,
  JobState,
  JsonText,
  NewJob,
  ParentState,
  ServerInfo,
} from "../../engine/store.ts";

/** All instants are milliseconds since 1970. */
export interface Job {
  readonly id: JobId;
  /** As it was inserted. */
  readonly given: NewJob;
  readonly createdAt: number;
  /** By id, each once, with the ends that are asked for. */
  readonly parents: ReadonlyMap<JobId, readonly ParentState[]>;
  /** Parents that it still waits for. */
  readonly waitsFor: Set<JobId>;
  /** It was deleted at its insert, because of a parent. */
  stillborn: boolean;
  state: JobState;
  claim: number;
  attempt: number;
  maxAttempts: number;
  runAt: number;
  attemptedAt: number | null;
  finalizedAt: number | null;
  server: string | null;
  sequence: number;
  cancelRequested: boolean;
  params: Record<string, JsonText>;
  history: HistoryEntry[];
  output: JsonText | null;
}

export interface Server {
  readonly info: ServerInfo;
  readonly startedAt: number;
  heartbeatAt: number;
  deadAt: number | null;
  running: number;
}

export interface World {
  now: number;
  /** The highest id so far. */
  lastId: JobId;
  /** In order of id. */
  jobs: Map<JobId, Job>;
  /** Every claim there ever was. */
  claims: JobRef[];
  /** Who holds a unique key, until when; null = until the job ends. */
  keys: Map<string, { readonly id: JobId; readonly until: number | null }>;
  /** How many jobs of a key of limits may run, by its newest job. */
  rules: Map<string, { readonly max: number; readonly by: JobId }>;
  servers: Map<string, Server>;
  leases: Map<string, { readonly holder: string; readonly since: number; readonly until: number }>;
  paused: Set<string>;
  /** All-time totals. */
  succeeded: number;
  deleted: number;
  /** Jobs that the latest command has changed, or may have. */
  touched: Set<JobId>;
}

export function newWorld(now: number): World {
  return {
    ...{ now, lastId: 0, jobs: new Map(), claims: [], keys: new Map(), rules: new Map() },
    ...{ servers: new Map(), leases: new Map(), paused: new Set(), succeeded: 0, deleted: 0, touched: new Set() },
  };
}

/** What the model throws where a store throws an error with this `code`. */
export class Refused extends Error {
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

export const jobsOf = ({ jobs }: World, keep: (job: Job) => boolean): Job[] => [...jobs.values()].filter(keep);

export const isLiving = ({ servers }: World, id: string | null): boolean => servers.get(id ?? "")?.deadAt === null;

/** `enqueued`, or `throttled` for a job with a limit. */
export const readyStateOf = ({ given }: Job): JobState => (given.limit === null ? "enqueued" : "throttled");

export const isEnd = (state: JobState): state is ParentState =>
  state === "succeeded" || state === "failed" || state === "deleted";

/** The job that processes under this claim. */
export function heldJob({ jobs }: World, { id, claim }: JobRef): Job | null {
  const job = jobs.get(id);
  return job?.state === "processing" && job.claim === claim ? job : null;
}

/** The reason of a job that was deleted because of a parent, whichever it was; `withReasons` makes it of a store's. */
export const BY_PARENT = "by a parent";

export function addHistory(world: World, job: Job, entry: Partial<HistoryEntry> & { readonly reason: string }): void {
  const none = { error: null, trace: null, server: null };
  const at = new Date(world.now);
  job.history = [...job.history, { ...none, at, state: job.state, attempt: job.attempt, ...entry }].slice(-16);
}

/** True while somebody else holds the key. */
export function isTaken({ keys, now }: World, key: string, by: JobId | null): boolean {
  const holder = keys.get(key);
  return holder !== undefined && holder.id !== by && (holder.until === null || holder.until > now);
}

/** The job has ended: that counts, and frees its key unless that has a window. */
export function ended(world: World, job: Job): void {
  job.finalizedAt = world.now;
  job.waitsFor.clear();
  if (job.state === "succeeded") world.succeeded += 1;
  if (job.state === "deleted") world.deleted += 1;
  const key = job.given.unique?.key ?? "";
  const holder = world.keys.get(key);
  if (holder?.id === job.id && holder.until === null) world.keys.delete(key);
}

/** What the end of a parent means to a child: true = it has ended as asked, false = it can't any more, null = neither. */
export function isMet(on: readonly ParentState[], end: ParentState): boolean | null {
  if (on.includes(end)) return true;
  return end === "failed" ? null : false;
}

/** Deals with all that waits for a job that has ended; a parent that was removed has ended as `deleted`. */
export function settle(world: World, parent: JobId, end: ParentState): void {
  for (const child of jobsOf(world, ({ waitsFor }) => waitsFor.has(parent))) {
    // It may have been deleted because of an earlier one of these children.
    if (!child.waitsFor.has(parent)) continue;
    const met = isMet(child.parents.get(parent) ?? [], end);
    if (met === null) continue;
    world.touched.add(child.id);
    child.waitsFor.delete(parent);
    if (met && child.waitsFor.size === 0) {
      child.state = child.runAt > world.now ? "scheduled" : readyStateOf(child);
      child.runAt = Math.max(child.runAt, world.now);
    } else if (!met) {
      child.state = "deleted";
      addHistory(world, child, { reason: BY_PARENT });
      ended(world, child);
      settle(world, child.id, "deleted");
    }
  }
}

/** The rule of a key is that of its newest job. */
export function useRule({ rules }: World, { id, given: { limit } }: Job): void {
  if (limit !== null && id > (rules.get(limit.key)?.by ?? 0)) rules.set(limit.key, { max: limit.max, by: id });
}
