/** Faults in limits, unique keys, dependencies and retention. */
import type { LimitPlan } from "../scenario/scenario.ts";
import type { Mutant } from "./mutant.ts";
import { job, jobs, runs, scenario, servers } from "./plans.ts";

const limit = (plan: Partial<LimitPlan>): LimitPlan => ({ key: 0, max: 0, rate: 0, per: 0, burst: 0, ...plan });

/** One claim could take more than may run, from two queues; later jobs come while as many run as may. */
const twoAtOnce = scenario({
  duration: 120_000,
  servers: servers(2, (index) => ({ startAt: 5_000 + index * 1_000 })),
  jobs: jobs(10, (index) =>
    job(10_000, { at: index < 6 ? 0 : index * 1_000, queue: index % 2 === 0 ? "a" : "b", limit: limit({ max: 2 }) }),
  ),
});

const fivePerTenSeconds = scenario({
  duration: 80_000,
  servers: servers(2),
  jobs: jobs(30, (index) => job(100, { at: 3_000 + index, limit: limit({ rate: 5, per: 10_000, burst: 3 }) })),
});

/** Four servers are admitted one after the other and hear of it at the same time. */
const lateStarts = scenario({
  duration: 60_000,
  config: { workers: 10 },
  servers: servers(4, (index) => ({ startAt: 10_000 + index * 1_000 })),
  jobs: jobs(40, (index) => job(10, { at: index, limit: limit({ rate: 10, per: 1_000, burst: 10 }) })),
  faults: [0, 1, 2, 3].map(
    (target) => ({ type: "delayReply", target, op: "claim", nth: 0, at: 0, for: 4_900 - target * 1_000 }) as const,
  ),
});

const clockStepsBack = scenario({
  duration: 120_000,
  jobs: jobs(20, (index) => job(100, { at: 3_000 + index, limit: limit({ rate: 1, per: 2_000, burst: 2 }) })),
  faults: [{ type: "databaseClock", at: 10_000, by: -6 * 3_600_000 }],
});

const sameKey = scenario({
  duration: 60_000,
  jobs: jobs(2, (index) => job(20_000, { at: 100 + index * 1_000, unique: { key: 0, window: null, mode: "keep" } })),
});

const keyOfARetry = scenario({
  duration: 100_000,
  jobs: [
    job(0, { at: 100, runs: [runs(1_000, "throw"), runs(60_000)], unique: { key: 0, window: null, mode: "keep" } }),
    job(60_000, { at: 6_000, unique: { key: 0, window: null, mode: "keep" } }),
  ],
});

const twoParents = scenario({
  duration: 60_000,
  jobs: [
    job(2_000, { at: 100 }),
    job(30_000, { at: 101 }),
    job(1_000, { at: 500, after: [0, 1].map((parent) => ({ job: parent, finished: false })) }),
  ],
});

/** The first of three, each waiting for the one before, is deleted. */
const chain = scenario({
  duration: 60_000,
  jobs: [
    job(1_000, { at: 100, delay: 50_000 }),
    job(1_000, { at: 200, after: [{ job: 0, finished: false }] }),
    job(1_000, { at: 1_000, after: [{ job: 1, finished: false }] }),
  ],
  actions: [{ type: "delete", at: 5_000, job: 0 }],
});

const retention = scenario({
  duration: 200_000,
  config: { retention: 100_000 },
  jobs: jobs(5, (index) => job(1_000, { at: 100 + index })),
});

const swarm = { random: "swarm" } as const;
const rates = { random: "rate" } as const;

export const WAITING: readonly Mutant[] = [
  {
    id: "running-is-not-counted",
    number: 14,
    what: "running jobs of a key are not counted (memory)",
    file: "engine/stores/memory/limits.ts",
    find: "key.active += change;",
    replace: "",
    invariants: ["S11"],
    ...rates,
    directed: twoAtOnce,
  },
  {
    id: "running-is-not-counted-sql",
    number: 14,
    what: "running jobs of a key are not counted (SQLite)",
    file: "engine/stores/sqlite/limits.ts",
    find: "const active = max === 0 ? 0 : (db.get<[number]>(ACTIVE, key, max)?.[0] ?? 0);",
    replace: "const active = 0;",
    invariants: ["S11"],
    ...rates,
    directed: twoAtOnce,
  },
  {
    id: "one-claim-too-many-sql",
    number: 14,
    what: "what a claim takes from a key in one queue does not count in the next one (SQLite)",
    file: "engine/stores/sqlite/admission.ts",
    find: "key.left -= 1;",
    replace: "",
    invariants: ["S11"],
    ...rates,
    directed: twoAtOnce,
  },
  {
    id: "late-starts",
    number: 15,
    what: "a job may start long after its admission",
    file: "engine/server/attempt.ts",
    find: "this.#startBy = job.limited ? claimSent + START_SLACK : Number.POSITIVE_INFINITY;",
    replace: "this.#startBy = Number.POSITIVE_INFINITY;",
    invariants: ["S10"],
    ...rates,
    directed: lateStarts,
  },
  {
    id: "one-burst-too-many",
    number: 16,
    what: "a key gives one job more than its burst",
    file: "engine/rules/gcra.ts",
    find: "return (rate.burst - 1) * interval(rate);",
    replace: "return rate.burst * interval(rate);",
    invariants: ["S10"],
    ...rates,
    directed: fivePerTenSeconds,
  },
  {
    id: "admission-is-not-written",
    number: 16,
    what: "what a claim takes from a rate is lost (memory)",
    file: "engine/stores/memory/limits.ts",
    find: "key.tat = admit(key.limit, key.tat, now * 1_000, 1);",
    replace: "",
    invariants: ["S10"],
    ...rates,
    directed: fivePerTenSeconds,
  },
  {
    id: "admission-is-not-written-sql",
    number: 16,
    what: "what a claim takes from a rate is lost (SQLite)",
    file: "engine/stores/sqlite/limits.ts",
    find: "tat: admit(limit, tat, tx.now * 1_000, count) };",
    replace: "tat };",
    invariants: ["S10"],
    ...rates,
    directed: fivePerTenSeconds,
  },
  {
    id: "interval-rounded-down",
    number: 16,
    what: "the time between two admissions is rounded down",
    file: "engine/rules/gcra.ts",
    find: "Math.ceil((per * 1_000) / rate)",
    replace: "Math.floor((per * 1_000) / rate)",
    invariants: ["S10"],
    random: { not: "a microsecond for each of a few jobs does not add up to one of the clock's milliseconds" },
    directed: scenario({
      duration: 30_000,
      config: { latency: 0 },
      jobs: jobs(30, () => job(10, { at: 3_000, limit: limit({ rate: 7, per: 1_000, burst: 8 }) })),
    }),
  },
  {
    id: "blocked-by-the-clock",
    number: 28,
    what: "a key stays closed after the clock has stepped back",
    file: "engine/rules/gcra.ts",
    find: "return rate.rate === 0 ? tat : Math.min(tat, now + tolerance(rate) + interval(rate));",
    replace: "return tat;",
    invariants: ["L4", "L7", "S10"],
    ...rates,
    directed: clockStepsBack,
  },
  {
    id: "one-parent-is-enough",
    number: 18,
    what: "a job is released before its last parent has ended (memory)",
    file: "engine/stores/memory/dependencies.ts",
    find: "if (row.pendingParents > 1) {",
    replace: "if (row.pendingParents > 2) {",
    invariants: ["S1", "S13"],
    ...swarm,
    directed: twoParents,
  },
  {
    id: "one-parent-is-enough-sql",
    number: 18,
    what: "a job is released before its last parent has ended (SQLite)",
    file: "engine/stores/sqlite/dependencies.ts",
    find: "if (pending > 1) {",
    replace: "if (pending > 2) {",
    invariants: ["S13"],
    ...swarm,
    directed: twoParents,
  },
  {
    id: "any-end-will-do",
    number: 18,
    what: "a job that needs its parent's success is content with its end",
    file: "engine/rules/dependencies.ts",
    find: `if ((mask & BITS[state]) !== 0) return "met";`,
    replace: `if (mask !== 0) return "met";`,
    invariants: ["S13"],
    ...swarm,
    directed: chain,
  },
  {
    id: "key-is-never-held",
    number: 19,
    what: "nobody sees that a unique key is taken (memory)",
    file: "engine/stores/memory/unique.ts",
    find: "return held !== undefined && isHeld(held.expiresAt, now) ? held.id : undefined;",
    replace: "return undefined;",
    invariants: ["S12"],
    ...swarm,
    directed: sameKey,
  },
  {
    id: "key-is-never-held-sql",
    number: 19,
    what: "nobody sees that a unique key is taken (SQLite)",
    file: "engine/stores/sqlite/unique.ts",
    find: "held.set(key, id);",
    replace: "",
    invariants: ["S12"],
    ...swarm,
    directed: sameKey,
  },
  {
    id: "retry-releases-key",
    number: 19,
    what: "a job that will be tried again releases its unique key",
    file: "engine/rules/unique.ts",
    find: `return state === "succeeded" || state === "failed" || state === "deleted";`,
    replace: "return state !== null;",
    invariants: ["S12"],
    ...swarm,
    directed: keyOfARetry,
  },
  {
    id: "doom-of-children-only",
    number: 21,
    what: "a job that is deleted with its parent leaves its own children waiting (memory)",
    file: "engine/stores/memory/dependencies.ts",
    find: `queue.push({ id: child, end: "deleted" }, ...finishBatches(data, batchesOf(data, [row]), now));`,
    replace: "",
    invariants: ["S13", "L4"],
    ...swarm,
    directed: chain,
  },
  {
    id: "doom-of-children-only-sql",
    number: 21,
    what: "a job that is deleted with its parent leaves its own children waiting (SQLite)",
    file: "engine/stores/sqlite/dependencies.ts",
    find: `this.#queue.push({ number: null, id, end: "deleted" });`,
    replace: "",
    invariants: ["S13", "L4"],
    ...swarm,
    directed: chain,
  },
  {
    id: "half-a-retention",
    number: 29,
    what: "jobs are removed after half their retention (memory)",
    file: "engine/rules/retention.ts",
    stores: ["memory"],
    find: "return age !== null && finalizedAt <= now - age;",
    replace: "return age !== null && finalizedAt <= now - age / 2;",
    invariants: ["S9"],
    ...swarm,
    directed: retention,
  },
  {
    id: "half-a-retention-sql",
    number: 29,
    what: "jobs are removed after half their retention (SQLite)",
    file: "engine/stores/sqlite/maintain.ts",
    find: "AND finalized_at <= ?1 - ?2`;\n  return",
    replace: "AND finalized_at <= ?1 - ?2 / 2`;\n  return",
    invariants: ["S9"],
    ...swarm,
    directed: retention,
  },
];
