/** How soon the jobs of a server that was killed run again, for any valid configuration. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { STORE_KINDS, type StoreKind } from "../../sim/cluster/database.ts";
import type { Commit, HistoryEvent } from "../../sim/run/history.ts";
import type { RunResult } from "../../sim/run/run.ts";
import {
  DEFAULT_CONFIG,
  EMPTY_SCENARIO,
  PLAIN_JOB,
  type Scenario,
  type SimConfig,
} from "../../sim/scenario/scenario.ts";
import { check, clocks, configs, longestRescue, seeds, settled } from "./configs.ts";

const RUNS = { memory: 6, sqlite: 2 } as const;
const VICTIM = 1;

/** Who comes first leads. */
function startOf(index: number, leads: boolean, late: number): number {
  if (index === 3) return late;
  return index === (leads ? VICTIM : 0) ? 0 : 500;
}

/** Servers 0 to 2 run a job each; the fourth comes a little later and is idle. Server 1 is killed. */
const scenarios = (config: fc.Arbitrary<SimConfig>, leads: boolean): fc.Arbitrary<Scenario> =>
  fc
    .record({
      config,
      plans: fc.tuple(clocks, clocks, clocks, clocks),
      /** Parts of a heartbeat after which it is killed. */
      after: fc.constantFrom(0, 0.001, 0.25, 0.5, 0.999),
      deaf: fc.boolean(),
      seed: seeds,
    })
    .map(({ config, plans, after, deaf, seed }) => {
      const killAt = Math.ceil(settled(config) + after * config.heartbeatInterval);
      const duration = Math.ceil(killAt + longestRescue(config) + 3 * config.pollInterval);
      const run = { end: "return", checkpoint: false, enqueues: null } as const;
      // Long enough to be running when the server dies; short when it is run again.
      const runs = [duration, 10].map((work) => ({ ...run, work }));
      const late = Math.max(2 * config.pollInterval, 1_000);
      return {
        ...EMPTY_SCENARIO,
        ...{ seed, config, duration },
        servers: plans.map((plan, index) => ({ ...plan, startAt: startOf(index, leads, late) })),
        jobs: Array.from({ length: 3 }, () => ({ ...PLAIN_JOB, timeout: 86_400_000, runs })),
        faults: [
          { type: "crash", target: VICTIM, at: killAt, restartAfter: null },
          ...(deaf ? [{ type: "loseEvents", at: 0, for: duration } as const] : []),
        ],
      };
    });

const commits = (history: readonly HistoryEvent[]): readonly Commit[] =>
  history.filter((event) => event.type === "commit");

interface Times {
  /** Milliseconds from the kill. */
  readonly rescued: number;
  readonly started: number;
}

/** Null when the victim ran nothing. */
function timesOf({ history }: RunResult): Times | null {
  const killed = history.find((event) => event.type === "down")?.at ?? 0;
  const name = `n${VICTIM}.1`;
  const run = history.find((event) => event.type === "start" && event.incarnation === name);
  if (run?.type !== "start") return null;
  const { job } = run;
  const rescue = commits(history).find(({ changes, at }) =>
    changes.some(({ id, before }) => id === job && at > killed && before?.state === "processing"),
  );
  const start = history.find((event) => event.type === "start" && event.job === job && event.at > killed);
  assert.ok(rescue !== undefined && start !== undefined, "the job was not rescued");
  return { rescued: (rescue.at - killed) / 1_000, started: (start.at - killed) / 1_000 };
}

/** `led`: the victim had the lease when it was killed. */
async function timed(scenario: Scenario, store: StoreKind): Promise<Times & { readonly led: boolean }> {
  let holder = "";
  let led = false;
  const see = (event: HistoryEvent): void => {
    if (event.type === "down") led ||= holder === `n${VICTIM}.1`;
    else if (event.type === "commit" && event.call.op === "lead" && isHeld(event)) holder = event.call.from.name;
  };
  const result = await check(scenario, store, { name: "who leads", see });
  assert.equal(result.failure, null);
  const times = timesOf(result);
  assert.ok(times !== null, "the victim has no job");
  return { ...times, led };
}

const isHeld = ({ result }: Commit): boolean => (result as { readonly held: boolean }).held;

async function keepsTime(scenario: Scenario, store: StoreKind): Promise<boolean> {
  const { deadAfter, heartbeatInterval, leaderTtl, pollInterval, latency } = scenario.config;
  const { rescued, started, led } = await timed(scenario, store);
  // Clocks that run at a wrong rate, and ways to the database.
  const error = (deadAfter + leaderTtl) * 0.0005 + 10 * latency + 10;
  assert.ok(rescued >= deadAfter - error, `rescued ${rescued} ms after the kill`);
  const election = led ? (4 / 3) * leaderTtl + heartbeatInterval : 0;
  assert.ok(
    rescued <= deadAfter + 1.5 * heartbeatInterval + election + error,
    `rescued after ${rescued} ms, led: ${led}`,
  );
  assert.ok(started - rescued <= pollInterval * 1.0005 + 4 * latency + 10, `started ${started - rescued} ms later`);
  return led;
}

for (const store of STORE_KINDS) {
  for (const leads of [false, true]) {
    const killed = leads ? "a leader" : "another";
    test(`${store}: ${killed} is killed, and its job rescued in its time, whatever the configuration`, async () => {
      const property = fc.asyncProperty(scenarios(configs, leads), async (scenario) => {
        assert.equal(await keepsTime(scenario, store), leads);
      });
      await fc.assert(property, { numRuns: RUNS[store], endOnFailure: true });
    });

    const [least, most] = leads ? [59_900, 100_000] : [59_900, 70_000];
    test(`${store}: ${killed} is killed, and with the defaults its job starts after ${least} to ${most} ms`, async () => {
      const defaults = fc.constant({ ...DEFAULT_CONFIG, workers: 1 });
      const property = fc.asyncProperty(scenarios(defaults, leads), async (scenario) => {
        const { started, led } = await timed(scenario, store);
        assert.equal(led, leads);
        assert.ok(started >= least && started <= most, `started after ${started} ms`);
      });
      await fc.assert(property, { numRuns: RUNS[store], endOnFailure: true });
    });
  }
}
