/** Random scenarios full of limits, unique keys, dependencies, batches and recurring jobs that share their keys and stand in each other's way. */

import {
  type Action,
  type BatchPlan,
  EMPTY_SCENARIO,
  type Fault,
  type JobPlan,
  type LimitPlan,
  PLAIN_JOB,
  PLAIN_SERVER,
  type RecurringPlan,
  type RunPlan,
  type Scenario,
  type Target,
} from "../../sim/scenario/scenario.ts";
import { Stream } from "../../sim/world/random.ts";

class Draw {
  readonly #stream: Stream;

  constructor(seed: number) {
    this.#stream = new Stream(seed, "kinds");
  }

  chance(probability: number): boolean {
    return this.#stream.unit() < probability;
  }

  /** In [low, high]. */
  int(low: number, high: number): number {
    return low + Math.floor(this.#stream.unit() * (high - low + 1));
  }

  of<Value>(...values: readonly Value[]): Value {
    return values[this.int(0, values.length - 1)] as Value;
  }

  many<Value>(count: number, make: (index: number) => Value): Value[] {
    return Array.from({ length: count }, (_, index) => make(index));
  }
}

/** Most of what may go wrong is short, so that much happens in a short time. */
const CONFIG = {
  ...{ heartbeatInterval: 1_000, deadAfter: 10_000, killGrace: 1_000, leaderTtl: 6_000, pollInterval: 1_000 },
  ...{ shutdownTimeout: 5_000, latency: 2 },
};

/** The same seed gives the same scenario. */
export function kindsScenario(seed: number): Scenario {
  const draw = new Draw(seed);
  const duration = draw.of(60_000, 180_000);
  const rules = draw.many(draw.int(1, 4), (key) => rule(draw, key));
  const servers = draw.many(draw.int(1, 4), () => ({
    ...PLAIN_SERVER,
    startAt: draw.of(0, 0, draw.int(0, 20_000)),
    skew: draw.of(0, 0, 3_600_000, -3_600_000),
    drift: draw.of(0, 0, 200, -200),
  }));
  const jobs: JobPlan[] = [];
  for (let left = draw.int(1, 60); left > 0; left--) jobs.push(job(draw, jobs, rules, duration));
  const batches: BatchPlan[] = [];
  for (let left = draw.of(0, 0, 2, 4); left > 0; left--) batches.push(batch(draw, batches, jobs.length, duration));
  const faulty = draw.chance(0.8);
  return {
    ...EMPTY_SCENARIO,
    ...{ seed, duration, servers, batches, jobs: batched(draw, jobs, batches) },
    config: { ...CONFIG, workers: draw.of(1, 2, 4, 20), retention: draw.of(null, null, 5_000, 0) },
    recurring: draw.many(draw.of(0, 0, 1, 2), () => recurrence(draw, duration)),
    actions: draw.many(draw.of(0, 0, 3, 10), () => action(draw, jobs.length, duration)),
    faults: faulty ? draw.many(draw.int(1, 12), () => fault(draw, servers.length, duration)) : [],
  };
}

function rule(draw: Draw, key: number): LimitPlan {
  const rated = draw.chance(0.8);
  const burst = draw.of(1, 1, 2, 5, 20);
  const rate = rated
    ? { rate: draw.of(1, 3, 7, 60, 1_000, 7_000), per: draw.of(997, 1_000, 10_000, 60_000), burst }
    : null;
  const max = rated && draw.chance(0.7) ? 0 : draw.of(1, 2, 5);
  return { key, max, rate: 0, per: 1_000, burst: 1, ...rate };
}

function run(draw: Draw, before: readonly JobPlan[]): RunPlan {
  // Of those that enqueue nothing themselves, lest it never ends.
  const leaves = [...before.keys()].filter((index) => before[index]?.runs.every(({ enqueues }) => enqueues === null));
  return {
    work: draw.of(0, 10, 100, 1_000, 5_000, 20_000),
    end: draw.of("return", "return", "return", "return", "throw", "permanent", "snooze", "hang", "block"),
    checkpoint: draw.chance(0.1),
    enqueues: leaves.length > 0 && draw.chance(0.05) ? draw.of(...leaves) : null,
  };
}

function job(draw: Draw, before: readonly JobPlan[], rules: readonly LimitPlan[], duration: number): JobPlan {
  const previous = before.at(-1)?.at ?? 0;
  const limit = draw.chance(0.6) ? draw.of(...rules) : null;
  const unique = draw.chance(0.2);
  const at = draw.of(previous, previous, draw.int(0, duration - 1));
  const elders = [...before.keys()].filter((index) => (before[index]?.at ?? 0) <= at);
  const parents = elders.length > 0 && draw.chance(0.25) ? draw.int(1, 3) : 0;
  const runs = draw.many(draw.of(1, 1, 2, 3), () => run(draw, before));
  return {
    ...PLAIN_JOB,
    at,
    queue: draw.of("a", "a", "b"),
    priority: draw.of(0, 0, 0, 5, -5),
    delay: draw.of(0, 0, 0, 500, 5_000, 30_000),
    maxAttempts: draw.of(1, 3, 25),
    timeout: runs.every(({ work }) => work <= 1_000) ? draw.of(null, null, 3_000) : null,
    runs,
    obeys: draw.of(0, 0, 500, 3_000, null),
    // Now and then its numbers change.
    limit: limit !== null && draw.chance(0.03) ? { ...rule(draw, limit.key) } : limit,
    unique: unique
      ? { key: draw.int(0, 3), window: draw.of(null, null, 5_000, 60_000), mode: draw.of("keep", "replace") }
      : null,
    after: draw.many(parents, () => ({ job: draw.of(...elders), finished: draw.chance(0.4) })),
  };
}

function batch(draw: Draw, before: readonly BatchPlan[], jobs: number, duration: number): BatchPlan {
  const at = draw.int(0, duration / 2);
  return {
    at,
    sealAt: at + draw.of(0, 1_000, 20_000),
    parent: before.length > 0 && draw.chance(0.5) ? draw.int(0, before.length - 1) : null,
    continuation: draw.chance(0.5) ? draw.int(0, jobs - 1) : null,
  };
}

/**
 * Jobs with their batches. A job waits only for batches with a lower number than that which it joins, and than those around
 * it, be it by way of other jobs: else they would wait for each other for ever.
 */
function batched(draw: Draw, jobs: readonly JobPlan[], batches: readonly BatchPlan[]): JobPlan[] {
  if (batches.length === 0) return [...jobs];
  const root = (index: number): number => {
    const parent = batches[index]?.parent ?? null;
    return parent === null ? index : root(parent);
  };
  /** By job: one more than the highest batch that it waits for. */
  const levels: number[] = [];
  return jobs.map((plan) => {
    const afterBatch = draw.chance(0.15) ? draw.int(0, batches.length - 1) : null;
    const level = Math.max((afterBatch ?? -1) + 1, ...plan.after.map((parent) => levels[parent.job] ?? 0));
    levels.push(level);
    const open = [...batches.keys()].filter((index) => root(index) >= level);
    const joins = open.length > 0 && draw.chance(0.5) ? draw.of(...open) : null;
    // The holder of its key could be another job, which waits for something else.
    return { ...plan, afterBatch, batch: joins, unique: level > 0 ? null : plan.unique };
  });
}

function recurrence(draw: Draw, duration: number): RecurringPlan {
  const cron = draw.of("* * * * *", "*/5 * * * *", "* * * * * *", "*/10 * * * * *", "@every 7s", "@every 90s");
  // One worker has to keep up with all of them.
  const work = cron === "* * * * * *" ? draw.of(0, 100) : draw.of(0, 100, 2_000);
  return {
    at: draw.int(0, duration / 2),
    ...{ cron, timeZone: draw.of("UTC", "Asia/Tokyo", "America/New_York") },
    misfire: draw.of("once", "all", "skip"),
    overlap: draw.chance(0.5),
    run: { work, end: draw.of("return", "return", "throw"), checkpoint: false, enqueues: null },
  };
}

function action(draw: Draw, jobs: number, duration: number): Action {
  const at = draw.int(0, duration - 1);
  const job = draw.int(0, jobs - 1);
  const queue = draw.of("a", "b");
  return draw.of<Action>(
    { type: "delete", at, job },
    { type: "requeue", at, job },
    { type: "deleteFailed", at },
    { type: "requeueFailed", at },
    { type: "pauseQueue", at, queue },
    { type: "resumeQueue", at, queue },
  );
}

const OPS = [
  "claim",
  "finish",
  "heartbeat",
  "register",
  "lead",
  "sweep",
  "prune",
  "orphans",
  "insert",
  "fireRecurring",
  "dueRecurring",
];

function fault(draw: Draw, servers: number, duration: number): Fault {
  const at = draw.int(0, duration - 1);
  const target: Target = draw.chance(0.15) ? "client" : draw.int(0, servers - 1);
  const server = typeof target === "number" ? target : 0;
  const long = draw.of(100, 499, 501, 1_000, 5_000, 7_000, 9_999, 12_000, 30_000);
  const call = { target, op: draw.of(...OPS), nth: draw.int(0, 3), at };
  const restartAfter = draw.of(null, 0, 2_000, 20_000);
  // A step back by an hour is an hour in which nothing happens.
  const step = draw.chance(0.05) ? 3_600_000 : draw.of(1, 50, 1_000, 10_000, 60_000) * draw.of(1, -1);
  return draw.of<Fault>(
    { type: "crash", target, at, restartAfter },
    { type: "shutdown", target: server, at, restartAfter },
    { type: "pause", target, at, for: long },
    { type: "partition", target, at, for: long, ways: draw.of("both", "requests", "replies") },
    { type: draw.of("loseRequest", "loseReply"), ...call },
    { type: draw.of("delayRequest", "delayReply"), ...call, for: long },
    { type: draw.of("errorBefore", "errorAfter"), ...call },
    { type: "slowCommit", ...call, for: long },
    { type: "limitOne", ...call },
    { type: "errors", at, for: long, probability: draw.of(0.1, 0.5) },
    { type: "databaseDown", at, for: long },
    { type: "databaseStall", at, for: long },
    { type: "databaseClock", at, by: step },
    { type: "wallClock", target, at, by: step },
    { type: draw.of("loseEvents", "doubleEvents"), at, for: long },
    { type: "lateEvents", at, for: long, by: draw.of(10, 1_000) },
  );
}
