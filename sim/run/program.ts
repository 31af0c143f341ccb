/** What runs in a simulated world: which handlers the servers have, and what the application does. */
import type { Handler } from "../../engine/job.ts";
import type { Backoff } from "../../engine/retry.ts";
import type { Snapshot } from "../cluster/audit.ts";
import type { Running } from "../cluster/cluster.ts";
import type { Database } from "../cluster/database.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { Incarnation } from "../world/process.ts";
import type { World } from "../world/world.ts";
import { Application } from "./client.ts";
import { Health, handlersFor } from "./handlers.ts";
import type { History } from "./history.ts";

export interface ProgramDeps {
  readonly world: World;
  readonly history: History;
  readonly database: Database;
  readonly scenario: Scenario;
}

export interface Program {
  /** That servers work on, in strict order. */
  readonly queues: readonly string[];
  /** Wait of kinds that name none; null = the engine's default. */
  readonly backoff: Backoff | null;
  /** For one start of a server. */
  handlers(running: Running): readonly Handler[];
  /** The application's own process has been started. */
  start(incarnation: Incarnation): void;
  /** The application has nothing more to do. */
  readonly done: boolean;
  /** From now on nothing goes wrong any more, in handlers neither. */
  heal(): void;
  /**
   * Milliseconds within which all jobs must end once everything is healed, beside what rescues take. `open` are those that
   * are there and have not ended.
   */
  work(open: readonly Snapshot[]): number;
  /** When everything has ended. Throws what is wrong. */
  check(): void;
}

export type MakeProgram = (deps: ProgramDeps) => Program;

/** Longest wait between two attempts, milliseconds: short, so that what is wrong shows within a scenario. */
export const LONGEST_BACKOFF = 20_000;
/** Doubles from one second. */
export const backoff: Backoff = (attempt) => Math.min(1_000 * 2 ** (attempt - 1), LONGEST_BACKOFF);

/** What the plans of the scenario say. */
export const planned: MakeProgram = ({ world, history, database, scenario }) => {
  const application = new Application(world, database, scenario);
  const health = new Health();
  const enqueue: Parameters<typeof handlersFor>[0]["enqueue"] = (plan, context) =>
    application.enqueueFrom(plan, context);
  return {
    queues: ["a", "b"],
    backoff,
    handlers: (running) => handlersFor({ world, history, scenario, health, enqueue }, running),
    start: (incarnation) => application.start(incarnation),
    get done(): boolean {
      return application.done;
    },
    heal() {
      health.heal();
      application.heal();
    },
    work: (open) => workOf(scenario) + open.reduce((sum, job) => sum + workOfJob(scenario, job), 0),
    check() {},
  };
};

/** Of each plan once: it may still have to be enqueued. */
function workOf({ jobs, recurring }: Scenario): number {
  const runs = [...jobs.flatMap((plan) => plan.runs), ...recurring.map((plan) => plan.run)];
  const work = runs.reduce((sum, run) => sum + run.work + 1_000, 0);
  const delays = Math.max(0, ...jobs.map(({ at, delay }) => at + delay)) + LONGEST_BACKOFF;
  const rates = jobs.reduce((sum, { limit }) => sum + (limit && limit.rate > 0 ? limit.per / limit.rate : 0), 0);
  return delays + rates + 4 * work;
}

/**
 * An application that is not answered enqueues again, and recurring jobs pile up while no server runs: so there may be any
 * number of a plan's jobs, and a limit may make them run one after the other.
 */
function workOfJob({ jobs, recurring, config }: Scenario, { recurringId, args }: Snapshot): number {
  const { plan } = JSON.parse(args) as { readonly plan: number };
  const runs = recurringId === null ? (jobs[plan]?.runs ?? []) : [recurring[plan]?.run];
  const limit = recurringId === null ? jobs[plan]?.limit : null;
  const rate = limit && limit.rate > 0 ? limit.per / limit.rate : 0;
  const longest = Math.max(0, ...runs.map((run) => run?.work ?? 0));
  return longest + rate + 1_000 + config.pollInterval + 4 * config.latency;
}
