import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { jobOutlived, serverOutlived } from "../../engine/rules/retention.ts";

const instant = fc.integer({ min: 0, max: 2 ** 45 });
const age = fc.integer({ min: 0, max: 2 ** 40 });

test("a job is kept for its age to the millisecond, and forever without one", () => {
  fc.assert(
    fc.property(instant, age, (endedAt, kept) => {
      assert.equal(jobOutlived(endedAt, kept, endedAt + kept - 1), false);
      assert.equal(jobOutlived(endedAt, kept, endedAt + kept), true);
      assert.equal(jobOutlived(endedAt, null, endedAt + kept), false);
    }),
  );
});

test("a server's row outlives neither the age nor the time until which its jobs are its own", () => {
  fc.assert(
    fc.property(instant, age, age, (heardAt, kept, deadAfter) => {
      const later = heardAt + Math.max(kept, deadAfter);
      assert.equal(serverOutlived(heardAt, deadAfter, kept, later), false);
      assert.equal(serverOutlived(heardAt, deadAfter, kept, later + 1), true);
    }),
  );
});
