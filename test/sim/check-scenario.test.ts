import assert from "node:assert/strict";
import { it } from "node:test";
import { InvalidError } from "kiln";
import { caseToText, parseCase } from "../../sim/scenario/case.ts";
import { checkScenario } from "../../sim/scenario/check-scenario.ts";
import { PLAIN_JOB, type Scenario } from "../../sim/scenario/scenario.ts";
import { scenarioWith, TROUBLED } from "./support.ts";

/** What is said to be wrong, by field. */
function problemsOf(fn: () => unknown): Readonly<Record<string, string>> {
  try {
    fn();
  } catch (error) {
    assert.ok(error instanceof InvalidError, String(error));
    return Object.fromEntries(error.problems.map(({ field, rule }) => [field, rule]));
  }
  return {};
}

/** A scenario with something put at a path such as `faults.0.for`. */
function wrong(path: string, value: unknown): unknown {
  const copy = JSON.parse(JSON.stringify(TROUBLED)) as Record<string, unknown>;
  const steps = path.split(".");
  const last = steps.pop() as string;
  const place = steps.reduce<Record<string, unknown>>((at, step) => at[step] as Record<string, unknown>, copy);
  if (value === undefined) delete place[last];
  else place[last] = value;
  return copy;
}

it("takes what is right", () => {
  assert.equal(checkScenario(TROUBLED), TROUBLED);
});

const WRONG: readonly (readonly [path: string, value: unknown, field: string, rule: RegExp])[] = [
  ["version", 2, "version", /must be 1/],
  ["version", undefined, "version", /must be 1/],
  ["seed", -1, "seed", /integer from 0/],
  ["seed", "7", "seed", /integer from 0/],
  ["duration", 0, "duration", /integer from 1/],
  ["colour", "red", "colour", /is unknown/],
  ["faults", undefined, "faults", /is missing/],
  ["faults", {}, "faults", /must be an array/],
  ["faults.0", null, "faults[0]", /must be an object/],
  ["faults.0.type", "meteor", "faults[0].type", /must be one of .*"crash"/],
  ["faults.0.type", "constructor", "faults[0].type", /must be one of/],
  ["faults.0.target", 3, "faults[0].target", /index of a server/],
  ["faults.0.target", "server", "faults[0].target", /integer/],
  ["faults.0.for", 3, "faults[0].for", /is unknown/],
  ["faults.1.for", undefined, "faults[1].for", /is missing/],
  ["faults.1.for", Number.NaN, "faults[1].for", /number from 0/],
  ["faults.2.op", "explode", "faults[2].op", /must be one of .*"claim"/],
  ["faults.2.nth", 0.5, "faults[2].nth", /integer/],
  ["servers", [], "servers", /at least 1/],
  ["servers.0.without", ["everything"], "servers[0].without[0]", /heartbeat.no-fence/],
  ["config.deadAfter", 10_000, "config.deadAfter", /must exceed 3 × heartbeatInterval/],
  ["config.workers", 0, "config.workers", /integer from 1/],
  ["config.pollInterval", 1, "config.pollInterval", /10ms/],
  ["jobs.0.runs", [], "jobs[0].runs", /at least 1/],
  ["jobs.0.queue", "c", "jobs[0].queue", /must be one of "a", "b"/],
  ["jobs.0.after", [{ job: 0, finished: true }], "jobs[0].after[0].job", /earlier job/],
  ["jobs.0.batch", 0, "jobs[0].batch", /index of a batch/],
  ["recurring.0.cron", "@never", "recurring[0].cron", /cron expression/],
  ["recurring.0.timeZone", "Mars/Olympus", "recurring[0].timeZone", /time zone/],
  ["recurring.0.misfire", "maybe", "recurring[0].misfire", /must be one of "once"/],
  ["actions", [{ type: "delete", at: 0, job: 99 }], "actions[0].job", /index of a job/],
];

for (const [path, value, field, rule] of WRONG) {
  it(`names ${field} when ${path} is ${JSON.stringify(value)}`, () => {
    const problems = problemsOf(() => checkScenario(wrong(path, value)));
    assert.match(problems[field] ?? `nothing at ${field}, but ${JSON.stringify(problems)}`, rule);
  });
}

it("refuses jobs that would make others for ever", () => {
  const makes = (enqueues: number | null): Scenario["jobs"][number] => ({
    ...PLAIN_JOB,
    runs: [{ work: 0, end: "return", checkpoint: false, enqueues }],
  });
  const problems = problemsOf(() => checkScenario(scenarioWith([makes(1), makes(0)])));
  assert.match(problems["jobs[0].runs[0].enqueues"] ?? "", /enqueues none itself/);
  assert.deepEqual(
    problemsOf(() => checkScenario(scenarioWith([makes(1), makes(null)]))),
    {},
  );
});

it("refuses what is no scenario at all", () => {
  for (const value of [null, 7, "x", [], undefined]) assert.ok("" in problemsOf(() => checkScenario(value)));
});

it("reads what it writes", () => {
  const of = { what: "S3 x", stores: ["sqlite"], signature: "S3 x", commit: "ab12", scenario: TROUBLED } as const;
  assert.deepEqual(parseCase(caseToText(of)), of);
});

it("reads a bare scenario, for every store", () => {
  const { stores, scenario } = parseCase(JSON.stringify(TROUBLED));
  assert.deepEqual(stores, ["memory", "sqlite"]);
  assert.deepEqual(scenario, TROUBLED);
});

it("says that a file is cut off, and what is wrong in one", () => {
  const text = JSON.stringify({ scenario: TROUBLED });
  for (const cut of [0, 1, 20, text.length - 1]) {
    assert.match(problemsOf(() => parseCase(text.slice(0, cut)))["file"] ?? "", /JSON and not be cut off/);
  }
  assert.ok("scenario.jobs" in problemsOf(() => parseCase(JSON.stringify({ scenario: { ...TROUBLED, jobs: 3 } }))));
  assert.ok("stores" in problemsOf(() => parseCase(JSON.stringify({ scenario: TROUBLED, stores: ["oracle"] }))));
  assert.ok("what" in problemsOf(() => parseCase(JSON.stringify({ scenario: TROUBLED, what: 1 }))));
  assert.ok("extra" in problemsOf(() => parseCase(JSON.stringify({ scenario: TROUBLED, extra: 1 }))));
  assert.ok("signature" in problemsOf(() => parseCase(JSON.stringify({ scenario: TROUBLED, signature: 1 }))));
  assert.ok("file" in problemsOf(() => parseCase("[]")));
});
