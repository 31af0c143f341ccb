import assert from "node:assert/strict";
import { it } from "node:test";
import { scenarioFrom } from "../../sim/generate/generate.ts";
import { type Failure, run } from "../../sim/run/run.ts";
import { checkScenario } from "../../sim/scenario/check-scenario.ts";
import { DEFAULT_CONFIG, type Fault, PLAIN_JOB, PLAIN_SERVER, type Scenario } from "../../sim/scenario/scenario.ts";
import { keep } from "../../sim/shrink/reduce.ts";
import { type Shrunk, shrink } from "../../sim/shrink/shrink.ts";
import { NEVER_STARTS, scenarioWith, TROUBLED } from "./support.ts";

const failure = (signature: string, at = 1e9): Failure => {
  return { invariant: "S0", message: signature, signature, job: null, at, cause: null };
};

/** Shrinks as if a scenario failed when `fails` says so. */
function shrinkBy(scenario: Scenario, fails: (scenario: Scenario) => string | null, runs = 2_000): Promise<Shrunk> {
  const run = async (candidate: Scenario): Promise<Failure | null> => {
    checkScenario(candidate);
    const signature = fails(candidate);
    return signature === null ? null : failure(signature);
  };
  return shrink(scenario, failure(fails(scenario) as string), { run, runs, expired: () => false });
}

const large = (found: (scenario: Scenario) => boolean): Scenario => {
  for (let seed = 0; ; seed++) {
    const scenario = scenarioFrom(seed, "swarm");
    if (scenario.jobs.length > 8 && scenario.faults.length > 8 && found(scenario)) return scenario;
  }
};

it("finds the one fault and the one job that are needed among many", async () => {
  const isCause = (fault: Fault): boolean => fault.type === "pause" && fault.for > 20_000;
  const isVictim = (job: Scenario["jobs"][number]): boolean => job.maxAttempts < 4;
  const fails = ({ faults, jobs }: Scenario): string | null =>
    faults.some(isCause) && jobs.some(isVictim) ? "S0" : null;
  const start = large((scenario) => fails(scenario) !== null);
  const { scenario, runs } = await shrinkBy(start, fails);
  assert.equal(scenario.faults.length, 1);
  assert.equal(scenario.jobs.length, 1);
  const { maxAttempts } = scenario.jobs[0] as Scenario["jobs"][number];
  assert.deepEqual(scenario.jobs[0], { ...PLAIN_JOB, maxAttempts });
  const [fault] = scenario.faults;
  // The smallest of the durations at which something tips over that is large enough.
  assert.ok(fault?.type === "pause" && fault.for > 20_000 && fault.for <= 29_000, JSON.stringify(fault));
  assert.equal(fault.at, 0);
  assert.deepEqual([scenario.servers.length, scenario.recurring.length, scenario.actions.length], [1, 0, 0]);
  assert.deepEqual(scenario.servers, [PLAIN_SERVER]);
  assert.deepEqual(scenario.config, { ...DEFAULT_CONFIG, latency: 0 });
  assert.ok(runs < 200, `${runs} runs`);
});

it("keeps what only fails together", async () => {
  const types = ["crash", "partition"] as const;
  const fails = ({ faults }: Scenario): string | null =>
    types.every((type) => faults.some((fault) => fault.type === type)) ? "S0" : null;
  const { scenario } = await shrinkBy(
    large((scenario) => fails(scenario) !== null),
    fails,
  );
  assert.deepEqual(scenario.faults.map(({ type }) => type).sort(), types);
});

it("does not follow another failure", async () => {
  const fails = ({ faults }: Scenario): string | null => {
    if (faults.length > 3) return "S1";
    return faults.length > 0 ? "S2" : null;
  };
  const { scenario, failure: last } = await shrinkBy(TROUBLED, fails);
  assert.equal(last.signature, "S1");
  assert.equal(scenario.faults.length, 4);
});

it("names a call by the time at which it happens where that will do", async () => {
  const loss = { type: "loseReply", target: 0, op: "claim", nth: 9, at: 30_000 } as const;
  const fails = ({ faults }: Scenario): string | null =>
    faults.some(({ type }) => type === "loseReply" || type === "partition") ? "S0" : null;
  const { scenario } = await shrinkBy(scenarioWith([], { faults: [loss] }), fails);
  assert.deepEqual(scenario.faults, [{ type: "partition", target: 0, at: 0, for: 0, ways: "replies" }]);
  const only = await shrinkBy(scenarioWith([], { faults: [loss] }), ({ faults }) =>
    faults.some((fault) => fault.type === "loseReply" && fault.nth >= 2) ? "S0" : null,
  );
  assert.deepEqual(only.scenario.faults, [{ ...loss, nth: 2, at: 0 }]);
});

it("leaves out what comes after the failure", async () => {
  const ends: number[] = [];
  await shrink(TROUBLED, failure("S0", 15_500), {
    run: async (candidate) => {
      ends.push(candidate.faults.length);
      return failure("S0", 15_500);
    },
    runs: 1,
    expired: () => false,
  });
  assert.deepEqual(ends, [TROUBLED.faults.filter(({ at }) => at <= 15_500).length]);
});

it("spends no more runs and no more time than it may", async () => {
  let runs = 0;
  const options = {
    run: async (): Promise<Failure> => {
      runs += 1;
      return failure("S0");
    },
    runs: 5,
    expired: (): boolean => false,
  };
  assert.equal((await shrink(TROUBLED, failure("S0"), options)).runs, 5);
  assert.equal(runs, 5);
  const none = await shrink(TROUBLED, failure("S0"), { ...options, expired: () => true });
  assert.equal(none.runs, 0);
  assert.equal(none.scenario, TROUBLED);
});

it("moves what refers to others along with them", () => {
  const job = (more: Partial<Scenario["jobs"][number]>): Scenario["jobs"][number] => ({ ...PLAIN_JOB, ...more });
  const run = { work: 0, end: "return", checkpoint: false, enqueues: 3 } as const;
  const scenario = scenarioWith(
    [
      job({}),
      job({ after: [{ job: 0, finished: true }] }),
      job({ after: [{ job: 1, finished: false }], runs: [run] }),
      job({}),
    ],
    {
      actions: [
        { type: "delete", at: 0, job: 2 },
        { type: "requeue", at: 0, job: 0 },
      ],
      faults: [
        { type: "pause", target: 2, at: 0, for: 1 },
        { type: "pause", target: 0, at: 0, for: 1 },
        { type: "pause", target: "client", at: 0, for: 1 },
      ],
    },
  );
  const fewer = keep(scenario, "jobs", [1, 2, 3]) as Scenario;
  assert.deepEqual(
    fewer.jobs.map(({ after }) => after),
    [[], [{ job: 0, finished: false }], []],
  );
  assert.equal(fewer.jobs[1]?.runs[0]?.enqueues, 2);
  assert.deepEqual(fewer.actions, [{ type: "delete", at: 0, job: 1 }]);
  const lonelier = keep(scenario, "servers", [2]) as Scenario;
  assert.deepEqual(
    lonelier.faults.map((fault) => "target" in fault && fault.target),
    [0, "client"],
  );
  assert.equal(keep(scenario, "servers", []), null);
  for (const left of [fewer, lonelier]) assert.equal(checkScenario(left), left);
});

it("makes a real failure small", async () => {
  const more = { jobs: [...NEVER_STARTS.jobs, ...TROUBLED.jobs.slice(0, 4)], faults: TROUBLED.faults.slice(0, 3) };
  const once = async (candidate: Scenario): Promise<Failure | null> =>
    (await run(candidate, { store: "memory" })).failure;
  const signature = "L4 jobs that do not end, throttled: #";
  for (let seed = 0; seed < 20; seed++) {
    const scenario = { ...NEVER_STARTS, ...more, seed };
    const first = await once(scenario);
    if (first?.signature !== signature) continue;
    const small = await shrink(scenario, first, { run: once, runs: 60, expired: () => false });
    const { jobs, faults, servers } = small.scenario;
    assert.deepEqual([jobs.length, faults.length, servers.length], [1, 0, 1]);
    return;
  }
  assert.fail("no seed fails");
});
