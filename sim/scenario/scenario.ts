/**
 * All that a run depends on, as JSON: the same scenario gives the same run, event for event. Durations and instants are
 * milliseconds; instants are counted from the beginning of the world.
 */
import type { Misfire } from "../../engine/rules/misfire.ts";

export const SCENARIO_VERSION = 1;

export interface Scenario {
  readonly version: typeof SCENARIO_VERSION;
  /** Whole, from 0. Decides what nothing else here decides: latencies, jitter, the order of what happens at once. */
  readonly seed: number;
  /** How long faults may happen. Then comes the time in which everything must come to its end. */
  readonly duration: number;
  readonly config: SimConfig;
  /** One entry for each server process, named `n0`, `n1`, … */
  readonly servers: readonly ServerPlan[];
  readonly jobs: readonly JobPlan[];
  readonly batches: readonly BatchPlan[];
  readonly recurring: readonly RecurringPlan[];
  readonly actions: readonly Action[];
  readonly faults: readonly Fault[];
}

/** As in `ServerConfig`. */
export interface SimConfig {
  readonly heartbeatInterval: number;
  readonly deadAfter: number;
  readonly killGrace: number;
  readonly leaderTtl: number;
  readonly pollInterval: number;
  readonly shutdownTimeout: number;
  /** Of each server. */
  readonly workers: number;
  /** Age at which ended jobs are removed; null = never. */
  readonly retention: number | null;
  /** Longest time that one way between a process and the database takes when nothing is wrong. */
  readonly latency: number;
}

export interface ServerPlan {
  readonly startAt: number;
  /** How far its wall clock is ahead. */
  readonly skew: number;
  /** Parts per million that its clocks run too fast. */
  readonly drift: number;
  /** Lines of defence that are taken away, to see that the others hold. */
  readonly without: readonly Defence[];
}

export const DEFENCES = ["heartbeat.no-fence", "store.no-claim-check", "attempt.no-start-slack"] as const;
export type Defence = (typeof DEFENCES)[number];

/** What a handler does once it is told to stop. `grace` milliseconds later it obeys; `never` is null. */
export type Obedience = number | null;

export interface JobPlan {
  /** When it is enqueued. */
  readonly at: number;
  readonly queue: "a" | "b";
  readonly priority: number;
  /** From its enqueueing to when it is due. */
  readonly delay: number;
  readonly maxAttempts: number;
  /** Null = none. */
  readonly timeout: number | null;
  /** What its attempts do, one after the other; the last entry counts for all that follow. At least one. */
  readonly runs: readonly RunPlan[];
  readonly obeys: Obedience;
  /** Index into `LIMIT_KEYS`-like names: jobs with the same name share it. Null = none. */
  readonly limit: LimitPlan | null;
  /** Jobs with the same number have the same unique key. Null = none. */
  readonly unique: { readonly key: number; readonly window: number | null; readonly mode: "keep" | "replace" } | null;
  /** Indexes of earlier jobs that must have succeeded (or only ended). */
  readonly after: readonly { readonly job: number; readonly finished: boolean }[];
  /** Index of the batch that it joins. */
  readonly batch: number | null;
  /** Index of the batch that it waits for. */
  readonly afterBatch: number | null;
}

export interface RunPlan {
  /** How long the handler works. */
  readonly work: number;
  /** How it ends. `block` keeps its process from doing anything else meanwhile. */
  readonly end: "return" | "throw" | "hang" | "snooze" | "block" | "permanent";
  /** It writes a checkpoint and reports progress half way. */
  readonly checkpoint: boolean;
  /** Index of a job plan that it enqueues half way, or null. */
  readonly enqueues: number | null;
}

export interface LimitPlan {
  readonly key: number;
  readonly max: number;
  readonly rate: number;
  readonly per: number;
  readonly burst: number;
}

export interface BatchPlan {
  /** When it is opened, and when it is sealed. */
  readonly at: number;
  readonly sealAt: number;
  /** Index of an earlier batch. */
  readonly parent: number | null;
  /** Index of a job plan: what its continuation does, which is written with it. Null = it has none. */
  readonly continuation: number | null;
}

export interface RecurringPlan {
  readonly at: number;
  readonly cron: string;
  readonly timeZone: string;
  readonly misfire: Misfire;
  readonly overlap: boolean;
  readonly run: RunPlan;
}

/** What operators and users do. */
export type Action =
  | { readonly type: "delete" | "requeue"; readonly at: number; readonly job: number }
  | { readonly type: "deleteFailed" | "requeueFailed"; readonly at: number }
  | { readonly type: "pauseQueue" | "resumeQueue"; readonly at: number; readonly queue: "a" | "b" };

/** The process of a server by its index; "client" is where jobs are enqueued. */
export type Target = number | "client";
/** The `nth` call of this kind that the process sends from `at` on, from 0. */
export interface NthCall {
  readonly target: Target;
  readonly op: string;
  readonly nth: number;
  readonly at: number;
}

type OnCall<Type extends string, More = unknown> = Type extends string
  ? { readonly type: Type } & NthCall & More
  : never;

export type Fault =
  /** SIGKILL; started again after `restartAfter`, null = never. */
  | { readonly type: "crash"; readonly target: Target; readonly at: number; readonly restartAfter: number | null }
  /** SIGTERM, as in a deployment. */
  | { readonly type: "shutdown"; readonly target: number; readonly at: number; readonly restartAfter: number | null }
  | { readonly type: "pause"; readonly target: Target; readonly at: number; readonly for: number }
  | {
      readonly type: "partition";
      readonly target: Target;
      readonly at: number;
      readonly for: number;
      readonly ways: "both" | "requests" | "replies";
    }
  | OnCall<"loseRequest" | "loseReply">
  | OnCall<"delayRequest" | "delayReply", { readonly for: number }>
  /** It fails, before or after its work was committed, with an error that may be tried again. */
  | OnCall<"errorBefore" | "errorAfter">
  /** Its commit takes so long; the database does nothing else meanwhile. */
  | OnCall<"slowCommit", { readonly for: number }>
  /** It gets no more than one job, row or orphan. */
  | OnCall<"limitOne">
  /** Each call fails with this probability. */
  | { readonly type: "errors"; readonly at: number; readonly for: number; readonly probability: number }
  | { readonly type: "databaseDown"; readonly at: number; readonly for: number }
  /** It answers nothing and then everything. */
  | { readonly type: "databaseStall"; readonly at: number; readonly for: number }
  | { readonly type: "databaseClock"; readonly at: number; readonly by: number }
  | { readonly type: "wallClock"; readonly target: Target; readonly at: number; readonly by: number }
  | { readonly type: "loseEvents" | "doubleEvents"; readonly at: number; readonly for: number }
  | { readonly type: "lateEvents"; readonly at: number; readonly for: number; readonly by: number };

export type FaultType = Fault["type"];

/** Intervals at their defaults, as users have them. */
export const DEFAULT_CONFIG: SimConfig = {
  heartbeatInterval: 5_000,
  deadAfter: 60_000,
  killGrace: 5_000,
  leaderTtl: 15_000,
  pollInterval: 1_000,
  shutdownTimeout: 30_000,
  workers: 4,
  retention: null,
  latency: 2,
};

export const PLAIN_JOB: JobPlan = {
  at: 0,
  queue: "a",
  priority: 0,
  delay: 0,
  maxAttempts: 25,
  timeout: null,
  runs: [{ work: 1_000, end: "return", checkpoint: false, enqueues: null }],
  obeys: 0,
  limit: null,
  unique: null,
  after: [],
  batch: null,
  afterBatch: null,
};

export const PLAIN_SERVER: ServerPlan = { startAt: 0, skew: 0, drift: 0, without: [] };

export const EMPTY_SCENARIO: Scenario = {
  version: SCENARIO_VERSION,
  seed: 0,
  duration: 60_000,
  config: DEFAULT_CONFIG,
  servers: [PLAIN_SERVER],
  jobs: [],
  batches: [],
  recurring: [],
  actions: [],
  faults: [],
};
