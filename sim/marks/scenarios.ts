/** Reach marks that the scenarios of mutants do not reach. */
import { job, jobs, partition, runs, scenario, servers } from "../mutants/plans.ts";
import type { Fault, LimitPlan, Scenario } from "../scenario/scenario.ts";
import { LOST_REPLIES } from "./list.ts";

const MANY = 12;
const times = (fault: (nth: number) => Fault): Fault[] => Array.from({ length: MANY }, (_, nth) => fault(nth));
const rate = (plan: Partial<LimitPlan>): LimitPlan => ({ key: 0, max: 0, rate: 0, per: 0, burst: 0, ...plan });

/** Who runs what; `null` for the application. */
const APPLICATION: ReadonlySet<string> = new Set(["insert", "putRecurring"]);

/** One of each call of which the reply is lost. */
const lostReplies = scenario({
  duration: 200_000,
  servers: servers(2),
  jobs: jobs(4, (index) => job(3_000, { at: 1_500 + index * 2_000, runs: [{ ...runs(3_000), checkpoint: true }] })),
  recurring: [{ at: 20_000, cron: "* * * * *", timeZone: "UTC", misfire: "once", overlap: true, run: runs(500) }],
  faults: [
    ...LOST_REPLIES.flatMap((op): Fault[] =>
      APPLICATION.has(op)
        ? [{ type: "loseReply", target: "client", op, nth: 0, at: 0 }]
        : [0, 1].map((target) => ({ type: "loseReply", target, op, nth: 0, at: 100 })),
    ),
    { type: "shutdown", target: 0, at: 150_000, restartAfter: 30_000 },
  ],
});

export const MARK_SCENARIOS: Readonly<Record<string, Scenario>> = {
  "lost replies": lostReplies,
  "a leader dies while it rescues": scenario({
    duration: 260_000,
    servers: servers(3),
    jobs: jobs(9, (index) => job(100_000, { at: 3_000 + index })),
    faults: [
      { type: "crash", target: 1, at: 70_000, restartAfter: null },
      ...times((nth) => ({ type: "delayReply", target: 0, op: "orphans", nth, at: 125_000, for: 10_000 })),
      { type: "crash", target: 0, at: 142_000, restartAfter: null },
    ],
  }),
  "a database stops": scenario({
    duration: 60_000,
    config: { latency: 100 },
    servers: servers(5),
    jobs: jobs(20, (index) => job(1_000, { at: 3_000 + index * 100 })),
    faults: [{ type: "databaseDown", at: 4_000, for: 10_000 }],
  }),
  "parents end together": scenario({
    duration: 30_000,
    config: { latency: 50 },
    jobs: [
      ...jobs(4, () => job(2_000, { at: 100 })),
      ...jobs(3, (index) =>
        job(500, { at: 600, after: [0, index + 1].map((parent) => ({ job: parent, finished: false })) }),
      ),
    ],
  }),
  "an occurrence comes up while nobody leads": scenario({
    duration: 150_000,
    recurring: [{ at: 0, cron: "* * * * *", timeZone: "UTC", misfire: "once", overlap: true, run: runs(500) }],
    faults: [{ type: "crash", target: 0, at: 30_000, restartAfter: 40_000 }],
  }),
  "events come late": scenario({
    duration: 60_000,
    jobs: jobs(3, (index) => job(100, { at: 2_000 + index * 10_000 })),
    faults: [
      { type: "lateEvents", at: 0, for: 30_000, by: 5_000 },
      { type: "doubleEvents", at: 0, for: 60_000 },
    ],
  }),
  "a user requeues what is gone": scenario({
    duration: 200_000,
    config: { retention: 30_000 },
    jobs: [job(1_000, { at: 100 })],
    actions: [{ type: "requeue", at: 150_000, job: 0 }],
  }),
  "a late claim": scenario({
    duration: 60_000,
    jobs: [job(1_000, { at: 2_100 })],
    faults: [0, 1].map((nth) => ({ type: "delayReply", target: 0, op: "claim", nth, at: 2_000, for: 8_000 })),
  }),
  "all servers are down": scenario({
    duration: 60_000,
    servers: servers(2),
    jobs: jobs(4, (index) => job(30_000, { at: 2_000 + index })),
    faults: [0, 1].map((target) => ({ type: "crash", target, at: 10_000, restartAfter: 20_000 })),
  }),
  "a key is full": scenario({
    duration: 60_000,
    servers: servers(2),
    jobs: jobs(6, (index) => job(3_000, { at: 1_500 + index, limit: rate({ max: 2, rate: 2, per: 5_000, burst: 2 }) })),
  }),
  "a server hears that it is dead": scenario({
    duration: 150_000,
    servers: servers(2),
    jobs: jobs(8, (index) => job(100_000, { at: 3_000 + index })),
    faults: [partition(1, 70_000, 70_000)],
  }),
};
