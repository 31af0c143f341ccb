/** Random scenarios full of limits, unique keys, dependencies and recurring jobs keep all promises. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { allCheckers } from "../../sim/invariants/index.ts";
import { run } from "../../sim/run/run.ts";
import { checkScenario } from "../../sim/scenario/check-scenario.ts";
import { kindsScenario } from "./kinds-generate.ts";

/** Some hundred times as many were run when this was written. */
const RUNS = { memory: 8, sqlite: 3 } as const;

for (const store of ["memory", "sqlite"] as const) {
  test(`random scenarios of limits and ties keep all promises on ${store}`, async () => {
    for (let seed = 1; seed <= RUNS[store]; seed++) {
      const scenario = checkScenario(kindsScenario(seed));
      const { failure } = await run(scenario, { store, checkers: allCheckers });
      assert.equal(failure, null, `seed ${seed}`);
    }
  });
}
