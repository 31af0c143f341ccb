/** Each checker finds what is wrong in a small history, and nothing in the same history when it is right: jobs, claims, results and attempts. */
import { ClaimLostError } from "kiln";
import { DEFAULT_CONFIG } from "../../sim/scenario/scenario.ts";
import { type Answer, OUTCOME, right, running, type Story, story, wrong } from "./planted.ts";

right("a job is run", running().wait(10).run("end", 0, 1).succeed(0, 1));

// S1
wrong(
  /^S1 finish moves a job enqueued → succeeded/,
  "a job ends that was not claimed",
  story().up(0).insert(1).succeed(0, 1),
);
wrong(
  /^S1 claim takes a job before it is due/,
  "a scheduled job is claimed early",
  story().up(0).insert(1, { state: "scheduled", runAt: 10 }).claim(0, 1),
);
right(
  "a scheduled job is claimed when it is due",
  story().up(0).insert(1, { state: "scheduled", runAt: 10 }).wait(10).claim(0, 1),
);
wrong(
  /^S1 a job with a limit is enqueued/,
  "a limited job does not wait for its limit",
  story().insert(1, { limitKey: "k" }),
);
wrong(
  /^S1 a job is deleted with finalizedAt null/,
  "an end without its instant",
  story()
    .insert(1)
    .call(9, "delete", [{}], { result: 1, changes: { 1: { state: "deleted" } } }),
);
wrong(
  /^S1 sweep changes a job that is processing/,
  "a sweep touches a running job",
  running()
    .lead(0, true)
    .call(0, "sweep", [1_000], { result: 1, changes: { 1: { cancelRequested: true } } }),
);

// S2
wrong(
  /^S2 claim takes the claim from 0 to 2/,
  "a claim number is left out",
  story().up(0).insert(1).claim(0, 1, { claim: 2 }),
);
wrong(
  /^S2 finish takes the claim from 1 to 0/,
  "a claim number goes back",
  running().finish(0, 1, { state: "enqueued" }, { state: "enqueued", claim: 0 }),
);
wrong(/^S2 an id is given twice/, "an id comes again", story().insert(2).insert(1));
wrong(
  /^S2 a claim gives a job to another server/,
  "the store names another holder",
  story().up(0).insert(1).claim(0, 1, { server: "s1" }),
);
wrong(
  /^S2 a claim by a server that is not alive/,
  "a claim by a server that nobody knows",
  story().up(0).insert(1).call(0, "unregister", ["s0"]).claim(0, 1),
);
wrong(
  /^S2 a beat tells of 0 jobs of 1/,
  "a heartbeat does not learn of a job",
  running().beat(0, { result: { known: true, leases: [], pausedQueues: [] } }),
);
wrong(
  /^S2 a beat of a server that is alive: known is false/,
  "a living server is told that it is dead",
  running().beat(0, { result: { known: false, leases: [], pausedQueues: [] } }),
);

// S3
const late = (status: string) =>
  running()
    .call(1, "finish", ["s1", [{ ...OUTCOME, id: 1, claim: 1 }]], {
      result: [{ status: "applied", state: "succeeded" }],
      changes: { 1: { state: "succeeded", finalizedAt: 0 } },
    })
    .call(0, "finish", ["s0", [{ ...OUTCOME, id: 1, claim: 1 }]], { result: [{ status, state: "succeeded" }] });
right("a late result is refused", late("stale"));
wrong(/^S3 a late result was accepted/, "a late result is accepted", late("applied"));
wrong(
  /^S3 a result of the job's holder was refused/,
  "the holder's result is refused",
  running().call(0, "finish", ["s0", [{ ...OUTCOME, id: 1, claim: 1 }]], { result: [{ status: "stale" }] }),
);
wrong(
  /^S3 finish says failed, the job is succeeded/,
  "an answer differs from what was done",
  running().call(0, "finish", ["s0", [{ ...OUTCOME, id: 1, claim: 1 }]], {
    result: [{ status: "applied", state: "failed" }],
    changes: { 1: { state: "succeeded", finalizedAt: 0 } },
  }),
);
wrong(
  /^S3 a result that was not accepted has ended a run/,
  "a refused result is applied",
  running().call(0, "finish", ["s0", [{ ...OUTCOME, id: 1, claim: 7 }]], {
    result: [{ status: "stale" }],
    changes: { 1: { state: "succeeded", finalizedAt: 0 } },
  }),
);
for (const op of ["setParams", "writeConsole"]) {
  const lost = { error: new ClaimLostError("lost") };
  right(`a late ${op} is refused`, running().call(0, op, [{ id: 1, claim: 7 }], lost));
  wrong(
    new RegExp(`^S3 a late ${op} was accepted`),
    `a late ${op} is accepted`,
    running().call(0, op, [{ id: 1, claim: 7 }]),
  );
  wrong(
    new RegExp(`^S3 ${op} of the job's holder was refused`),
    `a ${op} in time is refused`,
    running().call(0, op, [{ id: 1, claim: 1 }], lost),
  );
}

const child = (claim: number, answer: Answer = {}) => {
  const result = [{ id: 2, state: "enqueued", duplicate: false, replaced: false }];
  const inserted = { result, changes: { 2: {} }, ...answer };
  return running().call(0, "insert", [[{}], { whileHeld: { id: 1, claim } }], inserted);
};
const refusedChild = { result: undefined, changes: {}, error: new ClaimLostError("lost") };
right("a running job adds another", child(1));
right("a late insert is refused", child(7, refusedChild));
wrong(/^S3 a late insert was accepted: claim 7 of a job that is processing under claim 1/, "a late child", child(7));
wrong(
  /^S3 a late insert was accepted: claim 1 of a job that is succeeded/,
  "a child of a run that has ended",
  running()
    .run("end", 0, 1)
    .succeed(0, 1)
    .call(0, "insert", [[], { whileHeld: { id: 1, claim: 1 } }], { result: [] }),
);
wrong(/^S3 an insert of the job's holder was refused/, "a child in time is refused", child(1, refusedChild));
wrong(
  /^S3 an insert that names no claim was refused for one/,
  "an insert by nobody is refused",
  running().call(9, "insert", [[{}]], refusedChild),
);

// S7
wrong(
  /^S7 claim takes the attempt from 0 to 2/,
  "an attempt is left out",
  story().up(0).insert(1).claim(0, 1, { attempt: 2 }),
);
wrong(
  /^S7 attempt 3 of 2 is run/,
  "one attempt too many",
  story()
    .up(0)
    .insert(1, { maxAttempts: 2 })
    .claim(0, 1)
    .finish(0, 1, { state: "enqueued" }, { state: "enqueued" })
    .claim(0, 1)
    .finish(0, 1, { state: "enqueued" }, { state: "enqueued" })
    .claim(0, 1),
);
wrong(
  /^S7 an attempt that ended as shutdown counts/,
  "a hand-back uses an attempt",
  running().finish(0, 1, { state: "enqueued", reason: "shutdown" }, { state: "enqueued" }),
);
wrong(
  /^S7 an attempt that ended as retry does not count/,
  "a failure uses none",
  running().finish(0, 1, { state: "enqueued", reason: "retry", refund: true }, { state: "enqueued", attempt: 0 }),
);
wrong(
  /^S7 a result takes the attempt from 1 to 1/,
  "a refund is not made",
  running().finish(0, 1, { state: "enqueued", refund: true }, { state: "enqueued" }),
);
wrong(
  /^S7 a job fails before its last attempt/,
  "a job is given up early",
  running().finish(0, 1, { state: "failed", reason: "exhausted" }, { state: "failed", finalizedAt: 0 }),
);
wrong(
  /^S7 requeue takes the attempt from 1 to 1/,
  "a requeued job does not start over",
  running()
    .finish(0, 1, { state: "failed", reason: "permanent" }, { state: "failed", finalizedAt: 0 })
    .call(9, "requeue", [{}], { result: 1, changes: { 1: { state: "enqueued", finalizedAt: null } } }),
);

// S9 and S17
const kept = { config: { ...DEFAULT_CONFIG, retention: 1_000 } };
const prunes = (ms: number, scenario = {}): Story =>
  story(scenario)
    .up(0)
    .insert(1)
    .claim(0, 1)
    .succeed(0, 1)
    .wait(ms)
    .call(0, "lead", [{ holder: "s0", ttl: 9 }], { result: { held: true, heldFor: 0 } })
    .call(0, "prune", [{ servers: 3_600_000 }], { result: 1, changes: { 1: null } });
right("retention has outlived a job", prunes(1_000, kept));
wrong(/^S9 a job was removed 999 ms after its end/, "a job is removed too soon", prunes(999, kept));
wrong(/^S9 a job that is succeeded was removed/, "a job is removed that is kept for ever", prunes(1e9));
wrong(
  /^S1 delete moves a job enqueued → gone/,
  "a job vanishes",
  story()
    .insert(1)
    .call(9, "delete", [{}], { result: 1, changes: { 1: null } }),
);
wrong(
  /^S9 a job that was taken is not there/,
  "a job is not stored",
  story().call(9, "insert", [[{}]], { result: [{ id: 1, duplicate: false }] }),
);
wrong(
  /^S9 a job is there that was not taken/,
  "a refused job is stored",
  story().call(9, "insert", [[{}]], { error: new Error(), changes: { 1: {} } }),
);
const sweeps = (count: number, changes = {}): Story =>
  story()
    .up(0)
    .lead(0, true)
    .insert(1, { state: "scheduled", runAt: 5 })
    .wait(10)
    .call(0, "sweep", [1_000], { result: count, changes });
right("a sweep moves what is overdue", sweeps(1, { 1: { state: "enqueued" } }));
wrong(/^S17 sweep leaves a job that is overdue/, "a sweep leaves work", sweeps(0));
wrong(/^S17 sweep says nothing of its work/, "a sweep does not count", sweeps(0, { 1: { state: "enqueued" } }));
