/**
 * The situations in which a rate limit could break (reference of the design, 4.7), each as scenarios to run: all of them must
 * keep every invariant, and admit at least what they say.
 */
import {
  type BatchPlan,
  DEFAULT_CONFIG,
  EMPTY_SCENARIO,
  type Fault,
  type JobPlan,
  type LimitPlan,
  PLAIN_JOB,
  PLAIN_SERVER,
  type RunPlan,
  type Scenario,
  type SimConfig,
} from "./scenario.ts";

export interface RateScenario {
  /** Unique. */
  readonly name: string;
  readonly scenario: Scenario;
  /** Handlers that start by the end of `scenario.duration`, at least. */
  readonly starts: number;
}

/** Ten in ten seconds, five at once. */
const LIMIT: LimitPlan = { key: 0, max: 0, rate: 10, per: 10_000, burst: 5 };
const P = LIMIT.per;
const T = LIMIT.per / LIMIT.rate;
const TAU = (LIMIT.burst - 1) * T;
const HOUR = 3_600_000;
/** For hours in which next to nothing happens. */
const SLOW = { heartbeatInterval: 60_000, deadAfter: 600_000, leaderTtl: 120_000, pollInterval: 10_000 };

const run = (work: number): readonly RunPlan[] => [{ work, end: "return", checkpoint: false, enqueues: null }];

function jobs(count: number, at: number, more: Partial<JobPlan> = {}): JobPlan[] {
  return Array.from({ length: count }, () => ({ ...PLAIN_JOB, at, limit: LIMIT, runs: run(10), ...more }));
}

interface Setting {
  readonly servers?: number;
  readonly faults?: readonly Fault[];
  readonly batches?: readonly BatchPlan[];
  readonly duration?: number;
  readonly config?: Partial<SimConfig>;
  readonly starts: number;
}

function scene(name: string, plans: readonly JobPlan[], setting: Setting): RateScenario {
  const { servers = 1, faults = [], batches = [], duration = 60_000, config = {}, starts } = setting;
  const scenario: Scenario = {
    ...EMPTY_SCENARIO,
    ...{ seed: 1, duration, faults, batches, jobs: plans },
    servers: Array.from({ length: servers }, (_, index) => ({ ...PLAIN_SERVER, skew: index * HOUR })),
    config: { ...DEFAULT_CONFIG, workers: 20, ...config },
  };
  return { name, scenario, starts };
}

/** What one key admits in a time that it is never kept from it, with a backlog. */
const allowed = ({ rate, per, burst }: LimitPlan, ms: number): number => burst + Math.floor((ms * rate) / per);

function backlogs(): RateScenario[] {
  const idle = [...jobs(30, 0), ...jobs(8, 20 * P), ...jobs(8, 21 * P - 1_000)];
  return [
    scene("a backlog from rest", jobs(80, 0), { starts: allowed(LIMIT, 55_000) }),
    scene("idle, a burst, almost idle, a burst", idle, { duration: 23 * P, starts: 46 }),
  ];
}

/** What keeps jobs from being admitted from 5 s on for a while. */
function stalls(): RateScenario[] {
  const [at, plans] = [5_000, jobs(90, 0)];
  return [P - 1, P, P + 1, 10 * P].flatMap((ms) => {
    const setting = { servers: 2, duration: at + ms + 40_000, starts: 40 };
    const every = (fault: (target: number) => Fault): Fault[] => [0, 1].map(fault);
    const blocker = { ...PLAIN_JOB, at, priority: 9, runs: run(ms) };
    const holder: JobPlan = { ...blocker, limit: { ...LIMIT, max: 1 } };
    return [
      scene(`the database stalls for ${ms} ms`, plans, {
        ...setting,
        faults: [{ type: "databaseStall", at, for: ms }],
      }),
      scene(`the database is down for ${ms} ms`, plans, {
        ...setting,
        faults: [{ type: "databaseDown", at, for: ms }],
      }),
      scene(`all servers stand still for ${ms} ms`, plans, {
        ...setting,
        faults: every((target) => ({ type: "pause", target, at, for: ms })),
      }),
      scene(`no server reaches the database for ${ms} ms`, plans, {
        ...setting,
        faults: every((target) => ({ type: "partition", target, at, for: ms, ways: "both" })),
      }),
      scene(`all workers are busy for ${ms} ms`, [...plans, ...Array.from({ length: 40 }, () => blocker)], setting),
      scene(`the only place of the key is taken for ${ms} ms`, [holder, ...jobs(60, at, { limit: holder.limit })], {
        ...setting,
        starts: 12,
      }),
    ];
  });
}

function claimers(): RateScenario[] {
  return [2, 3, 5].flatMap((servers) =>
    [1, 100].map((workers) =>
      scene(`${servers} servers with ${workers} workers`, jobs(80, 0), {
        ...{ servers, config: { workers, latency: 0 } },
        starts: allowed(LIMIT, 55_000),
      }),
    ),
  );
}

function oddRates(): RateScenario[] {
  const rates = [
    { rate: 3, per: 1_000, burst: 1 },
    { rate: 7, per: 60_000, burst: 2 },
    { rate: 1_000, per: HOUR, burst: 5 },
    { rate: 60, per: 997, burst: 3 },
    { rate: 10_000, per: 1_000, burst: 20 },
  ];
  return rates.map(({ rate, per, burst }) => {
    const limit = { key: 0, max: 0, rate, per, burst };
    const count = Math.min(allowed(limit, 20_000) + 10, 400);
    return scene(`${rate} per ${per} ms, burst ${burst}`, jobs(count, 0, { limit, runs: run(0) }), {
      ...{ servers: 2, duration: 25_000, config: { workers: 100 } },
      starts: Math.min(allowed(limit, 20_000), count),
    });
  });
}

/** What makes admitted jobs not run, or run again. */
function repeats(): RateScenario[] {
  const lost = [0, 2, 4].map((nth): Fault => ({ type: "loseReply", target: 0, op: "claim", nth, at: 100 }));
  const quick = { heartbeatInterval: 1_000, deadAfter: 10_000, killGrace: 1_000 };
  const long = jobs(50, 0, { limit: { ...LIMIT, burst: 50 }, runs: run(30_000) });
  const rescued = { servers: 2, duration: 90_000, config: { ...quick, workers: 50 }, starts: 90 };
  const stopped = { servers: 2, config: { shutdownTimeout: 1_000 }, starts: 20 };
  return [
    scene("replies of claims are lost", jobs(60, 0), { servers: 1, faults: lost, starts: 20, config: quick }),
    scene("a server is shut down in the middle of a burst", jobs(40, 0, { runs: run(20_000), obeys: null }), {
      ...{ ...stopped, faults: [{ type: "shutdown", target: 0, at: 10, restartAfter: 3_000 }] },
    }),
    scene("fifty jobs of a key are rescued at once", long, {
      ...{
        ...rescued,
        faults: [0, 1].map((target): Fault => ({ type: "crash", target, at: 5_000, restartAfter: 2_000 })),
      },
    }),
  ];
}

function clocks(): RateScenario[] {
  const steps = [1, T, TAU, P, HOUR].flatMap((by) => [by, -by]);
  const moments = { before: 500, in: 1_003, after: 9_500 };
  const stepped = steps.flatMap((by) =>
    Object.entries(moments).map(([moment, at]) =>
      scene(`the clock steps by ${by} ms ${moment} a burst`, jobs(60, 1_000), {
        ...{ servers: 2, duration: 40_000, starts: 20 },
        faults: [{ type: "databaseClock", at, by }],
      }),
    ),
  );
  // The key is forgotten an hour after its last use.
  const pruned = [T, HOUR].map((by) =>
    scene(
      `the clock steps back by ${by} ms after the key was forgotten`,
      [...jobs(5, 0), ...jobs(20, HOUR + 130_000)],
      {
        ...{ duration: HOUR + 200_000, starts: 25, config: SLOW },
        faults: [{ type: "databaseClock", at: HOUR + 125_000, by: -by }],
      },
    ),
  );
  return [...stepped, ...pruned];
}

function slowCommits(): RateScenario[] {
  return [T, P].map((ms) =>
    scene(`commits of claims take ${ms} ms`, jobs(80, 0), {
      ...{ servers: 3, duration: 60_000 + 9 * ms, starts: 30 },
      faults: [0, 1, 2].flatMap((target) =>
        [0, 3, 6].map((nth): Fault => ({ type: "slowCommit", target, op: "claim", nth, at: 0, for: ms })),
      ),
    }),
  );
}

function changes(): RateScenario[] {
  const [low, high, strict] = [
    { ...LIMIT, rate: 2 },
    { ...LIMIT, rate: 50, burst: 20 },
    { ...LIMIT, burst: 1 },
  ];
  const change = (name: string, first: LimitPlan, second: LimitPlan, starts: number): RateScenario =>
    scene(name, [...jobs(60, 0, { limit: first }), ...jobs(20, 4_500, { limit: second })], { starts, servers: 2 });
  return [
    change("the rate is raised in a window", LIMIT, high, 80),
    change("the rate is lowered in a window", high, low, 30),
    change("the burst is taken away", { ...LIMIT, burst: 20 }, strict, 40),
  ];
}

function sharing(): RateScenario[] {
  const plans = [...jobs(40, 0), ...jobs(40, 0, { queue: "b" }), ...jobs(5, 0, { queue: "b", priority: 5 })];
  const slow = { ...LIMIT, rate: 1, per: 2 * HOUR, burst: 2 };
  const again = [...jobs(2, 0, { limit: slow }), ...jobs(1, HOUR + 300_000, { limit: slow })];
  return [
    scene("a key in two queues", plans, { servers: 2, starts: allowed(LIMIT, 55_000) }),
    scene("a key that nobody uses for longer than keys are kept", again, {
      ...{ duration: 2 * HOUR, starts: 2, config: SLOW },
    }),
    scene("a key is forgotten when its rate is free again", forgotten(), {
      ...{ duration: HOUR + 130_000, starts: 3, config: SLOW },
    }),
  ];
}

/** Jobs around the instant at which a key becomes free and may be forgotten. */
function forgotten(): JobPlan[] {
  const limit = { ...LIMIT, rate: 1, per: HOUR, burst: 1 };
  const times = [0, HOUR - 1, HOUR + 60_001];
  return [...times.flatMap((at) => jobs(1, at, { limit })), ...jobs(1, HOUR, { limit: { ...limit, key: 1 } })];
}

function releases(): RateScenario[] {
  const parent: JobPlan = { ...PLAIN_JOB, runs: run(3_000) };
  const limit = { ...LIMIT, rate: 50 };
  const children = jobs(100, 500, { after: [{ job: 0, finished: false }], limit });
  const batch = { at: 0, sealAt: 1_000, parent: null, continuation: null };
  const waiters = jobs(100, 500, { afterBatch: 0, limit });
  return [
    scene("a hundred children of a job are released at once", [parent, ...children], { servers: 2, starts: 100 }),
    scene("a batch releases a hundred jobs at once", [{ ...parent, at: 100, batch: 0 }, ...waiters], {
      ...{ servers: 2, starts: 100, batches: [batch] },
    }),
  ];
}

/** All of them. */
export function rateScenarios(): readonly RateScenario[] {
  return [
    ...[...backlogs(), ...stalls(), ...claimers(), ...oddRates(), ...repeats(), ...clocks(), ...slowCommits()],
    ...[...changes(), ...sharing(), ...releases()],
  ];
}
