/**
 * A job never runs twice at once as long as its handler obeys, and nothing that is late is taken: two defences, fences and
 * claim numbers, each of which must hold where the other one is taken away. With neither the checkers must see it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { STORE_KINDS } from "../../sim/cluster/database.ts";
import type { HistoryEvent } from "../../sim/run/history.ts";
import {
  type Defence,
  EMPTY_SCENARIO,
  type Fault,
  PLAIN_JOB,
  type RunPlan,
  type Scenario,
  type SimConfig,
} from "../../sim/scenario/scenario.ts";
import { check, configs, longestRescue, seeds, servers, settled } from "./configs.ts";

const RUNS = { checkpoint: { memory: 4, sqlite: 1 }, child: { memory: 2, sqlite: 1 } } as const;
/** Of scenarios with several faults. */
const DISTURBED = { memory: 20, sqlite: 3 } as const;

/** What a handler does half way. */
type Report = "checkpoint" | "child";
const REPORTS: readonly Report[] = ["checkpoint", "child"];

/** A handler that reports half way, as the second run of its job is under way elsewhere, and ends while that goes on. */
function zombie(config: SimConfig, seed: number, without: readonly Defence[], report: Report): Scenario {
  const silent = settled(config);
  const rescued = silent + longestRescue(config) + 2 * config.pollInterval;
  // Reachable again when it reports.
  const away = Math.ceil(rescued - silent);
  const work = Math.ceil(2 * rescued + 2 * config.heartbeatInterval + 2_000);
  const run: RunPlan = {
    ...{ work, end: "return" },
    ...{ checkpoint: report === "checkpoint", enqueues: report === "child" ? 1 : null },
  };
  // The application enqueues it too, when nothing depends on it any more.
  const child = {
    ...PLAIN_JOB,
    at: work,
    timeout: 1_000,
    runs: [{ ...run, work: 1, checkpoint: false, enqueues: null }],
  };
  const [first, second] = servers(2, { without });
  if (first === undefined || second === undefined) throw new Error("two servers");
  return {
    ...EMPTY_SCENARIO,
    ...{ seed, config, duration: work + 1_000 },
    servers: [first, { ...second, startAt: Math.max(2 * config.pollInterval, 1_000) }],
    jobs: [{ ...PLAIN_JOB, timeout: 86_400_000, runs: [run], obeys: 0 }, ...(report === "child" ? [child] : [])],
    faults: [{ type: "partition", target: 0, at: silent, for: away, ways: "both" }],
  };
}

const zombies = (without: readonly Defence[], report: Report): fc.Arbitrary<Scenario> =>
  fc.tuple(configs, seeds).map(([config, seed]) => zombie(config, seed, without, report));

const CALLS = ["claim", "finish", "heartbeat", "register", "setParams", "writeConsole", "lead", "orphans"] as const;

/** Around the moments at which something is to happen. */
const edges = ({ heartbeatInterval, deadAfter, killGrace, leaderTtl }: SimConfig): number[] => {
  const fence = deadAfter - heartbeatInterval - killGrace;
  const moments = [heartbeatInterval, 2 * heartbeatInterval, fence, fence + killGrace, deadAfter];
  moments.push(deadAfter + heartbeatInterval, deadAfter + 2 * heartbeatInterval, 2 * deadAfter, leaderTtl);
  return moments.flatMap((ms) => [ms - 1, ms, ms + 1]);
};

/** Servers that are cut off, stand still and get late answers; handlers that obey. */
const disturbed: fc.Arbitrary<Scenario> = fc
  .record({
    config: configs.filter(({ heartbeatInterval }) => heartbeatInterval <= 5_000),
    faults: fc.array(
      fc.record({
        type: fc.constantFrom(
          "partition",
          "pause",
          "delayRequest",
          "delayReply",
          "loseReply",
          "databaseDown",
          "databaseStall",
        ),
        target: fc.nat({ max: 2 }),
        op: fc.constantFrom(...CALLS),
        ways: fc.constantFrom("both", "requests", "replies"),
        nth: fc.nat({ max: 3 }),
        when: fc.nat({ max: 20 }),
        edge: fc.nat({ max: 26 }),
      }),
      { minLength: 1, maxLength: 5 },
    ),
    jobs: fc.array(fc.record({ edge: fc.nat({ max: 26 }), checkpoint: fc.boolean(), slow: fc.boolean() }), {
      minLength: 2,
      maxLength: 6,
    }),
    workers: fc.constantFrom(1, 3),
    seed: seeds,
  })
  .map(({ config: given, faults, jobs, workers, seed }) => {
    const config = { ...given, workers };
    const times = edges(config);
    const obeys = (slow: boolean): number => (slow ? Math.max(config.killGrace - 1, 0) : 0);
    return {
      ...EMPTY_SCENARIO,
      ...{ seed, config, duration: 4 * config.deadAfter, servers: servers(3) },
      jobs: jobs.map(({ edge, checkpoint, slow }) => ({
        ...{ ...PLAIN_JOB, obeys: obeys(slow) },
        runs: [{ work: times[edge] ?? 0, end: "return", checkpoint, enqueues: null }],
      })),
      // Fields that a fault does not have are not looked at.
      faults: faults.map(({ when, edge, ...fault }) => ({
        ...{ ...fault, at: Math.round((when / 10) * config.deadAfter), for: times[edge] ?? 0 },
      })) as unknown as readonly Fault[],
    };
  });

/** Late writes that the store has refused. */
function refusals(): { readonly name: string; readonly seen: Set<string>; see(event: HistoryEvent): void } {
  const seen = new Set<string>();
  const see = (event: HistoryEvent): void => {
    if (event.type !== "commit") return;
    const { op } = event.call;
    if (op === "finish") {
      const stale = (event.result as readonly { readonly status: string }[]).some(({ status }) => status === "stale");
      if (stale) seen.add(op);
    } else if ((event.error as Error | undefined)?.name === "ClaimLostError") seen.add(op);
  };
  return { name: "refusals", seen, see };
}

const LATE: Readonly<Record<Report, readonly string[]>> = {
  checkpoint: ["finish", "setParams", "writeConsole"],
  child: ["finish", "insert"],
};

for (const store of STORE_KINDS) {
  test(`${store}: handlers that obey never overlap, whatever happens to their servers`, async () => {
    const property = fc.asyncProperty(disturbed, async (scenario) => {
      assert.equal((await check(scenario, store)).failure, null);
    });
    await fc.assert(property, { numRuns: DISTURBED[store], endOnFailure: true });
  });

  for (const report of REPORTS) {
    const forAll = (without: readonly Defence[], see: (scenario: Scenario) => Promise<void>): Promise<void> =>
      fc.assert(fc.asyncProperty(zombies(without, report), see), { numRuns: RUNS[report][store], endOnFailure: true });

    test(`${store}, ${report}: with both defences`, async () => {
      await forAll([], async (scenario) => {
        assert.equal((await check(scenario, store)).failure, null);
      });
    });

    test(`${store}, ${report}: without fences what is late is refused: ${LATE[report].join(", ")}`, async () => {
      await forAll(["heartbeat.no-fence"], async (scenario) => {
        const watch = refusals();
        assert.equal((await check(scenario, store, watch)).failure, null);
        assert.deepEqual([...watch.seen].sort(), LATE[report]);
      });
    });

    test(`${store}, ${report}: without claim numbers, fences see to it that nothing is late`, async () => {
      await forAll(["store.no-claim-check"], async (scenario) => {
        assert.equal((await check(scenario, store)).failure, null);
      });
    });

    test(`${store}, ${report}: without either the checkers find what is late`, async () => {
      await forAll(["heartbeat.no-fence", "store.no-claim-check"], async (scenario) => {
        const { failure } = await check(scenario, store);
        assert.equal(failure?.invariant, "S3");
        if (report === "child") assert.match(failure.message, /^a late insert was accepted/);
      });
    });
  }
}
