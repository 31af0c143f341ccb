/** What kinds of scenarios the search makes: which faults and features, how often and how many. */
import type { SERVER_OPS } from "../scenario/ops.ts";
import type { FaultType } from "../scenario/scenario.ts";

/** What a scenario may have besides plain jobs. */
export const FEATURES = [
  "limits",
  "unique",
  "dependencies",
  "recurring",
  "actions",
  "timeouts",
  "checkpoints",
  "enqueueing",
  /** Handlers that fail, hang or snooze. */
  "failures",
  /** Handlers that keep their process from doing anything else. */
  "blocking",
  /** Handlers that do not obey their signal, or late. */
  "stubborn",
  "retention",
  /** Clocks of servers that are ahead and too fast. */
  "skew",
  /** A line of defence is taken away. */
  "undefended",
  /** Always the last: `generate.ts` draws it apart from the others. */
  "batches",
] as const;
export type Feature = (typeof FEATURES)[number];

type Range = readonly [least: number, most: number];

export interface Profile {
  /** How often each comes up compared with the others; what is not named never does. */
  readonly faults: Readonly<Partial<Record<FaultType, number>>>;
  readonly faultCount: Range;
  /** Calls of servers that faults strike; default: all. */
  readonly calls?: readonly (typeof SERVER_OPS)[number][];
  /** Each run leaves about half of the fault types out and weighs the others at random: some faults hide others. */
  readonly swarm: boolean;
  readonly servers: Range;
  readonly jobs: Range;
  /** Probabilities. */
  readonly features: Readonly<Partial<Record<Feature, number>>>;
}

/** Each once: object order is the order in which a fault's number is looked up, so new ones go to the end. */
const ALL_FAULTS = {
  crash: 3,
  shutdown: 2,
  pause: 3,
  partition: 3,
  loseRequest: 2,
  loseReply: 3,
  delayRequest: 2,
  delayReply: 2,
  errorBefore: 1,
  errorAfter: 2,
  slowCommit: 1,
  limitOne: 1,
  errors: 1,
  databaseDown: 2,
  databaseStall: 1,
  databaseClock: 1,
  wallClock: 1,
  loseEvents: 1,
  doubleEvents: 1,
  lateEvents: 1,
} as const satisfies Record<FaultType, number>;
export const FAULT_TYPES = Object.keys(ALL_FAULTS) as readonly FaultType[];

const SOME_FEATURES = {
  ...{ limits: 0.4, unique: 0.3, dependencies: 0.4, recurring: 0.3, actions: 0.4, timeouts: 0.3, checkpoints: 0.3 },
  ...{ enqueueing: 0.2, failures: 0.5, blocking: 0.2, stubborn: 0.4, retention: 0.3, skew: 0.4 },
  batches: 0.3,
} as const;

export const PROFILES = {
  /** Everything. */
  swarm: {
    faults: ALL_FAULTS,
    faultCount: [0, 12],
    swarm: true,
    servers: [1, 5],
    jobs: [1, 15],
    features: SOME_FEATURES,
  },
  /** Servers that are cut off, stand still or hear late, with jobs that take long. */
  safety: {
    faults: {
      ...{ pause: 4, partition: 4, loseReply: 3, loseRequest: 1, delayRequest: 3, delayReply: 3, errorAfter: 2 },
      ...{ crash: 2, databaseStall: 2, slowCommit: 2 },
    },
    faultCount: [2, 12],
    swarm: true,
    servers: [1, 4],
    jobs: [1, 8],
    features: { failures: 0.3, blocking: 0.3, stubborn: 0.6, checkpoints: 0.3, actions: 0.3, timeouts: 0.3 },
  },
  /** What is lost and has to be found again. */
  liveness: {
    faults: {
      ...{ crash: 4, shutdown: 2, loseReply: 4, loseRequest: 3, errorAfter: 3, partition: 2, pause: 2 },
      ...{ databaseDown: 3, errors: 2, loseEvents: 4, limitOne: 2 },
    },
    faultCount: [1, 12],
    swarm: true,
    servers: [1, 3],
    jobs: [1, 15],
    features: {
      failures: 0.4,
      dependencies: 0.5,
      limits: 0.4,
      recurring: 0.3,
      actions: 0.3,
      unique: 0.3,
      batches: 0.4,
    },
  },
  /** Limits, under all that delays, repeats or takes back what was admitted. */
  rate: {
    faults: {
      ...{ databaseClock: 3, databaseStall: 3, slowCommit: 2, limitOne: 2, loseReply: 3, crash: 3, shutdown: 3 },
      ...{ databaseDown: 2, pause: 2, delayRequest: 2, wallClock: 1, delayReply: 6 },
    },
    faultCount: [0, 8],
    calls: ["claim", "claim", "claim", "finish", "heartbeat"],
    swarm: true,
    servers: [1, 5],
    jobs: [5, 15],
    features: { limits: 1, failures: 0.4, actions: 0.3, dependencies: 0.2, skew: 0.7, recurring: 0.2, unique: 0.2 },
  },
  /** One line of defence is missing: the others have to hold. */
  fence: {
    faults: { pause: 4, partition: 4, delayReply: 2, delayRequest: 3, databaseStall: 2, databaseDown: 2, loseReply: 1 },
    faultCount: [1, 6],
    swarm: true,
    servers: [1, 3],
    jobs: [1, 5],
    features: { undefended: 0.5, stubborn: 0.5, blocking: 0.3, enqueueing: 0.5 },
  },
  recurring: {
    faults: {
      ...{ crash: 3, shutdown: 2, pause: 3, partition: 3, loseReply: 3, errorAfter: 2, databaseDown: 2 },
      ...{ databaseClock: 3, delayRequest: 2, limitOne: 1 },
    },
    faultCount: [0, 10],
    calls: ["fireRecurring", "fireRecurring", "dueRecurring", "lead", "heartbeat", "claim", "finish"],
    swarm: true,
    servers: [1, 4],
    jobs: [0, 4],
    features: { recurring: 1, failures: 0.4, retention: 0.4, skew: 0.4, actions: 0.3, limits: 0.2 },
  },
  /** Three servers that crash and come back, and nothing else. */
  lite: { faults: { crash: 1 }, faultCount: [0, 6], swarm: false, servers: [3, 3], jobs: [1, 15], features: {} },
  /** Nothing goes wrong: how fast the simulator is. */
  performance: { faults: {}, faultCount: [0, 0], swarm: false, servers: [3, 3], jobs: [15, 15], features: {} },
} as const satisfies Readonly<Record<string, Profile>>;

export type ProfileName = keyof typeof PROFILES;
export const PROFILE_NAMES = Object.keys(PROFILES) as readonly ProfileName[];
