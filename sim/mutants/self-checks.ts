/** What the simulator itself must keep to, or its runs prove nothing. Each throws when it does not. */
import { defineJob, type Handler } from "../../engine/job.ts";
import { Database } from "../cluster/database.ts";
import { FaultInjector } from "../cluster/faults.ts";
import { History, type HistoryEvent, Violation } from "../run/history.ts";
import { type MakeProgram, planned } from "../run/program.ts";
import { OPEN, run } from "../run/run.ts";
import { EMPTY_SCENARIO, PLAIN_JOB, type Scenario } from "../scenario/scenario.ts";
import { type Incarnation, SimProcess } from "../world/process.ts";
import { World } from "../world/world.ts";

const QUIET = { mark: () => {}, broken: () => {}, buggify: () => false, stands: () => {} };
const MS = 1_000;

function expect(ok: boolean, what: string): asserts ok {
  if (!ok) throw new Error(what);
}

/** A world with a database and one process. */
async function small(seed = 1) {
  const world = new World(seed);
  const history = new History([], (violation) => world.fail(violation));
  const faults = new FaultInjector(world, history);
  const database = new Database({ world, history, faults, latency: 2, observer: QUIET, onReply: () => {} });
  await database.open(OPEN.memory);
  const process = new SimProcess(world, "n0", QUIET);
  const at = (ms: number, fn: () => void): void => {
    world.add(ms * MS, world.label(`check/${ms}`), null, fn);
  };
  return { world, database, process, at, run: (ms: number) => world.run(ms * MS, () => false) };
}

/** A request that has been sent arrives, whatever becomes of its sender. */
async function requestOutlivesSender(): Promise<void> {
  const { database, process, at, run } = await small();
  const from = process.start();
  at(1, () => {
    void database.connect(from).pauseQueue("a");
    process.kill();
  });
  await run(100);
  const queues = await database.store.queues();
  expect(
    queues.some(({ name, paused }) => name === "a" && paused),
    "a request was dropped because its sender had been killed",
  );
}

/** A process that was started anew hears nothing of what its predecessor has asked. */
async function replyDiesWithAsker(): Promise<void> {
  const { database, process, at, run } = await small();
  const from = process.start();
  let answered = false;
  at(1, () => {
    void database
      .connect(from)
      .counts()
      .then(() => {
        answered = true;
      });
    process.kill();
    process.start();
  });
  await run(100);
  expect(!answered, "a process got the reply to a call of its predecessor");
}

/** Nothing of a killed process runs any more. */
async function killedIsGone(): Promise<void> {
  const { process, at, run } = await small();
  const from = process.start();
  let fired = false;
  from.timer(10, () => {
    fired = true;
  });
  at(5, () => process.kill());
  await run(100);
  expect(!fired, "a timer of a killed process has fired");
}

/** What happens at one instant happens in any order, and what has nothing to do with it does not change that. */
async function tiesAreExplored(): Promise<void> {
  const orders = new Set<string>();
  for (let seed = 0; seed < 16; seed++) {
    const order = await orderOf(seed, ["a", "b"]);
    orders.add(order);
    const among = await orderOf(seed, ["c", "a", "d", "b"]);
    expect(among.replace(/[cd]/g, "") === order, "events change the order of others that they have nothing to do with");
  }
  expect(orders.size === 2, "what happens at one instant always happens in the same order");
}

async function orderOf(seed: number, names: readonly string[]): Promise<string> {
  const world = new World(seed);
  let order = "";
  for (const name of names) {
    world.add(MS, world.label(name), null, () => {
      order += name;
    });
  }
  await world.run(2 * MS, () => false);
  return order;
}

/** All that follows from an event has run before the next one happens, however long it takes. */
async function eventsAreWhole(): Promise<void> {
  const world = new World(1);
  let steps = 0;
  let seen = -1;
  const follow = async (): Promise<void> => {
    for (; steps < 200; steps++) await null;
  };
  world.add(MS, world.label("first"), null, () => void follow());
  world.add(MS + 1, world.label("second"), null, () => {
    seen = steps;
  });
  await world.run(2 * MS, () => false);
  expect(seen === 200, `an event came after ${seen} of 200 steps that had to come before it`);
}

/** A process that was paused catches up as Node does: timers in the order in which they were due, then what has arrived. */
async function timersComeFirst(): Promise<void> {
  const { world, process, at, run } = await small();
  const from: Incarnation = process.start();
  const order: string[] = [];
  const note = (name: string) => (): void => {
    order.push(name);
  };
  at(1, () => process.pause());
  world.add(5 * MS, world.label("reply"), from, note("reply"));
  from.timer(20, note("late timer"));
  from.timer(10, note("early timer"));
  at(50, () => process.resume());
  await run(100);
  const expected = "early timer, late timer, reply";
  expect(order.join(", ") === expected, `after a pause came ${order.join(", ")}, not ${expected}`);
}

const RETENTION: Scenario = {
  ...EMPTY_SCENARIO,
  duration: 200_000,
  config: { ...EMPTY_SCENARIO.config, retention: 60_000 },
  jobs: [PLAIN_JOB, PLAIN_JOB],
};

/** Every change of a job's row is seen from inside the store, its removal too, and the same on each store. */
async function auditSeesAll(): Promise<void> {
  const seen: string[] = [];
  for (const store of ["memory", "sqlite"] as const) {
    const states: string[] = [];
    const { failure } = await run(RETENTION, {
      store,
      checkers: () => [
        {
          name: "audit",
          see(event) {
            if (event.type !== "commit") return;
            for (const { id, before, after } of event.changes) {
              states.push(`${id}: ${before?.state ?? "nothing"} → ${after?.state ?? "nothing"}`);
            }
          },
        },
      ],
    });
    expect(failure === null, `a run without faults fails: ${failure?.message}`);
    const gone = states.filter((state) => state.endsWith("succeeded → nothing")).length;
    expect(gone === RETENTION.jobs.length, `${gone} of ${RETENTION.jobs.length} removals were seen`);
    seen.push(states.join("; "));
  }
  expect(seen[0] === seen[1], `the stores tell of different changes:\n${seen.join("\n")}`);
}

/** Each start of a process draws random numbers of its own, and the same ones in every run. */
async function randomnessIsSplit(): Promise<void> {
  const draw = async (): Promise<string[]> => {
    const { process } = await small();
    const hex: string[] = [];
    for (let start = 0; start < 2; start++) {
      hex.push(process.start().randomHex(8));
      process.kill();
    }
    return hex;
  };
  const [once, again] = [await draw(), await draw()];
  expect(once[0] !== once[1], "two starts of a process draw the same random numbers");
  expect(once.join() === again.join(), "two runs draw different random numbers");
}

/** A checker that objects to what a handler does ends the run: the engine does not get to see it. */
async function violationsEndRuns(): Promise<void> {
  const object = (event: HistoryEvent): void => {
    if (event.type === "start") throw new Violation("S0", "a handler has started");
  };
  const scenario = { ...EMPTY_SCENARIO, jobs: [PLAIN_JOB] };
  const { failure } = await run(scenario, { store: "memory", checkers: () => [{ name: "objects", see: object }] });
  expect(failure?.invariant === "S0", `a violation: ${failure?.message ?? "no failure"}`);
}

/** A scenario whose jobs can't end is reported, not waited for. */
async function endlessIsReported(): Promise<void> {
  const other = defineJob("other").handler(async () => {}) as Handler;
  const never: MakeProgram = (deps) => Object.setPrototypeOf({ handlers: () => [other] }, planned(deps));
  const { failure } = await run({ ...EMPTY_SCENARIO, jobs: [PLAIN_JOB] }, { store: "memory", program: never });
  expect(failure?.invariant === "L4", `a job that nobody runs: ${failure?.message ?? "no failure"}`);
}

export const SELF_CHECKS = {
  requestOutlivesSender,
  replyDiesWithAsker,
  killedIsGone,
  tiesAreExplored,
  eventsAreWhole,
  timersComeFirst,
  auditSeesAll,
  randomnessIsSplit,
  violationsEndRuns,
  endlessIsReported,
} as const;

export type SelfCheck = keyof typeof SELF_CHECKS;
