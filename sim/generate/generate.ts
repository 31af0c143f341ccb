/**
 * Random scenarios, valid by construction. All numbers are drawn first, independent of each other; only then it is decided
 * what they mean. So each part can be left out or made smaller without the others becoming something else.
 */
import fc from "fast-check";
import { edgesOf } from "../scenario/edges.ts";
import { SERVER_OPS } from "../scenario/ops.ts";
import {
  type Action,
  DEFAULT_CONFIG,
  type Defence,
  type FaultType,
  SCENARIO_VERSION,
  type Scenario,
  type ServerPlan,
  type SimConfig,
} from "../scenario/scenario.ts";
import { mix } from "../world/random.ts";
import { batched, rawBatching } from "./generate-batch.ts";
import { faultOf, instant, pick, rawFault } from "./generate-fault.ts";
import { jobOf, type RawJob, rawJob, rawRecurring, recurringOf } from "./generate-job.ts";
import { FAULT_TYPES, FEATURES, type Feature, PROFILES, type Profile, type ProfileName } from "./profiles.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const SHORTEST = 10 * MINUTE;
const HIGHEST = 2 ** 20;
const number = fc.nat(HIGHEST);

/** As users have them, and shorter: more of everything happens in the same time. */
const INTERVALS = [
  DEFAULT_CONFIG,
  DEFAULT_CONFIG,
  { ...DEFAULT_CONFIG, heartbeatInterval: 1_000, deadAfter: 12_000, killGrace: 2_000, leaderTtl: 5_000 },
  {
    ...DEFAULT_CONFIG,
    heartbeatInterval: 2_000,
    deadAfter: 30_000,
    killGrace: 0,
    leaderTtl: 15_000,
    pollInterval: 5_000,
  },
  { ...DEFAULT_CONFIG, pollInterval: 30_000, shutdownTimeout: 5_000 },
] as const;
/** Where calls take longer than that even when nothing is wrong, no promise about time holds; faults delay single ones. */
const LATENCIES = [0, 2, 2, 20, 200] as const;
const RETENTIONS = [1_000, 30_000, 5 * MINUTE] as const;
/** With nothing else in the way of a late result than the claim's number, `store.no-claim-check` needs no search. */
const UNDEFENDED = ["heartbeat.no-fence", "attempt.no-start-slack"] as const satisfies readonly Defence[];

const rawAction = fc.record({ type: number, at: number, job: number });
const rawServer = fc.record({ startAt: number, late: fc.nat(2), skew: number, drift: number, without: number });
const rawConfig = fc.record({ intervals: number, workers: fc.nat(4), latency: number, retention: number });

function raw({ faultCount, servers, jobs, features }: Profile) {
  const list = <Value>(item: fc.Arbitrary<Value>, [minLength, maxLength]: readonly [number, number]) =>
    fc.array(item, { minLength, maxLength, size: "max" });
  return fc.record({
    faults: list(rawFault, faultCount),
    jobs: list(rawJob, jobs),
    actions: list(rawAction, features.actions === undefined ? [0, 0] : [0, 6]),
    recurring: list(rawRecurring, features.recurring === undefined ? [0, 0] : [1, 3]),
    servers: list(rawServer, servers),
    duration: fc.nat(10),
    config: rawConfig,
    /** Up to 99 = left out, where a profile leaves some out. */
    weights: fc.array(fc.nat(199), { minLength: FAULT_TYPES.length, maxLength: FAULT_TYPES.length }),
    features: fc.array(fc.nat(99), { minLength: FEATURES.length - 1, maxLength: FEATURES.length - 1 }),
    seed: fc.noShrink(fc.nat(2 ** 31 - 1)),
    // Last, so that all else is drawn as it was before there were batches.
    batching: rawBatching,
  });
}
type Raw = ReturnType<typeof raw> extends fc.Arbitrary<infer Value> ? Value : never;

export function scenarios(name: ProfileName): fc.Arbitrary<Scenario> {
  const profile: Profile = PROFILES[name];
  return raw(profile).map((drawn) => scenarioOf(drawn, profile));
}

/** The same for the same seed and profile, as long as the generators are what they are. */
export function scenarioFrom(seed: number, name: ProfileName): Scenario {
  const [scenario] = fc.sample(fc.noBias(scenarios(name)), { seed: mix(seed >>> 0, 1) | 0, numRuns: 1 });
  return scenario as Scenario;
}

function scenarioOf(drawn: Raw, profile: Profile): Scenario {
  const has = (feature: Feature): boolean => rollOf(drawn, feature) < 100 * (profile.features[feature] ?? 0);
  const config = configOf(drawn, has);
  const edges = edgesOf(config);
  const duration = SHORTEST + drawn.duration * MINUTE;
  const context = { has, edges, duration, config };
  const servers = drawn.servers.map((server, index) => serverOf(server, index, duration, has));
  const single = drawn.jobs.map((job, index) => jobOf(job, index, drawn.jobs as readonly RawJob[], context));
  const { batches, jobs } = batched(drawn.batching, single, context);
  const weights = weightsOf(drawn, profile);
  const inFaults = { weights, edges, duration, servers: servers.length, calls: profile.calls ?? SERVER_OPS };
  return {
    version: SCENARIO_VERSION,
    seed: drawn.seed,
    duration,
    config,
    servers,
    jobs,
    batches,
    recurring: has("recurring") ? drawn.recurring.map((recurring) => recurringOf(recurring, context)) : [],
    actions: has("actions") ? drawn.actions.map((action) => actionOf(action, jobs.length, duration)) : [],
    faults: drawn.faults.map((fault) => faultOf(fault, inFaults)),
  };
}

/** 0 to 99. */
const rollOf = ({ features, batching }: Raw, feature: Feature): number =>
  feature === "batches" ? batching.on : (features[FEATURES.indexOf(feature)] ?? 100);

function configOf({ config }: Raw, has: (feature: Feature) => boolean): SimConfig {
  return {
    ...pick<SimConfig>(INTERVALS, config.intervals),
    workers: config.workers + 1,
    latency: pick<number>(LATENCIES, config.latency),
    retention: has("retention") ? pick<number>(RETENTIONS, config.retention) : null,
  };
}

/** The first server is there from the beginning. */
function serverOf(
  { startAt, late, skew, drift, without }: Raw["servers"][number],
  index: number,
  duration: number,
  has: (feature: Feature) => boolean,
): ServerPlan {
  return {
    startAt: index > 0 && late === 0 ? instant(startAt, duration / 2) : 0,
    skew: has("skew") ? pick([0, -DAY, -MINUTE, -1_000, 1_000, MINUTE, DAY], skew) : 0,
    drift: has("skew") ? pick([0, -500, -50, 50, 500], drift) : 0,
    without: has("undefended") ? [pick<Defence>(UNDEFENDED, without)] : [],
  };
}

const ACTIONS = [
  ...["delete", "delete", "requeue", "requeue", "deleteFailed", "requeueFailed", "pauseQueue", "resumeQueue"],
] as const satisfies readonly Action["type"][];

function actionOf({ type: rawType, at: rawAt, job }: Raw["actions"][number], jobs: number, duration: number): Action {
  const type = pick<Action["type"]>(ACTIONS, rawType);
  const at = instant(rawAt, duration);
  const queue = pick(["a", "b"] as const, job);
  if (type === "pauseQueue" || type === "resumeQueue") return { type, at, queue };
  if (type === "deleteFailed" || type === "requeueFailed") return { type, at };
  return jobs === 0 ? { type: "requeueFailed", at } : { type, at, job: job % jobs };
}

function weightsOf({ weights }: Raw, { faults, swarm }: Profile): Partial<Record<FaultType, number>> {
  if (!swarm) return faults;
  const drawn: Partial<Record<FaultType, number>> = {};
  for (const [index, type] of FAULT_TYPES.entries()) {
    const weight = (weights[index] ?? 0) - 99;
    if (faults[type] !== undefined && weight > 0) drawn[type] = faults[type] * weight;
  }
  return Object.keys(drawn).length > 0 ? drawn : faults;
}
