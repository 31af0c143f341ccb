/** The claim that must hold its job for an insert, and its parts × every hostile value × every store. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClaimLostError } from "../../engine/errors.ts";
import type { InsertOptions } from "../../engine/store.ts";
import { VirtualTime } from "../../engine/testing/index.ts";
import { newJob, register, running, snapshot } from "../conformance/support.ts";
import { refusalOf, STORES } from "./support.ts";
import { type HostileValue, VALUES } from "./values.ts";

const IDS = ["2^31 - 1", "2^31", "2^53 - 1"];
const CLAIMS = ["-0", ...IDS];

/** Where the value goes, and the names of those that are no bad values there but name a claim that nobody has. */
const PLACES: Readonly<Record<string, readonly [(value: unknown) => unknown, readonly string[]]>> = {
  options: [(value) => value, []],
  whileHeld: [(whileHeld) => ({ whileHeld }), []],
  id: [(id) => ({ whileHeld: { id, claim: 1 } }), IDS],
  claim: [(claim) => ({ whileHeld: { id: 1, claim } }), CLAIMS],
};
/** Where undefined means that there is no such claim. */
const OPTIONAL = ["options", "whileHeld"];

for (const [name, open] of Object.entries(STORES)) {
  for (const [place, [optionsOf, taken]] of Object.entries(PLACES)) {
    test(`${name}: ${place}`, async (t) => {
      const store = await open(new VirtualTime());
      t.after(() => store.close());
      await register(store);
      await running(store);
      const before = await snapshot(store);
      const insert = ({ make }: HostileValue): Promise<unknown> =>
        store.insert([newJob({ queue: "new" })], optionsOf(make(200)) as InsertOptions);
      for (const value of VALUES) {
        if (value.name === "undefined" && OPTIONAL.includes(place)) continue;
        if (taken.includes(value.name)) await assert.rejects(insert(value), ClaimLostError, value.name);
        else assert.ok(await refusalOf(() => insert(value)), `${value.name} is refused`);
      }
      assert.deepEqual(await snapshot(store), before);
    });
  }
}
