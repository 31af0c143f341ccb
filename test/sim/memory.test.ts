/** Thousands of runs follow each other in one process: none may keep its world alive. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { scenarioFrom } from "../../sim/generate/generate.ts";
import { run } from "../../sim/run/run.ts";

const MIB = 2 ** 20;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

async function heapAfter(first: number, count: number): Promise<number> {
  for (let seed = first; seed < first + count; seed += 1) await run(scenarioFrom(seed, "swarm"), { store: "memory" });
  // What the last run has left to the event loop goes first.
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  return process.memoryUsage().heapUsed;
}

test("a run leaves nothing behind in memory", async () => {
  const before = await heapAfter(1, 10);
  const grown = (await heapAfter(11, 25)) - before;
  assert.ok(grown < 6 * MIB, `25 runs left ${(grown / MIB).toFixed(1)} MiB`);
});
