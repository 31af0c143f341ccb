import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { scenarioFrom, scenarios } from "../../sim/generate/generate.ts";
import { FAULT_TYPES, PROFILE_NAMES, PROFILES, type Profile } from "../../sim/generate/profiles.ts";
import { checkScenario } from "../../sim/scenario/check-scenario.ts";
import { edgesOf } from "../../sim/scenario/edges.ts";
import { DEFAULT_CONFIG } from "../../sim/scenario/scenario.ts";

const SEEDS = Array.from({ length: 150 }, (_, seed) => seed);

for (const name of PROFILE_NAMES) {
  it(`${name}: makes nothing but valid scenarios of its own kind`, () => {
    const { servers, jobs, faultCount, faults }: Profile = PROFILES[name];
    const within = (count: number, [least, most]: readonly [number, number]): void => {
      assert.ok(count >= least && count <= most, `${count} of ${least} to ${most}`);
    };
    fc.assert(
      fc.property(scenarios(name), (scenario) => {
        // As it comes back from a file.
        assert.deepEqual(checkScenario(JSON.parse(JSON.stringify(scenario))), scenario);
        within(scenario.servers.length, servers);
        within(scenario.jobs.length, jobs);
        within(scenario.faults.length, faultCount);
        for (const { type, at } of scenario.faults) {
          assert.ok(faults[type] !== undefined);
          assert.ok(at < scenario.duration && at % 1_000 === 0);
        }
      }),
    );
  });
}

it("makes the same scenario from the same seed, and another from another", () => {
  const first = SEEDS.map((seed) => JSON.stringify(scenarioFrom(seed, "swarm")));
  assert.deepEqual(
    first,
    SEEDS.map((seed) => JSON.stringify(scenarioFrom(seed, "swarm"))),
  );
  assert.equal(new Set(first).size, SEEDS.length);
});

it("comes to every fault and every feature", () => {
  const all = SEEDS.map((seed) => scenarioFrom(seed, "swarm"));
  assert.deepEqual(
    FAULT_TYPES.filter((type) => !all.some(({ faults }) => faults.some((fault) => fault.type === type))),
    [],
  );
  const jobs = all.flatMap((scenario) => scenario.jobs);
  const features = {
    limits: jobs.some(({ limit }) => limit !== null && limit.rate > 0 && limit.max > 0),
    unique: jobs.some(({ unique }) => unique?.mode === "replace"),
    batches: jobs.some(({ batch, afterBatch }) => batch !== null && afterBatch !== null),
    dependencies: jobs.some(({ after }) => after.length === 2),
    recurring: all.some(({ recurring }) => recurring.length > 1),
    actions: all.some(({ actions }) => actions.some(({ type }) => type === "pauseQueue")),
    timeouts: jobs.some(({ timeout }) => timeout !== null),
    checkpoints: jobs.some(({ runs }) => runs.some(({ checkpoint }) => checkpoint)),
    enqueueing: jobs.some(({ runs }) => runs.some(({ enqueues }) => enqueues !== null)),
    failures: jobs.some(({ runs }) => runs.some(({ end }) => end === "hang")),
    blocking: jobs.some(({ runs }) => runs.some(({ end }) => end === "block")),
    stubborn: jobs.some(({ obeys }) => obeys === null),
    retention: all.some(({ config }) => config.retention !== null),
    skew: all.some(({ servers }) => servers.some(({ drift }) => drift !== 0)),
    late: all.some(({ servers }) => servers.some(({ startAt }) => startAt > 0)),
    undefended: SEEDS.some((seed) => scenarioFrom(seed, "fence").servers.some(({ without }) => without.length > 0)),
  };
  assert.deepEqual(
    Object.entries(features).filter(([, seen]) => !seen),
    [],
  );
});

it("leaves fault types out of each run of a swarm", () => {
  const kinds = SEEDS.map((seed) => new Set(scenarioFrom(seed, "swarm").faults.map(({ type }) => type)).size);
  assert.ok(Math.max(...kinds) < FAULT_TYPES.length);
});

it("knows the durations at which something tips over", () => {
  const edges = edgesOf(DEFAULT_CONFIG);
  // The default fence: 60 s without heartbeat, interval and grace.
  for (const edge of [
    0, 4_000, 5_000, 6_000, 15_000, 49_000, 50_000, 51_000, 59_000, 60_000, 61_000, 65_000, 120_000,
  ]) {
    assert.ok(edges.includes(edge), `${edge}`);
  }
  assert.deepEqual(
    edges,
    [...edges].sort((a, b) => a - b),
  );
});
