/** Random jobs and recurring jobs; see `generate.ts`. */
import fc from "fast-check";
import { MISFIRES } from "../../engine/rules/misfire.ts";
import { fenceAfter } from "../scenario/edges.ts";
import type { JobPlan, LimitPlan, Obedience, RecurringPlan, RunPlan, SimConfig } from "../scenario/scenario.ts";
import { instant, pick } from "./generate-fault.ts";
import type { Feature } from "./profiles.ts";

const number = fc.nat(2 ** 20);

const rawRun = fc.record({ work: number, end: number, checkpoint: fc.nat(1), enqueues: number });
type RawRun = typeof rawRun extends fc.Arbitrary<infer Value> ? Value : never;

export const rawJob = fc.record({
  ...{ at: number, queue: fc.nat(1), priority: number, delay: number, maxAttempts: number, timeout: number },
  runs: fc.array(rawRun, { minLength: 1, maxLength: 3, size: "max" }),
  obeys: number,
  limit: fc.record({ on: fc.nat(2), key: number, max: number, rate: number, per: number, burst: number }),
  unique: fc.record({ on: fc.nat(1), key: fc.nat(2), window: number, mode: fc.nat(1) }),
  after: fc.array(fc.record({ job: number, finished: fc.boolean() }), { maxLength: 2, size: "max" }),
  /** One in three enqueues other jobs and is not enqueued by others. */
  parent: fc.nat(2),
});
export type RawJob = typeof rawJob extends fc.Arbitrary<infer Value> ? Value : never;

export const rawRecurring = fc.record({
  ...{ at: number, cron: number, timeZone: number, misfire: number, overlap: fc.boolean(), run: rawRun },
});
export type RawRecurring = typeof rawRecurring extends fc.Arbitrary<infer Value> ? Value : never;

export interface JobContext {
  readonly has: (feature: Feature) => boolean;
  readonly edges: readonly number[];
  readonly config: SimConfig;
  /** Milliseconds. */
  readonly duration: number;
}

const CRONS = ["@every 10s", "@every 37s", "* * * * *", "*/2 * * * *", "*/5 * * * *", "*/15 * * * * *", "30 * * * * *"];
const TIME_ZONES = ["UTC", "Europe/London", "America/New_York", "Asia/Kolkata"];
const ATTEMPTS = [1, 2, 3, 25, 25];
/** Rates that divide their time and rates that don't; 0 = none. */
const RATES = [0, 0, 1, 2, 3, 7, 10, 60];
const PERS = [1_000, 997, 10_000, 60_000];
const LIMIT_KEYS = 3;

export function jobOf(raw: RawJob, index: number, all: readonly RawJob[], context: JobContext): JobPlan {
  const { has, edges, duration } = context;
  const children = [...all.keys()].filter((other) => (all[other] as RawJob).parent > 0);
  const enqueues = has("enqueueing") && raw.parent === 0 ? children : [];
  return {
    // Some come together, most within the first two thirds, so that there is time for what becomes of them.
    at: raw.at % 4 === 0 ? 0 : instant(raw.at, (duration * 2) / 3),
    queue: raw.queue === 0 ? "a" : "b",
    priority: pick([0, 0, 0, 1, -5, 10], raw.priority),
    delay: raw.delay % 3 === 0 ? pick(edges, Math.floor(raw.delay / 3)) : 0,
    maxAttempts: pick(ATTEMPTS, raw.maxAttempts),
    timeout:
      has("timeouts") && raw.timeout % 2 === 0 ? Math.max(pick(edges, Math.floor(raw.timeout / 2)), 1_000) : null,
    runs: raw.runs.map((run) => runOf(run, enqueues, context)),
    obeys: has("stubborn") ? pick(obediences(context.config), raw.obeys) : 0,
    limit: has("limits") && raw.limit.on > 0 ? limitOf(raw.limit, all) : null,
    unique: has("unique") && raw.unique.on > 0 ? uniqueOf(raw.unique, edges) : null,
    after: has("dependencies") ? afterOf(raw.after, index) : [],
    batch: null,
    afterBatch: null,
  };
}

function obediences({ killGrace }: SimConfig): readonly Obedience[] {
  return [0, 0, 0, Math.max(killGrace - 1_000, 0), killGrace, killGrace + 1_000, null];
}

/** The numbers of a key are those of the first job of all, and for one in four jobs others: limits may change. */
function limitOf(raw: RawJob["limit"], all: readonly RawJob[]): LimitPlan {
  const key = raw.key % LIMIT_KEYS;
  const numbers = raw.on === 1 && raw.key % 4 === 0 ? raw : ((all[key % all.length] as RawJob).limit ?? raw);
  return {
    key,
    max: pick([0, 1, 1, 2, 5], numbers.max),
    rate: pick(RATES, numbers.rate),
    per: pick(PERS, numbers.per),
    burst: pick([1, 1, 2, 5], numbers.burst),
  };
}

function uniqueOf({ key, window, mode }: RawJob["unique"], edges: readonly number[]): JobPlan["unique"] {
  const held = window % 2 === 0 ? null : Math.max(pick(edges, Math.floor(window / 2)), 1_000);
  return { key, window: held, mode: mode === 0 ? "keep" : "replace" };
}

function afterOf(raw: RawJob["after"], index: number): JobPlan["after"] {
  if (index === 0) return [];
  const parents = new Map(raw.map(({ job, finished }) => [job % index, finished]));
  return [...parents].map(([job, finished]) => ({ job, finished }));
}

function runOf(raw: RawRun, enqueues: readonly number[], { has, config }: JobContext): RunPlan {
  const { heartbeatInterval, deadAfter, leaderTtl } = config;
  const works = [0, 100, 100, 1_000, 1_000, heartbeatInterval, leaderTtl, fenceAfter(config), deadAfter, 2 * deadAfter];
  const ends: RunPlan["end"][] = ["return", "return", "return"];
  if (has("failures")) ends.push("throw", "throw", "hang", "snooze", "permanent");
  if (has("blocking")) ends.push("block");
  return {
    work: pick(works, raw.work),
    end: pick(ends, raw.end),
    checkpoint: has("checkpoints") && raw.checkpoint === 1,
    enqueues: enqueues.length > 0 && raw.enqueues % 2 === 0 ? pick(enqueues, Math.floor(raw.enqueues / 2)) : null,
  };
}

export function recurringOf(raw: RawRecurring, context: JobContext): RecurringPlan {
  return {
    at: instant(raw.at, context.duration / 2),
    cron: pick(CRONS, raw.cron),
    timeZone: pick(TIME_ZONES, raw.timeZone),
    misfire: pick(MISFIRES, raw.misfire),
    overlap: raw.overlap,
    run: { ...runOf(raw.run, [], context), work: pick([0, 100, 1_000, 20_000], raw.run.work) },
  };
}
