/** Each checker finds what is wrong in a small history, and nothing in the same history when it is right. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClaimLostError } from "kiln";
import { DEFAULT_CONFIG, PLAIN_JOB, PLAIN_SERVER } from "../../sim/scenario.ts";
import { OUTCOME, Story } from "./planted.ts";

function right(what: string, story: Story): void {
  test(`nothing is wrong when ${what}`, () => assert.equal(story.verdict, null));
}

function wrong(expected: RegExp, what: string, story: Story): void {
  test(`${expected.source.slice(1).split(" ")[0]}: ${what}`, () =>
    assert.match(story.verdict ?? "nothing was found", expected));
}

const story = (...args: ConstructorParameters<typeof Story>): Story => new Story(...args);
/** Two servers, and a job that the first one runs. */
const running = (): Story => story().up(0, 1).insert(1).claim(0, 1).run("start", 0, 1);

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

// S4: the job was handed back while its handler goes on.
const again = (from: Story): Story =>
  from
    .finish(0, 1, { state: "enqueued", refund: true, reason: "lost" }, { state: "enqueued", attempt: 0 })
    .claim(1, 1)
    .run("start", 1, 1);
wrong(/^S4 a job runs twice at once/, "two handlers of a job run", again(running()));
right("the first handler has ended", again(running().run("end", 0, 1)));
right("the first one's process is gone", again(running().down(0, "killed")));
right(
  "the first one stands still, and obeys when it goes on",
  again(running().pause(0)).wait(90).resume(0).wait(4_000).run("end", 0, 1, 1),
);
wrong(
  /^S4 a run goes on .* longer than it may/,
  "a handler goes on when its process does",
  again(running().pause(0)).wait(90).resume(0).wait(5_500).run("end", 0, 1, 1),
);
wrong(
  /^S4 a job runs twice at once/,
  "a process goes on, and its handler does",
  again(running().pause(0).wait(5_000).resume(0).wait(5_500)),
);
const ignoring = { jobs: [{ ...PLAIN_JOB, obeys: null }] };
right("the first handler ignores its signal", again(story(ignoring).up(0, 1).insert(1).claim(0, 1).run("start", 0, 1)));
const fenceless = { servers: [{ ...PLAIN_SERVER, without: ["heartbeat.no-fence"] as const }, PLAIN_SERVER] };
right("the first one's server has no fence", again(story(fenceless).up(0, 1).insert(1).claim(0, 1).run("start", 0, 1)));

// S5: with the defaults a server fences itself after 50 seconds.
right("handlers are aborted in time", running().wait(50_000).run("abort", 0, 1).wait(9_000).run("end", 0, 1));
wrong(/^S5 a handler goes on/, "a handler is aborted too late", running().wait(50_001).run("abort", 0, 1));
wrong(
  /^S5 a handler goes on/,
  "a late proof counts from when it came",
  running().wait(49_000).lead(1, true).beat(0, { sent: 48_000 }).wait(3_000).run("abort", 0, 1),
);
right("a beat has got through", running().wait(40_000).lead(1, true).beat(0).wait(50_000).run("abort", 0, 1));
right("it stood still meanwhile", running().wait(1).pause(0).wait(70_000).resume(0).run("abort", 0, 1));
wrong(
  /^S5 a handler goes on/,
  "a handler goes on after a pause",
  running().wait(1).pause(0).wait(70_000).resume(0).wait(1).run("abort", 0, 1),
);
wrong(
  /^S5 a server claims that had to fence itself/,
  "a fenced server claims",
  story().up(0).insert(1).wait(50_001).claim(0, 1),
);
wrong(
  /^S5 a server claims that is not registered/,
  "a server claims before it is known",
  story()
    .up(0)
    .call(0, "claim", [{ server: "s7", limit: 1 }], { result: { known: false, jobs: [], nextIn: null } }),
);
const told = () =>
  running()
    .call(0, "unregister", ["s0"])
    .call(0, "heartbeat", [{ server: "s0", running: 1 }], { result: { known: false, leases: [], pausedQueues: [] } });
right("handlers end when their server learns that it is dead", told().run("abort", 0, 1));
wrong(/^S5 a handler goes on/, "handlers go on though their server is dead", told().wait(1).run("abort", 0, 1));

// S6 and L1: server 0 dies, server 1 leads.
const PROMISE = DEFAULT_CONFIG.deadAfter + DEFAULT_CONFIG.heartbeatInterval;
const dies = (led = 70_000): Story =>
  story().up(1).lead(1, true).pass(led, 1).up(0).insert(1).claim(0, 1).beat(0).pass(20_000, 1, 0).down(0, "killed");
right(
  "a dead server's job is rescued",
  dies()
    .pass(PROMISE + 1, 1)
    .orphans(1, 1)
    .rescue(1, 1),
);
wrong(
  /^S6 a job of a living server is called an orphan/,
  "a server is dead a millisecond too soon",
  dies().pass(PROMISE, 1).orphans(1, 1),
);
wrong(
  /^S6 1 of 1 orphans|^S6 0 of 1 orphans are found/,
  "an orphan is overlooked",
  dies()
    .pass(PROMISE + 1, 1)
    .orphans(1),
);
wrong(
  /^S6 a new leader looks for orphans after 60000/,
  "a new leader does not wait",
  dies(0).wait(-20_000).pass(60_000, 1, 0).orphans(1),
);
wrong(
  /^S6 a server promises 60000/,
  "a server promises less",
  story().call(0, "register", [{ id: "s0", deadAfter: 60_000 }]),
);
wrong(/^S6 a job is rescued from a living server/, "a living server's job is rescued", dies().wait(1_000).rescue(1, 1));
wrong(/^S6 a server that does not lead/, "a follower looks for orphans", story().up(0).orphans(0));
wrong(
  /^S6 a server is declared dead that has been up/,
  "beats are not counted",
  story().up(1, 0).lead(1, true).pass(66_000, 1).orphans(1),
);
wrong(
  /^L1 a job is rescued, or not even that/,
  "a rescue comes too late",
  dies()
    .pass(PROMISE + 3_000, 1)
    .orphans(1, 1)
    .rescue(1, 1),
);
wrong(/^L1 a job is rescued, or not even that/, "a rescue does not come", dies().pass(PROMISE + 10_000, 1));
right(
  "the leader was kept from it",
  dies()
    .fault({ type: "databaseStall", at: 0, for: 70_000 })
    .pass(PROMISE + 3_000, 1)
    .orphans(1, 1)
    .rescue(1, 1),
);
wrong(
  /^L1 a job is rescued 45001 ms after the kill/,
  "a server is given too little time, for it did not beat",
  story()
    .up(1)
    .lead(1, true)
    .pass(70_000, 1)
    .up(0)
    .insert(1)
    .claim(0, 1)
    .beat(0)
    .pass(20_000, 1)
    .down(0, "killed")
    .pass(PROMISE - 20_000 + 1, 1)
    .orphans(1, 1)
    .rescue(1, 1),
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

// S8
const twice = (state: "enqueued" | "scheduled", wait: number): Story =>
  dies()
    .pass(PROMISE + 1, 1)
    .orphans(1, 1)
    .rescue(1, 1)
    .up(2)
    .claim(2, 1)
    .down(2, "killed")
    .pass(PROMISE + 1, 1)
    .orphans(1, 1)
    .finish(
      1,
      1,
      { state, delay: wait, reason: "orphaned", error: "server s2 was declared dead" },
      { state, runAt: 20_000 + 70_000 + 2 * (PROMISE + 1) + wait },
    );
right("the second rescue in a row waits", twice("scheduled", 2_000));
wrong(
  /^S8 a job that was rescued twice in a row runs again at once/,
  "the second rescue in a row does not wait",
  twice("enqueued", 0),
);
wrong(
  /^S8 a job rescued twice in a row waits 1999 of 2000/,
  "the second rescue waits too little",
  twice("scheduled", 1_999),
);
wrong(
  /^S8 the first rescue of a job in a row lets it wait/,
  "the first rescue waits",
  dies()
    .pass(PROMISE + 1, 1)
    .orphans(1, 1)
    .rescue(1, 1, { state: "scheduled", delay: 9_000 }, { state: "scheduled", runAt: 1e9 }),
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

// S16 and L3
right(
  "the lease goes to another when it has run out",
  story().up(0).lead(0, true).down(0, "killed").up(1).wait(15_000).lead(1, true),
);
wrong(
  /^S16 two servers hold the lease/,
  "there are two leaders",
  story().up(0, 1).lead(0, true).wait(14_999).lead(1, true),
);
wrong(
  /^S16 the lease is free and refused/,
  "nobody gets the lease",
  story().up(0, 1).lead(0, true).wait(15_000).lead(1, false),
);
wrong(
  /^S16 the lease was held for 5 ms, not 0/,
  "the store miscounts",
  story().up(0).lead(0, true).wait(5).lead(0, true),
);
wrong(
  /^S16 sweep by a server that has never led/,
  "a follower sweeps",
  story().up(0).call(0, "sweep", [1], { result: 0 }),
);
wrong(
  /^S16 prune by a server whose lease ran out/,
  "a leader goes on without its lease",
  story().up(0).lead(0, true).wait(21_000).call(0, "prune", [{}], { result: 0 }),
);
wrong(
  /^L3 no server has led for/,
  "nobody stands for election",
  story().up(0).lead(0, true).down(0, "killed").up(1).wait(26_000).beat(1),
);
right(
  "nobody could",
  story()
    .up(0)
    .lead(0, true)
    .down(0, "killed")
    .up(1)
    .wait(20_000)
    .fault({ type: "databaseDown", at: 0, for: 1_000 })
    .wait(6_000)
    .beat(1),
);
wrong(
  /^L3 a leader loses its lease/,
  "a leader forgets to renew",
  story().up(0, 1).lead(0, true).wait(15_000).lead(1, true),
);

// S19 and L6
right(
  "a server stops",
  running().pass(20_000, 0, 1).down(0, "stopping").run("end", 0, 1).succeed(0, 1).down(0, "stopped"),
);
wrong(
  /^S19 a server has stopped and leaves 1 timers/,
  "a timer is left",
  story().up(0).down(0, "stopping").down(0, "stopped", 1),
);
wrong(
  /^S19 a server takes 40000 ms to stop/,
  "a server takes too long",
  story().up(0).pass(20_000, 0).down(0, "stopping").wait(40_000).down(0, "stopped"),
);
wrong(
  /^L6 a server has stopped and still holds a job/,
  "a job is not handed back",
  running().pass(20_000, 0, 1).down(0, "stopping").run("end", 0, 1).down(0, "stopped"),
);
wrong(
  /^L6 a server claims that was told to stop/,
  "a stopping server claims",
  story().up(0).insert(1).down(0, "stopping").wait(1).claim(0, 1),
);

// L5
const waits = (ms: number): Story => story().up(0).pass(30_000, 0).insert(1).wait(ms);
right("a job is claimed with the next poll", waits(1_010).claim(0, 1));
wrong(/^L5 a job is ready and a worker free/, "a job waits longer than a poll", waits(1_050).claim(0, 1));
wrong(/^L5 a job is ready and a worker free/, "a job is never claimed", waits(2_000).beat(0));
right(
  "the queue was paused",
  story()
    .up(0)
    .pass(30_000, 0)
    .call(9, "pauseQueue", ["a"])
    .insert(1)
    .wait(9_000)
    .call(9, "resumeQueue", ["a"])
    .wait(1_000)
    .claim(0, 1),
);
wrong(
  /^L5 a job is ready and a worker free/,
  "a job that is due waits",
  story().up(0).pass(30_000, 0).insert(1, { state: "scheduled", runAt: 30_500 }).wait(1_600).claim(0, 1),
);
const busy = { config: { ...DEFAULT_CONFIG, workers: 1 } };
right(
  "all workers were busy",
  story(busy).up(0).insert(1).claim(0, 1).insert(2).pass(30_000, 0).succeed(0, 1).wait(900).claim(0, 2),
);
