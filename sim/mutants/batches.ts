/** Faults in batches. */
import type { BatchPlan, Scenario } from "../scenario/scenario.ts";
import type { Mutant } from "./mutant.ts";
import { job, scenario } from "./plans.ts";

const batch = (at: number, sealAt: number, parent: number | null): BatchPlan => ({
  ...{ at, sealAt, parent, continuation: null },
});

/** A batch with one nested in it, which has a short and a long member, and a job that waits for the outer one. */
const nested = (sealAt: number): Scenario =>
  scenario({
    duration: 60_000,
    batches: [batch(100, sealAt, null), batch(200, 8_000, 0)],
    jobs: [
      job(2_000, { at: 500, batch: 0 }),
      job(20_000, { at: 600, batch: 1 }),
      job(5_000, { at: 700, batch: 1 }),
      job(1_000, { at: 800, afterBatch: 0 }),
    ],
  });

/** Sealed when all is done, or long before. */
const sealedLast = nested(40_000);
const sealedFirst = nested(5_000);

const swarm = { random: "swarm" } as const;
const CAUGHT = ["L9", "S13", "S14"] as const;

export const BATCHES: readonly Mutant[] = [
  {
    ...{ id: "finish-unsealed", number: 18, what: "a batch finishes before it is sealed (memory)" },
    file: "engine/stores/memory/members.ts",
    find: "  return sealed && finishedAt === null &&",
    replace: "  return (sealed || true) && finishedAt === null &&",
    ...{ ...swarm, invariants: CAUGHT, directed: sealedLast },
  },
  {
    ...{ id: "finish-unsealed-sql", number: 18, what: "a batch finishes before it is sealed (SQLite)" },
    file: "engine/stores/sqlite/members.ts",
    find: "  WHERE id = ?1 AND sealed = 1 AND live = 0",
    replace: "  WHERE id = ?1 AND live = 0",
    ...{ ...swarm, invariants: CAUGHT, directed: sealedLast },
  },
  {
    ...{ id: "nested-do-not-count", number: 18, what: "a batch does not wait for those nested in it (memory)" },
    file: "engine/stores/memory/members.ts",
    find: "finishedAt === null && openNested === 0 &&",
    replace: "finishedAt === null &&",
    ...{ ...swarm, invariants: CAUGHT, directed: sealedFirst },
  },
  {
    ...{ id: "member-ends-twice-sql", number: 18, what: "a member that ends is counted twice (SQLite)" },
    file: "engine/stores/sqlite/members.ts",
    find: "    if (batch !== null) this.#add(batch, 0, -1, 0);",
    replace: "    if (batch !== null) this.#add(batch, 0, -2, 0);",
    ...{ ...swarm, invariants: CAUGHT, directed: sealedFirst },
  },
];
