/** Every scenario that has ever shown a fault, again. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { allCheckers } from "../../sim/invariants/index.ts";
import { run } from "../../sim/run/run.ts";
import { timeline } from "../../sim/tell/timeline.ts";
import { REGRESSIONS, readRegressions } from "../../sim/verbs/regress.ts";

const cases = await readRegressions(REGRESSIONS);

it("says of each what was wrong", () => {
  for (const [name, { what }] of cases) assert.ok(what.length > 10, name);
});

for (const [name, { scenario, stores, what }] of cases) {
  for (const store of stores) {
    it(`${name} on ${store}`, async () => {
      const { failure, history } = await run(scenario, { store, checkers: allCheckers });
      if (failure !== null) assert.fail(`again: ${what}\n${timeline(failure, scenario, history)}`);
    });
  }
}
