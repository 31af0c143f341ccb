/** The suite `sim`: how much virtual time a minute of a processor simulates, and how many scenarios the machine in a second. */
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { STORE_KINDS, type StoreKind } from "../sim/cluster/database.ts";
import { run as simulate } from "../sim/run/run.ts";
import { DEFAULT_CONFIG, EMPTY_SCENARIO, PLAIN_JOB, PLAIN_SERVER, type Scenario } from "../sim/scenario/scenario.ts";
import { Child, median, progress } from "./measure.ts";
import { atLeast, type Report, type Row } from "./report.ts";
import type { Share } from "./sim-child.ts";

const CHILD = fileURLToPath(new URL("sim-child.ts", import.meta.url));
const HOUR = 3_600_000;
const SECOND = 1_000;
/** Virtual hours of one measure, by store: each takes a second or two. */
const HOURS: Readonly<Record<StoreKind, number>> = { memory: 10, sqlite: 3 };
const TARGETS: Readonly<Record<StoreKind, number>> = { memory: 500, sqlite: 100 };
const ROUNDS = 5;
/** Scenarios of one measure and process; each lasts twelve virtual minutes before it is healed. */
const SCENARIOS = 60;
const DURATION = 12 * 60 * SECOND;

export async function run(): Promise<Report> {
  const rows: Row[] = [];
  for (const store of STORE_KINDS) {
    const calm = await rounds(`calm, ${store}`, () => calmHours(store));
    const name = `3 servers at the defaults, ${store}`;
    rows.push({ name, value: calm, unit: "virtual hours/CPU min", target: atLeast(TARGETS[store]) });
  }
  const processes = availableParallelism();
  const children = Array.from({ length: processes }, () => new Child(CHILD, []));
  for (const [checked, target] of [
    [false, atLeast(60)],
    [true, null],
  ] as const) {
    const name = `scenarios with faults, memory, ${processes} processes${checked ? ", all invariants checked" : ""}`;
    rows.push({ name, value: await rounds(name, () => faulty(children, checked)), unit: "scenarios/s", target });
  }
  for (const child of children) await child.stop();
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

/** Scenarios in a second, by a process for each processor, as `npm run sim -- run --jobs N` does it. */
async function faulty(children: readonly Child[], checked: boolean): Promise<number> {
  const seeds = Array.from({ length: SCENARIOS * children.length }, (_, n) => n + 1);
  const started = performance.now();
  for (const [index, child] of children.entries()) {
    const share: Share = {
      seeds: seeds.filter((seed) => seed % children.length === index),
      duration: DURATION,
      checked,
    };
    child.send(share);
  }
  await Promise.all(children.map((child) => child.next()));
  return (seeds.length * SECOND) / (performance.now() - started);
}

async function cpuSeconds(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}
