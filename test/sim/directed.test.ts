import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { STORE_KINDS } from "../../sim/cluster/database.ts";
import { allCheckers } from "../../sim/invariants/index.ts";
import { MARKS, type Mark } from "../../sim/marks/list.ts";
import { MarkWatch } from "../../sim/marks/watch.ts";
import { SELF_CHECKS } from "../../sim/mutants/self-checks.ts";
import { run } from "../../sim/run/run.ts";
import { directedScenarios } from "../../sim/scenario/directed.ts";

describe("the simulator keeps to its own", () => {
  for (const [name, check] of Object.entries(SELF_CHECKS)) test(name, check);
});

describe("scenarios written by hand", () => {
  for (const store of STORE_KINDS) {
    test(`pass on ${store}, and reach every mark`, async () => {
      const reached = new Set<string>();
      for (const [name, scenario] of directedScenarios()) {
        const watch = new MarkWatch((mark) => reached.add(mark));
        const checkers = () => [watch, ...allCheckers(scenario)];
        const { failure, marks } = await run(scenario, { store, checkers });
        assert.equal(failure, null, `${name}: ${failure?.invariant} ${failure?.message} at ${failure?.at} ms`);
        for (const mark of marks) reached.add(mark);
      }
      assert.deepEqual(
        [...MARKS.keys()].filter((mark: Mark) => !reached.has(mark)),
        [],
      );
    });
  }
});
