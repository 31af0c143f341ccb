/** The suite `sim`: how much virtual time, and how many scenarios, a minute of a processor simulates. */
import { STORE_KINDS, type StoreKind } from "../sim/cluster/database.ts";
import { scenarioFrom } from "../sim/generate/generate.ts";
import { allCheckers } from "../sim/invariants/index.ts";
import { run as simulate } from "../sim/run/run.ts";
import { DEFAULT_CONFIG, EMPTY_SCENARIO, PLAIN_JOB, PLAIN_SERVER, type Scenario } from "../sim/scenario/scenario.ts";
import { median, progress } from "./measure.ts";
import { atLeast, type Report, type Row } from "./report.ts";

const HOUR = 3_600_000;
const SECOND = 1_000;
/** Virtual hours of one measure, by store: each takes a second or two. */
const HOURS: Readonly<Record<StoreKind, number>> = { memory: 10, sqlite: 3 };
const TARGETS: Readonly<Record<StoreKind, number>> = { memory: 500, sqlite: 100 };
const ROUNDS = 5;
/** Scenarios of one measure; each lasts twelve virtual minutes before it is healed. */
const SCENARIOS = 60;
const DURATION = 12 * 60 * SECOND;

export async function run(): Promise<Report> {
  const rows: Row[] = [];
  for (const store of STORE_KINDS) {
    const calm = await rounds(`calm, ${store}`, () => calmHours(store));
    const name = `3 servers at the defaults, ${store}`;
    rows.push({ name, value: calm, unit: "virtual hours/CPU min", target: atLeast(TARGETS[store]) });
  }
  for (const [checked, target] of [
    [false, atLeast(60)],
    [true, null],
  ] as const) {
    const name = `scenarios with faults, memory${checked ? ", all invariants checked" : ""}`;
    rows.push({ name, value: await rounds(name, () => faulty(checked)), unit: "scenarios/CPU s", target });
  }
  const { heartbeatInterval, pollInterval } = DEFAULT_CONFIG;
  return { suite: "sim", rows, facts: { heartbeatInterval, pollInterval, jobs: "one in 10 s", rounds: ROUNDS } };
}

async function rounds(name: string, measure: () => Promise<number>): Promise<number> {
  const values: number[] = [];
  // In the first round Node compiles.
  for (let round = 0; round <= ROUNDS; round += 1) {
    progress(`sim: ${name}, round ${round} of ${ROUNDS}`);
    const value = await measure();
    if (round > 0) values.push(value);
  }
  return median(values);
}

/** Virtual hours in a minute of a processor. */
async function calmHours(store: StoreKind): Promise<number> {
  const duration = HOURS[store] * HOUR;
  const jobs = Array.from({ length: duration / (10 * SECOND) }, (_, n) => ({ ...PLAIN_JOB, at: n * 10 * SECOND }));
  const scenario: Scenario = { ...EMPTY_SCENARIO, duration, jobs, servers: [PLAIN_SERVER, PLAIN_SERVER, PLAIN_SERVER] };
  const seconds = await cpuSeconds(async () => {
    const { failure } = await simulate(scenario, { store });
    if (failure !== null) throw new Error(failure.message);
  });
  return (HOURS[store] * 60) / seconds;
}

/** Scenarios in a second of a processor. */
async function faulty(checked: boolean): Promise<number> {
  const scenarios = Array.from({ length: SCENARIOS }, (_, n) => ({
    ...scenarioFrom(n + 1, "swarm"),
    duration: DURATION,
  }));
  const seconds = await cpuSeconds(async () => {
    for (const scenario of scenarios)
      await simulate(scenario, { store: "memory", ...(checked && { checkers: allCheckers }) });
  });
  return SCENARIOS / seconds;
}

async function cpuSeconds(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}
