/** Scenarios that have found a fault in the engine once: `sim/regressions`, by the name of the fault. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { STORE_KINDS } from "../../sim/database.ts";
import type { Scenario } from "../../sim/scenario.ts";
import { check } from "./support.ts";

const FOLDER = new URL("../../sim/regressions/", import.meta.url);

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith(".json"))) {
  const scenario = JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) as Scenario;
  for (const store of STORE_KINDS) {
    test(`${store}: ${file}`, async () => assert.equal((await check(scenario, store)).failure, null));
  }
}
