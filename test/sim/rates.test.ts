/** The situations in which a rate limit could break: none does, and what the key allows is used. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { StoreKind } from "../../sim/cluster/database.ts";
import { kindCheckers } from "../../sim/invariants/kinds.ts";
import { AdmissionSpacing, AdmissionWindows, StartWindows } from "../../sim/invariants/rates.ts";
import { run } from "../../sim/run/run.ts";
import { checkScenario } from "../../sim/scenario/check-scenario.ts";
import { rateScenarios } from "../../sim/scenario/rates.ts";
import type { Fault, ServerPlan } from "../../sim/scenario/scenario.ts";
import { PLAIN_SERVER } from "../../sim/scenario/scenario.ts";
import { scenarioWith } from "./support.ts";

const all = rateScenarios();

for (const store of ["memory", "sqlite"] as const satisfies StoreKind[]) {
  for (const [index, { name, scenario, starts }] of all.entries()) {
    // SQLite takes longer; the arithmetic is the same, and each kind of situation comes up.
    if (store === "sqlite" && index % 6 !== 1) continue;
    test(`${store}: ${name}`, async () => {
      const { failure, history } = await run(checkScenario(scenario), { store, checkers: kindCheckers });
      assert.equal(failure, null);
      const started = history.filter(({ type, at }) => type === "start" && at <= scenario.duration * 1_000);
      assert.ok(started.length >= starts, `${started.length} handlers have started, at least ${starts} should have`);
    });
  }
}

/** Servers that start a second apart claim one job each, and get their answers at the same moment. */
function heldUp(without: ServerPlan["without"]): ReturnType<typeof scenarioWith> {
  const servers = Array.from({ length: 5 }, (_, index) => ({ ...PLAIN_SERVER, startAt: 100 + index * 1_010, without }));
  const limit = { key: 0, max: 0, rate: 1, per: 1_000, burst: 1 };
  const faults = servers.map(
    ({ startAt }, target): Fault => ({ type: "delayReply", target, op: "claim", nth: 0, at: 0, for: 4_900 - startAt }),
  );
  const jobs = servers.map(() => ({ limit }));
  return scenarioWith(jobs, { servers, faults });
}

test("starts that were held up break the bound when nobody watches them, and only then", async () => {
  const checkers = (): [AdmissionWindows, AdmissionSpacing, StartWindows] => {
    return [new AdmissionWindows(), new AdmissionSpacing(), new StartWindows()];
  };
  const blind = await run(heldUp(["attempt.no-start-slack"]), { store: "memory", checkers });
  assert.match(blind.failure?.message ?? "nothing was found", /starts in one window/);
  const watched = await run(heldUp([]), { store: "memory", checkers });
  assert.equal(watched.failure, null);
  const admissions = await run(heldUp(["attempt.no-start-slack"]), {
    store: "memory",
    checkers: () => checkers().slice(0, 2),
  });
  assert.equal(admissions.failure, null);
});
