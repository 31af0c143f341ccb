/** Users' own handlers in a simulated world: many runs, each with faults of its own, until a promise is broken. */
import type { Duration } from "../../engine/duration.ts";
import { KilnError } from "../../engine/errors.ts";
import type { Handler } from "../../engine/job.ts";
import { LONGEST_DURATION, QUEUE } from "../../engine/rules/limits.ts";
import { isName, QUEUE_RULE } from "../../engine/rules/values.ts";
import { Checker } from "../../engine/validate.ts";
import { STORE_KINDS, type StoreKind } from "../cluster/database.ts";
import type { HistoryEvent } from "../run/history.ts";
import { type Failure, type RunResult, run } from "../run/run.ts";
import { checkScenario } from "../scenario/check-scenario.ts";
import { DEFAULT_CONFIG, type Scenario, type SimConfig } from "../scenario/scenario.ts";
import { drawScenario, FAULT_NAMES, type FaultName } from "./draw.ts";
import { type SimContext, type UserCode, userProgram, type WorkloadContext } from "./user-program.ts";

export interface SimulationConfig {
  /** As in `ServerConfig`, with the same defaults. */
  readonly heartbeatInterval?: Duration;
  readonly deadAfter?: Duration;
  readonly killGrace?: Duration;
  readonly leaderTtl?: Duration;
  readonly pollInterval?: Duration;
  readonly shutdownTimeout?: Duration;
  /** Jobs that each server runs at once, 1 to 1,000, default 4. */
  readonly workers?: number;
  /** Longest time that one way between a process and the database takes, up to 1s, default 2ms. */
  readonly latency?: Duration;
}

export interface SimulationOptions<State> {
  /** Makes what the world outside remembers in one run, such as the charges that a payment provider has made. */
  readonly state: () => State;
  /** What servers run; called for each start of each server. */
  readonly handlers: (sim: SimContext<State>) => readonly Handler[];
  /** Enqueues the jobs; runs once, in a process that nothing happens to. */
  readonly workload: (sim: WorkloadContext<State>) => void | Promise<void>;
  /** Looks at the state once all jobs have ended; throws what is wrong. */
  readonly check: (state: State) => void;
  /** Queues that the servers work on. Default `["default"]`. */
  readonly queues?: readonly string[];
  readonly config?: SimulationConfig;
  /** Server processes, 1 to 10, default 2. */
  readonly servers?: number;
  /** What may go wrong. Default: everything in `FAULT_NAMES`. */
  readonly faults?: readonly FaultName[];
  /** How long things may go wrong, 1s to 24h, default 5m; virtual time, as all durations here. */
  readonly duration?: Duration;
  /** What jobs get to end in once nothing goes wrong any more, beside the time that rescues take. Default 1h. */
  readonly patience?: Duration;
  /** Runs, each with faults of its own; default 100. */
  readonly runs?: number;
  /** A whole number, default 1. Run n of seed s is the same whenever it is repeated. */
  readonly seed?: number;
  /** Default `memory`; `sqlite` runs the real SQL at about a quarter of the speed. */
  readonly store?: StoreKind;
  /** Runs this one alone: what a `SimulationError` has brought. */
  readonly scenario?: Scenario;
}

export interface SimulationReport {
  readonly runs: number;
  /** Things that went wrong, in all runs. */
  readonly faults: number;
  /** Attempts that were started. */
  readonly attempts: number;
  /** Hours of virtual time. */
  readonly hours: number;
}

/** A promise was broken: one of the engine's or, most likely, one that `check` asks for. */
export class SimulationError extends KilnError {
  readonly code = "simulation_failed";
  /** The least that is needed for it: pass it as `scenario` to see it again. */
  readonly scenario: Scenario;
  /** What happened, in order. */
  readonly timeline: string;

  constructor(message: string, scenario: Scenario, timeline: string, options: ErrorOptions) {
    super(`${message}\n\n${timeline}`, options);
    this.scenario = scenario;
    this.timeline = timeline;
  }
}

/**
 * Runs jobs through the real engine and store in a world where processes die, stall and lose their connection, again and
 * again with other faults, and asks `check` each time what has become of the world outside. It finds for example a charge
 * that is made twice when a worker dies between the charge and its checkpoint.
 *
 * Handlers must do their waiting with `sim.sleep`, and take time and randomness from `sim` alone.
 * @throws SimulationError with the least that is needed to break the promise; InvalidError for bad options
 */
export async function simulate<State>(options: SimulationOptions<State>): Promise<SimulationReport> {
  const { code, draw, runs, seed, store, scenario } = readOptions(options);
  const program = userProgram(code);
  const once = (world: Scenario): Promise<RunResult> => run(world, { store, program });
  const report = { runs: 0, faults: 0, attempts: 0, hours: 0 };
  const count = scenario === undefined ? runs : 1;
  for (let number = 0; number < count; number++) {
    const world = scenario ?? drawScenario({ ...draw, seed: seed * 1_000_003 + number });
    const result = await once(world);
    report.runs += 1;
    report.faults += result.faults;
    report.attempts += result.history.filter(({ type }) => type === "start").length;
    report.hours += result.simulated / 3_600_000;
    if (result.failure !== null) throw await explained(world, result.failure, once);
  }
  return report;
}

async function explained(
  scenario: Scenario,
  failure: Failure,
  once: (scenario: Scenario) => Promise<RunResult>,
): Promise<SimulationError> {
  const least = await withoutNeedless(scenario, failure.signature, once);
  const { history } = await once(least);
  const said = failure.invariant === "error" ? failure.message : `${failure.invariant} ${failure.message}`;
  return new SimulationError(`${said} (seed ${scenario.seed})`, least, tell(history), { cause: failure.cause });
}

/** Takes out one fault after the other, as long as the same thing goes wrong. */
async function withoutNeedless(
  scenario: Scenario,
  signature: string,
  once: (scenario: Scenario) => Promise<RunResult>,
): Promise<Scenario> {
  let least = scenario;
  for (const fault of scenario.faults) {
    const fewer = { ...least, faults: least.faults.filter((other) => other !== fault) };
    const { failure } = await once(fewer);
    if (failure?.signature === signature) least = fewer;
  }
  return least;
}

const MS = 1_000;

/** What happened, a line for each event that says something to a user. */
function tell(history: readonly HistoryEvent[]): string {
  return history
    .flatMap((event) => {
      const text = told(event);
      return text === null ? [] : [`${(event.at / MS / 1_000).toFixed(3).padStart(10)} s  ${text}`];
    })
    .join("\n");
}

function told(event: HistoryEvent): string | null {
  switch (event.type) {
    case "fault":
      return `${event.target}: FAULT ${event.what}`;
    case "note":
      return `${event.incarnation}: ${event.text}`;
    case "start":
      return `${event.incarnation}: job ${event.job} starts, attempt ${event.attempt}`;
    case "abort":
      return `${event.incarnation}: job ${event.job} is told to stop: ${event.reason}`;
    case "end":
      return `${event.incarnation}: job ${event.job} ends: ${event.how}`;
    case "up":
    case "down":
      return `${event.incarnation}: ${event.type === "up" ? "up" : event.how}`;
    default:
      return null;
  }
}

const OPTIONS = [
  ...["state", "handlers", "workload", "check", "queues", "config", "servers", "faults"],
  ...["duration", "patience", "runs", "seed", "store", "scenario"],
] as (keyof SimulationOptions<unknown>)[];
const CONFIG = [
  ...["heartbeatInterval", "deadAfter", "killGrace", "leaderTtl", "pollInterval", "shutdownTimeout"],
  ...["workers", "latency"],
] as (keyof SimulationConfig)[];
const FUNCTIONS = ["state", "handlers", "workload", "check"] as const;
const MAX_SEED = 2 ** 32;

interface Read<State> {
  readonly code: UserCode<State>;
  readonly draw: Omit<Parameters<typeof drawScenario>[0], "seed">;
  readonly runs: number;
  readonly seed: number;
  readonly store: StoreKind;
  readonly scenario: Scenario | undefined;
}

function readOptions<State>(options: SimulationOptions<State>): Read<State> {
  const what = "can't simulate";
  const check = new Checker(what, options, OPTIONS);
  check.required(...FUNCTIONS);
  const [state, handlers, workload, asks] = FUNCTIONS.map((name) => check.function(name));
  const queues = (check.array("queues") ?? ["default"]) as readonly string[];
  for (const [index, queue] of queues.entries()) {
    if (!isName(queue, QUEUE)) check.problems.add(`queues[${index}]`, queue, QUEUE_RULE);
  }
  const duration = { min: 1_000, max: 24 * 3_600_000, default: 300_000 };
  const read = {
    code: {
      ...({ state, handlers, workload, check: asks } as Pick<UserCode<State>, (typeof FUNCTIONS)[number]>),
      queues,
      patience: check.duration("patience", { min: 1_000, max: LONGEST_DURATION, default: 3_600_000 }),
    },
    draw: {
      config: readConfig(check.value("config") ?? {}, check),
      servers: check.integer("servers", { min: 1, max: 10, default: 2 }),
      faults: readFaults(check),
      duration: check.duration("duration", duration),
    },
    runs: check.integer("runs", { min: 1, max: 1_000_000, default: 100 }),
    seed: check.integer("seed", { min: 0, max: MAX_SEED, default: 1 }),
    store: check.oneOf<StoreKind>("store", STORE_KINDS) ?? "memory",
    scenario: check.has("scenario") ? checkScenario(check.value("scenario")) : undefined,
  };
  check.end();
  return read;
}

function readFaults(check: Checker<keyof SimulationOptions<unknown>>): readonly FaultName[] {
  const given = check.array("faults");
  if (given === undefined) return FAULT_NAMES;
  for (const [index, name] of given.entries()) {
    const known = FAULT_NAMES.includes(name as FaultName);
    if (!known) check.problems.add(`faults[${index}]`, name, `must be one of ${FAULT_NAMES.join(", ")}`);
  }
  return given as readonly FaultName[];
}

/** Ranges are checked by the servers themselves, which refuse what does not fit together. */
function readConfig(config: unknown, { problems }: { readonly problems: Checker<never>["problems"] }): SimConfig {
  const check = new Checker("can't simulate", config, CONFIG, { path: "config", problems });
  const interval = (name: keyof SimulationConfig & keyof SimConfig): number =>
    check.duration(name, { min: 0, max: LONGEST_DURATION, default: DEFAULT_CONFIG[name] as number });
  return {
    heartbeatInterval: interval("heartbeatInterval"),
    deadAfter: interval("deadAfter"),
    killGrace: interval("killGrace"),
    leaderTtl: interval("leaderTtl"),
    pollInterval: interval("pollInterval"),
    shutdownTimeout: interval("shutdownTimeout"),
    workers: check.integer("workers", { min: 1, max: 1_000, default: DEFAULT_CONFIG.workers }),
    latency: check.duration("latency", { min: 0, max: 1_000, default: DEFAULT_CONFIG.latency }),
    retention: null,
  };
}
