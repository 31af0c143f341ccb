/** Faults beyond the plan's list: in what is claimed when, in schedules, and in what ends an attempt. */
import type { RecurringPlan } from "../scenario/scenario.ts";
import type { Mutant } from "./mutant.ts";
import { job, jobs, runs, scenario, servers } from "./plans.ts";

const minutely = (more: Partial<RecurringPlan>, work: number): RecurringPlan => ({
  ...{ at: 0, cron: "* * * * *", timeZone: "UTC", misfire: "all", overlap: true },
  ...more,
  run: runs(work),
});

const pausedQueue = scenario({
  duration: 40_000,
  jobs: [job(1_000, { at: 3_000 })],
  actions: [
    { type: "pauseQueue", at: 2_000, queue: "a" },
    { type: "resumeQueue", at: 20_000, queue: "a" },
  ],
});

const urgency = scenario({
  duration: 60_000,
  config: { workers: 1 },
  jobs: jobs(8, (index) => job(1_000, { at: 100 + index, priority: index % 3 })),
});

const noOverlap = scenario({
  duration: 250_000,
  recurring: [minutely({ overlap: false, misfire: "once" }, 100_000)],
});

const swarm = { random: "swarm" } as const;

export const RUNNING: readonly Mutant[] = [
  {
    id: "paused-queue",
    number: 30,
    what: "jobs of a paused queue are claimed (memory)",
    file: "engine/stores/memory/claim.ts",
    find: "if (!lanes || data.paused.has(queue)) return [];",
    replace: "if (!lanes) return [];",
    invariants: ["S20"],
    ...swarm,
    directed: pausedQueue,
  },
  {
    id: "paused-queue-sql",
    number: 30,
    what: "jobs of a paused queue are claimed (SQLite)",
    file: "engine/stores/sqlite/claim.ts",
    find: "const queues = paused.size === 0 ? asked : asked.filter((queue) => !paused.has(queue));",
    replace: "const queues = asked;",
    invariants: ["S20"],
    ...swarm,
    directed: pausedQueue,
  },
  {
    id: "newest-first",
    number: 31,
    what: "of two jobs of one priority the newer one is claimed first (memory)",
    file: "engine/stores/memory/limits.ts",
    find: "return a.priority !== b.priority ? a.priority > b.priority : a.id < b.id;",
    replace: "return a.priority !== b.priority ? a.priority > b.priority : a.id > b.id;",
    invariants: ["S20"],
    ...swarm,
    directed: urgency,
  },
  {
    id: "no-priority-sql",
    number: 31,
    what: "priority does not count (SQLite)",
    file: "engine/stores/sqlite/claim.ts",
    find: "AND kind = ?2 ORDER BY priority DESC, id LIMIT ?3`;",
    replace: "AND kind = ?2 ORDER BY id LIMIT ?3`;",
    invariants: ["S20"],
    ...swarm,
    directed: urgency,
  },
  {
    id: "more-than-workers",
    number: 32,
    what: "a server claims as many jobs as it has workers, busy or not",
    file: "engine/server/claimer.ts",
    find: "const limit = Math.min(this.pool.workers - this.#running, this.pool.fetchBatch);",
    replace: "const limit = Math.min(this.pool.workers, this.pool.fetchBatch);",
    invariants: ["S11"],
    ...swarm,
    directed: scenario({ duration: 60_000, jobs: jobs(8, (index) => job(10_000, { at: 100 + index * 500 })) }),
  },
  {
    id: "missed-occurrences",
    number: 33,
    what: "of several missed occurrences only the last one fires, though all are asked for",
    file: "engine/rules/misfire.ts",
    find: `if (misfire === "all") return firstOnes(next, first, now);`,
    replace: "",
    invariants: ["S15"],
    random: "recurring",
    directed: scenario({
      duration: 300_000,
      recurring: [minutely({}, 500)],
      faults: [{ type: "crash", target: 0, at: 30_000, restartAfter: 170_000 }],
    }),
  },
  {
    id: "overlap",
    number: 34,
    what: "an occurrence fires while the last one's job runs, though they must not overlap (memory)",
    file: "engine/stores/memory/recurring.ts",
    find: "const jobs = row.overlap ? firing.jobs : lastJobIsUnfinished(data, row) ? [] : firing.jobs.slice(0, 1);",
    replace: "const jobs = firing.jobs;",
    invariants: ["S15"],
    random: "recurring",
    directed: noOverlap,
  },
  {
    id: "overlap-sql",
    number: 34,
    what: "an occurrence fires while the last one's job runs, though they must not overlap (SQLite)",
    file: "engine/stores/sqlite/recurring.ts",
    find: "const jobs = overlap === 1 ? firing.jobs : isUnfinished(db, lastJobId) ? [] : firing.jobs.slice(0, 1);",
    replace: "const jobs = firing.jobs;",
    invariants: ["S15"],
    random: "recurring",
    directed: noOverlap,
  },
  {
    id: "leads-on-after-a-pause",
    number: 35,
    what: "a leader that stood still goes on with its duties before it has its lease again",
    file: "engine/server/leader.ts",
    find: "if (this.#holds()) more = await",
    replace: "more = await",
    invariants: ["S6", "S16"],
    random: "safety",
    directed: scenario({
      duration: 200_000,
      servers: servers(2),
      jobs: jobs(8, (index) => job(120_000, { at: 3_000 + index })),
      faults: [
        { type: "pause", target: 0, at: 71_000, for: 80_000 },
        { type: "pause", target: 1, at: 71_000, for: 82_000 },
      ],
    }),
  },
  {
    id: "claims-on-after-a-pause",
    number: 36,
    what: "a server that stood still claims before its fence has had its turn",
    file: "engine/server/heartbeat.ts",
    find: "return this.#registered && !this.#fenced && !this.#isOverdue();",
    replace: "return this.#registered && !this.#fenced;",
    invariants: ["S5"],
    random: "safety",
    directed: scenario({
      duration: 130_000,
      jobs: [job(1_000, { at: 2_000 })],
      faults: [{ type: "pause", target: 0, at: 7_000, for: 100_000 }],
    }),
  },
  {
    id: "one-attempt-too-many",
    number: 37,
    what: "a job that fails for the last time that it may gets one attempt more",
    file: "engine/rules/classify.ts",
    find: `if (job.attempt >= job.maxAttempts) return outcome(job, "failed", "exhausted", shown);`,
    replace: `if (job.attempt > job.maxAttempts) return outcome(job, "failed", "exhausted", shown);`,
    invariants: ["S7"],
    ...swarm,
    directed: scenario({
      duration: 60_000,
      jobs: [job(0, { at: 100, maxAttempts: 2, runs: [runs(1_000, "throw")] })],
    }),
  },
  {
    id: "half-a-window",
    number: 39,
    what: "a unique key with a window is free after half of it",
    file: "engine/rules/unique.ts",
    find: "return window === null ? null : now + Math.ceil(window);",
    replace: "return window === null ? null : now + Math.ceil(window / 2);",
    invariants: ["S12"],
    ...swarm,
    directed: scenario({
      duration: 80_000,
      jobs: jobs(2, (index) =>
        job(1_000, { at: 100 + index * 30_000, unique: { key: 0, window: 40_000, mode: "keep" } }),
      ),
    }),
  },
  {
    id: "ready-too-early",
    number: 40,
    what: "a job is ready up to five seconds before it is due",
    file: "engine/rules/state.ts",
    find: `return runAt > now ? "scheduled" : waitingState(limited);`,
    replace: `return runAt > now + 5_000 ? "scheduled" : waitingState(limited);`,
    invariants: ["S20"],
    ...swarm,
    directed: scenario({ duration: 30_000, jobs: [job(1_000, { at: 100, delay: 4_000 })] }),
  },
  {
    id: "stops-before-its-results",
    number: 41,
    what: "a server stops before its last results are stored",
    file: "engine/server/server.ts",
    find: "await this.#completer.drain(DRAIN_DEADLINE);",
    replace: "",
    invariants: ["S19", "L6"],
    ...swarm,
    directed: scenario({
      duration: 60_000,
      servers: servers(2),
      jobs: [job(8_000, { at: 500 })],
      faults: [
        { type: "shutdown", target: 0, at: 5_000, restartAfter: null },
        { type: "errorBefore", target: 0, op: "finish", nth: 0, at: 5_000 },
      ],
    }),
  },
  {
    id: "deaf-to-cancel",
    number: 42,
    what: "a running job is not told that it was deleted",
    file: "engine/server/heartbeat.ts",
    find: `if (lease.cancelRequested) attempt.abort(new CancelledError("the job was deleted"));`,
    replace: "",
    invariants: ["L10"],
    ...swarm,
    directed: scenario({
      duration: 90_000,
      jobs: [job(0, { at: 100, runs: [runs(60_000)] })],
      actions: [{ type: "delete", at: 5_000, job: 0 }],
    }),
  },
];
