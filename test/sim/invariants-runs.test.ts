/** Each checker finds what is wrong in a small history, and nothing in the same history when it is right: runs, fences, claims in time and shutdowns. */
import { DEFAULT_CONFIG, PLAIN_JOB, PLAIN_SERVER } from "../../sim/scenario/scenario.ts";
import { right, running, type Story, story, wrong } from "./planted.ts";

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
