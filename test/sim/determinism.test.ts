import assert from "node:assert/strict";
import { it } from "node:test";
import { scenarioFrom } from "../../sim/generate/generate.ts";
import { firstDifference, hashesOf, trace } from "../../sim/tell/trace.ts";
import { firstBlock } from "../../sim/verbs/check-determinism.ts";
import { TROUBLED } from "./support.ts";

const SCENARIOS = {
  troubled: TROUBLED,
  ...Object.fromEntries([1].map((seed) => [seed, scenarioFrom(seed, "swarm")])),
};

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  it(`${name}: the same twice, and the same on every store`, async () => {
    const first = await trace(scenario, { store: "memory" });
    assert.equal(first.result.failure, null);
    assert.ok(first.lines.length > 1_000);
    for (const store of ["memory", "sqlite"] as const) {
      const { lines, result } = await trace(scenario, { store });
      assert.equal(firstDifference(first.lines, lines), null);
      assert.equal(result.digest, first.result.digest);
    }
  });
}

it("another seed is another run", async () => {
  const first = await trace(TROUBLED, { store: "memory" });
  const other = await trace({ ...TROUBLED, seed: TROUBLED.seed + 1 }, { store: "memory" });
  assert.notEqual(first.result.digest, other.result.digest);
});

it("finds the first line that differs, by hashes of thousands", () => {
  const lines = Array.from({ length: 5_500 }, (_, line) => `line ${line}`);
  assert.equal(hashesOf(lines).length, 6);
  for (const index of [0, 999, 1_000, 3_456, 5_499]) {
    const other = lines.with(index, "another");
    assert.equal(firstBlock(hashesOf(lines), hashesOf(other)), Math.floor(index / 1_000));
    const difference = firstDifference(lines, other);
    assert.deepEqual([difference?.index, difference?.left, difference?.right], [index, `line ${index}`, "another"]);
  }
  assert.equal(firstBlock(hashesOf(lines), hashesOf(lines)), null);
  assert.equal(firstBlock(hashesOf(lines), hashesOf(lines.slice(0, 2_500))), 2);
  assert.equal(firstDifference(lines, lines.slice(0, 9))?.right, "nothing");
});
