import { dies, PROMISE, right, type Story, story, wrong } from "./planted.ts";

// S6 and L1: server 0 dies, server 1 leads.
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
