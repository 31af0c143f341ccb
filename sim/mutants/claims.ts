/** Faults in claims and results. */
import type { Mutant } from "./mutant.ts";
import { job, runs, scenario, servers } from "./plans.ts";

/** A server stands still until others have its job, and then has a result for it. */
const lateResult = scenario({
  duration: 130_000,
  servers: servers(2),
  jobs: [job(10_000, { at: 100, runs: [runs(10_000), runs(60_000)] })],
  faults: [{ type: "pause", target: 0, at: 7_000, for: 100_000 }],
});

/** The same, and what it does late is to enqueue a child. */
const lateChild = scenario({
  duration: 130_000,
  servers: servers(2),
  jobs: [
    job(10_000, { at: 100, runs: [{ ...runs(10_000), enqueues: 1 }, runs(60_000)], obeys: null }),
    job(10, { at: 125_000 }),
  ],
  faults: [{ type: "pause", target: 0, at: 4_000, for: 100_000 }],
});

const claimIsLost = scenario({
  duration: 20_000,
  jobs: [job(1_000, { at: 2_100 })],
  faults: [{ type: "loseReply", target: 0, op: "claim", nth: 0, at: 2_099 }],
});

const shutdown = scenario({
  duration: 60_000,
  servers: servers(2),
  jobs: [job(100_000, { at: 100 })],
  faults: [{ type: "shutdown", target: 0, at: 5_000, restartAfter: null }],
});

/** A claim that its server has sent before it died arrives when the server is known to be dead. */
const claimOfTheDead = scenario({
  duration: 150_000,
  servers: servers(2),
  config: { workers: 1 },
  jobs: [job(60_000, { at: 95_000 }), job(60_000, { at: 95_001 })],
  faults: [
    { type: "delayRequest", target: 0, op: "claim", nth: 0, at: 5_000, for: 100_000 },
    { type: "crash", target: 0, at: 7_000, restartAfter: null },
  ],
});

const swarm = { random: "swarm" } as const;

export const CLAIMS: readonly Mutant[] = [
  {
    id: "finish-any-claim",
    number: 1,
    what: "a result is taken whatever its claim (memory)",
    file: "engine/stores/memory/finish.ts",
    find: `return row.claim === ref.claim || data.runtime.buggify("store.no-claim-check") ? row : null;`,
    replace: "return row;",
    invariants: ["S1", "S3"],
    random: "safety",
    directed: lateResult,
  },
  {
    id: "finish-any-claim-sql",
    number: 1,
    what: "a result is taken whatever its claim (SQLite)",
    file: "engine/stores/sqlite/finish.ts",
    find: `return claim === ref.claim || db.runtime.buggify("store.no-claim-check");`,
    replace: "return true;",
    invariants: ["S1", "S3"],
    random: "safety",
    directed: lateResult,
  },
  {
    id: "late-children",
    number: 43,
    what: "a handler adds jobs though its claim no longer holds its job (memory)",
    file: "engine/stores/memory/insert.ts",
    find: "if (whileHeld !== null) requireHeld(data, whileHeld);",
    replace: "",
    invariants: ["S3"],
    random: "fence",
    directed: lateChild,
  },
  {
    id: "late-children-sql",
    number: 43,
    what: "a handler adds jobs though its claim no longer holds its job (SQLite)",
    file: "engine/stores/sqlite/insert.ts",
    find: "if (whileHeld !== null) requireHeld(db, whileHeld);",
    replace: "",
    invariants: ["S3"],
    random: "fence",
    directed: lateChild,
  },
  {
    id: "lost-claim-stays",
    number: 5,
    what: "a claim whose reply was lost is never handed back",
    file: "engine/server/heartbeat.ts",
    find: "onLost(lease);",
    replace: "",
    invariants: ["L4"],
    ...swarm,
    directed: claimIsLost,
  },
  {
    id: "claim-of-the-dead",
    number: 6,
    what: "a server that is known to be dead may claim (memory)",
    file: "engine/stores/memory/claim.ts",
    find: "if (!livingServer(data, query.server)) return { known: false, jobs: [], nextIn: null };",
    replace: "",
    invariants: ["S2", "S6"],
    random: "safety",
    directed: claimOfTheDead,
  },
  {
    id: "claim-of-the-dead-sql",
    number: 6,
    what: "a server that is known to be dead may claim (SQLite)",
    file: "engine/stores/sqlite/claim.ts",
    find: "if (!db.get(LIVING_SERVER, query.server)) return null;",
    replace: "",
    invariants: ["S2", "S6"],
    random: "safety",
    directed: claimOfTheDead,
  },
  {
    id: "no-refund",
    number: 12,
    what: "a job that is handed back loses an attempt",
    file: "engine/rules/outcome.ts",
    find: "const attempt = outcome.refund ? Math.max(job.attempt - 1, 0) : job.attempt;",
    replace: "const attempt = job.attempt;",
    invariants: ["S7"],
    ...swarm,
    directed: shutdown,
  },
  {
    id: "claim-is-no-attempt",
    number: 12,
    what: "a claim does not count as an attempt (memory)",
    file: "engine/stores/memory/claim.ts",
    find: "attempt: row.attempt + 1,",
    replace: "",
    invariants: ["S7"],
    ...swarm,
    directed: shutdown,
  },
  {
    id: "claim-is-no-attempt-sql",
    number: 12,
    what: "a claim does not count as an attempt (SQLite)",
    file: "engine/stores/sqlite/claim.ts",
    find: "attempt = attempt + 1, claim",
    replace: "claim",
    invariants: ["S2", "S7"],
    ...swarm,
    directed: shutdown,
  },
  {
    id: "claim-number-again",
    number: 25,
    what: "the claim after a rescue has the number of the one before (memory)",
    file: "engine/stores/memory/claim.ts",
    find: "claim: row.claim + 1,",
    replace: "claim: Math.max(row.claim, 1),",
    invariants: ["S2"],
    ...swarm,
    directed: lateResult,
  },
  {
    id: "claim-number-again-sql",
    number: 25,
    what: "the claim after a rescue has the number of the one before (SQLite)",
    file: "engine/stores/sqlite/claim.ts",
    find: "claim = claim + 1,",
    replace: "claim = max(claim, 1),",
    invariants: ["S2"],
    ...swarm,
    directed: lateResult,
  },
  {
    id: "claim-in-flight-is-lost",
    number: 26,
    what: "a heartbeat takes a claim that is still on its way for lost, and hands back what is about to run",
    file: "engine/server/heartbeat.ts",
    find: "} else if (!claimsInFlight.has(lease.sequence)) {",
    replace: "} else {",
    invariants: ["S3", "S4"],
    ...swarm,
    directed: scenario({
      duration: 60_000,
      servers: servers(2, (index) => ({ startAt: index * 4_000 })),
      jobs: [job(30_000, { at: 3_000 })],
      faults: [0, 1].map(
        (nth) => ({ type: "delayReply", target: 0, op: "claim", nth, at: 3_000, for: 3_000 }) as const,
      ),
    }),
  },
  {
    id: "result-is-given-up",
    number: 27,
    what: "a result that could not be stored at once is forgotten",
    file: "engine/server/completer.ts",
    find: `faults.report("finish", error);
      return "failed";`,
    replace: `faults.report("finish", error);
      this.#sending = [];
      return "decided";`,
    invariants: ["L4"],
    ...swarm,
    directed: scenario({
      duration: 20_000,
      jobs: [job(1_000, { at: 100 })],
      faults: [{ type: "errorBefore", target: 0, op: "finish", nth: 0, at: 0 }],
    }),
  },
];
