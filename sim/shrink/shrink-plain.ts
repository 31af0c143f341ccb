/** Scenarios in which one thing is as it is by default, or said in a simpler way. */
import { DEFAULT_CONFIG, type Fault, PLAIN_JOB, PLAIN_SERVER, type Scenario } from "../scenario/scenario.ts";

/** One change each; always the same number in the same order for scenarios with the same parts. */
export function* plainer(scenario: Scenario): Generator<Scenario> {
  const { config, servers, jobs, recurring, faults } = scenario;
  yield { ...scenario, config: { ...DEFAULT_CONFIG, latency: config.latency } };
  for (const name of Object.keys(DEFAULT_CONFIG) as (keyof typeof DEFAULT_CONFIG)[]) {
    if (name !== "latency") yield { ...scenario, config: { ...config, [name]: DEFAULT_CONFIG[name] } };
  }
  yield { ...scenario, config: { ...config, latency: 0 } };
  for (const index of servers.keys()) yield { ...scenario, servers: servers.with(index, PLAIN_SERVER) };
  for (const [index, job] of jobs.entries()) {
    const [first = PLAIN_JOB.runs[0]] = PLAIN_JOB.runs;
    const put = (changed: Partial<typeof job>): Scenario => ({
      ...scenario,
      jobs: jobs.with(index, { ...job, ...changed }),
    });
    yield put({ ...PLAIN_JOB, at: job.at });
    yield put({ runs: job.runs.slice(0, 1) });
    yield put({ runs: job.runs.slice(-1) });
    for (const name of Object.keys(PLAIN_JOB) as (keyof typeof PLAIN_JOB)[]) {
      if (name !== "at") yield put({ [name]: PLAIN_JOB[name] });
    }
    if (first === undefined) continue;
    for (const name of ["end", "checkpoint", "enqueues"] as const) {
      yield put({ runs: job.runs.map((run) => ({ ...run, [name]: first[name] })) });
    }
  }
  for (const [index, plan] of recurring.entries()) {
    for (const changed of [
      { cron: "* * * * *" },
      { timeZone: "UTC" },
      { misfire: "once" as const },
      { overlap: true },
    ]) {
      yield { ...scenario, recurring: recurring.with(index, { ...plan, ...changed }) };
    }
  }
  for (const [index, fault] of faults.entries()) {
    yield { ...scenario, faults: faults.with(index, inTime(fault)) };
  }
}

/** What hits the nth call of one kind, as what hits all calls in the second in which it began to wait for it. */
function inTime(fault: Fault): Fault {
  switch (fault.type) {
    case "loseRequest":
    case "loseReply": {
      const ways = fault.type === "loseRequest" ? "requests" : "replies";
      return { type: "partition", target: fault.target, at: fault.at, for: 1_000, ways };
    }
    case "errorBefore":
    case "errorAfter":
      return { type: "errors", at: fault.at, for: 1_000, probability: 1 };
    case "slowCommit":
      return { type: "databaseStall", at: fault.at, for: fault.for };
    default:
      return fault;
  }
}
