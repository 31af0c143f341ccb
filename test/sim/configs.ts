/** Scenarios for properties: any configuration that the rules of `ServerConfig` allow, on a coarse grid. */
import fc from "fast-check";
import type { StoreKind } from "../../sim/cluster/database.ts";
import { allCheckers } from "../../sim/invariants/index.ts";
import type { Checker } from "../../sim/run/history.ts";
import { type RunResult, run } from "../../sim/run/run.ts";
import { PLAIN_SERVER, type Scenario, type ServerPlan, type SimConfig } from "../../sim/scenario/scenario.ts";

const SECOND = 1_000;

/** `deadAfter` must exceed 3 × heartbeatInterval + killGrace + 5s. */
export const configs: fc.Arbitrary<SimConfig> = fc
  .record({
    heartbeatInterval: fc.constantFrom(100, 500, 1_000, 5_000, 30_000, 300_000),
    killGrace: fc.constantFrom(0, 10, 1_000, 5_000, 60_000),
    spare: fc.constantFrom(1, 1_000, 35_000),
    leaderTtl: fc.constantFrom(1_000, 4_000, 15_000, 40_000),
    /** Parts of `deadAfter`. */
    polls: fc.constantFrom(0.01, 0.1, 0.5),
    latency: fc.constantFrom(0, 2, 40),
  })
  // Each beat costs time of the test.
  .filter(({ heartbeatInterval, killGrace, spare, leaderTtl }) => {
    return Math.max(killGrace + spare, leaderTtl) <= 150 * heartbeatInterval;
  })
  .map(({ spare, polls, ...given }) => {
    const deadAfter = 3 * given.heartbeatInterval + given.killGrace + 5 * SECOND + spare;
    const pollInterval = Math.ceil(polls * deadAfter);
    return { ...given, deadAfter, pollInterval, shutdownTimeout: 0, workers: 1, retention: null };
  });

/** Wrong wall clocks, and clocks that run at a wrong rate. */
export const clocks: fc.Arbitrary<ServerPlan> = fc.record({
  startAt: fc.constant(0),
  skew: fc.constantFrom(0, -3_600_000, 86_400_000),
  drift: fc.constantFrom(0, -200, 200),
  without: fc.constant([]),
});

/** How long it takes until a server that came up first leads and looks for orphans. */
export const settled = ({ leaderTtl, deadAfter, heartbeatInterval, latency }: SimConfig): number =>
  2 * leaderTtl + deadAfter + 2 * heartbeatInterval + 20 * latency;

/** From the moment at which a leader is gone until its jobs have been rescued, at most. */
export const longestRescue = ({ leaderTtl, deadAfter, heartbeatInterval, latency }: SimConfig): number =>
  (4 / 3) * leaderTtl + deadAfter + 1.5 * heartbeatInterval + 20 * latency + 10;

export const servers = (count: number, plan: Partial<ServerPlan> = {}): ServerPlan[] =>
  Array.from({ length: count }, () => ({ ...PLAIN_SERVER, ...plan }));

/** With all checkers, and one more that only looks on. */
export const check = (scenario: Scenario, store: StoreKind, watch?: Checker): Promise<RunResult> =>
  run(scenario, { store, checkers: (given) => [...(watch ? [watch] : []), ...allCheckers(given)] });

/** Whole, so that it can stand in a scenario. */
export const seeds = fc.noShrink(fc.nat());
