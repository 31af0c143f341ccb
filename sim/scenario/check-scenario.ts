/** Whether a value is a scenario: files are written by hand, cut off and kept for longer than the format. */
import { isTimeZone, parseCron } from "../../engine/cron.ts";
import { InvalidError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import { Problems, pathStep } from "../../engine/problems.ts";
import { MISFIRES } from "../../engine/rules/misfire.ts";
import { resolveConfig } from "../../engine/server/config.ts";
import { CLIENT_OPS, SERVER_OPS } from "./ops.ts";
import type {
  Action,
  BatchPlan,
  Fault,
  FaultType,
  JobPlan,
  LimitPlan,
  RecurringPlan,
  RunPlan,
  Scenario,
  ServerPlan,
  SimConfig,
} from "./scenario.ts";
import { DEFENCES, SCENARIO_VERSION } from "./scenario.ts";

const WHAT = "not a scenario";
const YEAR = 366 * 24 * 3_600_000;

/** Adds what is wrong with the value, which stands at `field`. */
type Check = (value: unknown, field: string, problems: Problems) => void;
/** One for each field of a type: a field that joins it must be checked before anything compiles. */
type Fields<Type> = { readonly [Name in keyof Type]-?: Check };

const rule =
  (holds: (value: unknown) => boolean, text: string): Check =>
  (value, field, problems) => {
    if (!holds(value)) problems.add(field, value, text);
  };
const number = (min: number, max: number): Check =>
  rule((value) => typeof value === "number" && value >= min && value <= max, `must be a number from ${min} to ${max}`);
const integer = (min: number, max: number): Check =>
  rule(
    (value) => Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
    `must be an integer from ${min} to ${max}`,
  );
const oneOf = (...values: readonly unknown[]): Check =>
  rule((value) => values.includes(value), `must be one of ${values.map((value) => JSON.stringify(value)).join(", ")}`);
const boolean = oneOf(true, false);
const nullable =
  (check: Check): Check =>
  (value, field, problems) => {
    if (value !== null) check(value, field, problems);
  };

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function object<Type>(fields: Fields<Type>): Check {
  const checks = fields as Readonly<Record<string, Check>>;
  return (value, field, problems) => {
    if (!isObject(value)) return problems.add(field, value, "must be an object");
    for (const name of Object.keys(value)) {
      if (!Object.hasOwn(checks, name)) problems.add(step(field, name), value[name], "is unknown");
    }
    for (const [name, check] of Object.entries(checks)) {
      if (!Object.hasOwn(value, name)) problems.add(step(field, name), undefined, "is missing");
      else check(value[name], step(field, name), problems);
    }
  };
}

function list(item: Check, least = 0): Check {
  return (value, field, problems) => {
    if (!Array.isArray(value)) return problems.add(field, value, "must be an array");
    if (value.length < least) problems.add(field, value, `must have at least ${least} entries`);
    for (const [index, entry] of value.entries()) item(entry, field + pathStep(index), problems);
  };
}

/** An object whose fields depend on its type. */
function variant<Type extends string>(types: Readonly<Record<Type, Readonly<Record<string, Check>>>>): Check {
  const byName = Object.entries<Readonly<Record<string, Check>>>(types);
  const checks = new Map(byName.map(([type, fields]) => [type, object<unknown>({ type: oneOf(type), ...fields })]));
  const known = oneOf(...checks.keys());
  return (value, field, problems) => {
    const type = isObject(value) ? value["type"] : undefined;
    const check = checks.get(type as string);
    if (check !== undefined) check(value, field, problems);
    else if (isObject(value)) known(type, step(field, "type"), problems);
    else problems.add(field, value, "must be an object");
  };
}

const step = (field: string, name: string): string => (field === "" ? name : field + pathStep(name));

const time = number(0, YEAR);
const length = number(0, YEAR);
const clockStep = number(-YEAR, YEAR);
const server = integer(0, 99);
const index = integer(0, 9_999);
const queue = oneOf("a", "b");
const target: Check = (value, field, problems) => {
  if (value !== "client") server(value, field, problems);
};
const onCall = { target, at: time, op: oneOf(...new Set([...SERVER_OPS, ...CLIENT_OPS])), nth: integer(0, 1e6) };
const lasting = { at: time, for: length };

const run = object<RunPlan>({
  work: length,
  end: oneOf("return", "throw", "hang", "snooze", "block", "permanent"),
  checkpoint: boolean,
  enqueues: nullable(index),
});
const limit = object<LimitPlan>({
  key: integer(0, 99),
  max: integer(0, 1e6),
  rate: integer(0, 1e6),
  per: integer(1, YEAR),
  burst: integer(1, 1e6),
});
const job = object<JobPlan>({
  at: time,
  queue,
  priority: integer(-32_768, 32_767),
  delay: length,
  maxAttempts: integer(1, 32_767),
  timeout: nullable(integer(1, YEAR)),
  runs: list(run, 1),
  obeys: nullable(length),
  limit: nullable(limit),
  unique: nullable(
    object<NonNullable<JobPlan["unique"]>>({
      key: integer(0, 99),
      window: nullable(integer(1, YEAR)),
      mode: oneOf("keep", "replace"),
    }),
  ),
  after: list(object<JobPlan["after"][number]>({ job: index, finished: boolean })),
  batch: nullable(index),
  afterBatch: nullable(index),
});
const faults: Readonly<Record<FaultType, Readonly<Record<string, Check>>>> = {
  crash: { target, at: time, restartAfter: nullable(length) },
  shutdown: { target: server, at: time, restartAfter: nullable(length) },
  pause: { target, ...lasting },
  partition: { target, ...lasting, ways: oneOf("both", "requests", "replies") },
  loseRequest: onCall,
  loseReply: onCall,
  delayRequest: { ...onCall, for: length },
  delayReply: { ...onCall, for: length },
  errorBefore: onCall,
  errorAfter: onCall,
  slowCommit: { ...onCall, for: length },
  limitOne: onCall,
  errors: { ...lasting, probability: number(0, 1) },
  databaseDown: lasting,
  databaseStall: lasting,
  databaseClock: { at: time, by: clockStep },
  wallClock: { target, at: time, by: clockStep },
  loseEvents: lasting,
  doubleEvents: lasting,
  lateEvents: { ...lasting, by: length },
};
const actions: Readonly<Record<Action["type"], Readonly<Record<string, Check>>>> = {
  delete: { at: time, job: index },
  requeue: { at: time, job: index },
  deleteFailed: { at: time },
  requeueFailed: { at: time },
  pauseQueue: { at: time, queue },
  resumeQueue: { at: time, queue },
};
const config = object<SimConfig>({
  heartbeatInterval: length,
  deadAfter: length,
  killGrace: length,
  leaderTtl: length,
  pollInterval: length,
  shutdownTimeout: length,
  workers: integer(1, 10_000),
  retention: nullable(length),
  latency: length,
});
const scenario = object<Scenario>({
  version: oneOf(SCENARIO_VERSION),
  seed: integer(0, Number.MAX_SAFE_INTEGER),
  duration: integer(1, YEAR),
  config,
  servers: list(
    object<ServerPlan>({
      startAt: time,
      skew: clockStep,
      drift: number(-100_000, 100_000),
      without: list(oneOf(...DEFENCES)),
    }),
    1,
  ),
  jobs: list(job),
  batches: list(object<BatchPlan>({ at: time, sealAt: time, parent: nullable(index), continuation: nullable(index) })),
  recurring: list(
    object<RecurringPlan>({
      at: time,
      cron: (value, field, problems) => {
        const parsed = parseCron(value);
        if ("problem" in parsed) problems.add(field, value, parsed.problem);
      },
      timeZone: rule(isTimeZone, "must be a time zone"),
      misfire: oneOf(...MISFIRES),
      overlap: boolean,
      run,
    }),
  ),
  actions: list(variant(actions)),
  faults: list(variant(faults)),
});

/** @throws InvalidError naming the fields that are wrong */
export function checkScenario(value: unknown): Scenario {
  const problems = new Problems();
  // One of another version is not searched for what else has changed.
  if (isObject(value) && value["version"] !== SCENARIO_VERSION) {
    problems.add("version", value["version"], `must be ${SCENARIO_VERSION}`);
    problems.end(WHAT);
  }
  scenario(value, "", problems);
  problems.end(WHAT);
  const checked = value as Scenario;
  checkIndexes(checked, problems);
  checkConfig(checked.config, problems);
  problems.end(WHAT);
  return checked;
}

function checkIndexes({ servers, jobs, batches, recurring, actions, faults }: Scenario, problems: Problems): void {
  const below = (value: number | null, count: number, field: string, what: string): void => {
    if (value !== null && value >= count) problems.add(field, value, `must be the index of ${what}`);
  };
  const checkRun = ({ enqueues }: RunPlan, field: string): void => {
    below(enqueues, jobs.length, `${field}.enqueues`, "a job");
    // Otherwise one job might make others for ever.
    const again = enqueues !== null && jobs[enqueues]?.runs.some((of) => of.enqueues !== null);
    if (again) problems.add(`${field}.enqueues`, enqueues, "must be a job that enqueues none itself");
  };
  for (const [number, { after, batch, afterBatch, runs }] of jobs.entries()) {
    const field = `jobs[${number}]`;
    for (const [place, parent] of after.entries()) {
      below(parent.job, number, `${field}.after[${place}].job`, "an earlier job");
    }
    below(batch, batches.length, `${field}.batch`, "a batch");
    below(afterBatch, batches.length, `${field}.afterBatch`, "a batch");
    for (const [place, of] of runs.entries()) checkRun(of, `${field}.runs[${place}]`);
  }
  for (const [number, { run: of }] of recurring.entries()) checkRun(of, `recurring[${number}].run`);
  for (const [number, { parent, continuation }] of batches.entries()) {
    below(parent, number, `batches[${number}].parent`, "an earlier one");
    below(continuation, jobs.length, `batches[${number}].continuation`, "a job");
  }
  for (const [number, action] of actions.entries()) {
    if ("job" in action) below(action.job, jobs.length, `actions[${number}].job`, "a job");
  }
  for (const [number, fault] of faults.entries()) {
    const hit: Fault | { target: "client" } = "target" in fault ? fault : { target: "client" };
    if (hit.target !== "client") below(hit.target, servers.length, `faults[${number}].target`, "a server");
  }
}

/** By the rules that servers themselves have. */
function checkConfig({ workers, retention, latency: _, ...intervals }: SimConfig, problems: Problems): void {
  const handlers = [defineJob("any").handler(async () => {})];
  try {
    resolveConfig({ ...intervals, handlers, queues: { any: workers }, retention: { succeeded: retention ?? false } });
  } catch (error) {
    if (!(error instanceof InvalidError)) throw error;
    for (const problem of error.problems) problems.push({ ...problem, field: `config.${problem.field}` });
  }
}
