/** Faults in the simulator itself: what it would then miss, nobody would notice. */
import type { Mutant } from "./mutant.ts";

const self = { random: { not: "it is in the simulator" }, invariants: ["self"] } as const;

export const SIMULATOR: readonly Mutant[] = [
  {
    id: "request-dies-with-sender",
    number: 50,
    what: "a request that is on its way is dropped when its sender is killed",
    file: "sim/cluster/connection.ts",
    find: "else world.add(world.now + way * MS, requests, null, () => database.arrive(call));",
    replace: "else world.add(world.now + way * MS, requests, from, () => database.arrive(call));",
    ...self,
    directed: "requestOutlivesSender",
  },
  {
    id: "reply-to-the-reborn",
    number: 51,
    what: "a reply goes to whichever start of the process is up",
    file: "sim/cluster/database.ts",
    find: "world.add(world.now + (after + way) * MS, call.route.replies, call.from, () => {",
    replace: "world.add(world.now + (after + way) * MS, call.route.replies, call.from.process.current, () => {",
    ...self,
    directed: "replyDiesWithAsker",
  },
  {
    id: "killed-lives-on",
    number: 52,
    what: "timers of a killed process still fire",
    file: "sim/world/process.ts",
    find: "end(): void {\n    this.#alive = false;",
    replace: "end(): void {",
    ...self,
    directed: "killedIsGone",
  },
  {
    id: "ties-by-number",
    number: 53,
    what: "what happens at one instant happens in the order in which it was planned",
    file: "sim/world/world.ts",
    find: "tie: mix(label.hash, label.count),",
    replace: "tie: this.#heap.length,",
    ...self,
    directed: "tiesAreExplored",
  },
  {
    id: "eight-ticks",
    number: 54,
    what: "the world waits eight ticks for what follows from an event",
    file: "sim/world/world.ts",
    find: `const end = drain === null ? this.#one(until, done) : this.#slice(until, done, drain);
          if (end !== null) resolve(end);
          else fromLoop(slice);`,
    replace: `const end = drain === undefined ? null : this.#one(until, done);
          let ticks = Promise.resolve();
          for (let tick = 0; tick < 8; tick++) ticks = ticks.then(() => {});
          if (end !== null) resolve(end);
          else void ticks.then(slice);`,
    ...self,
    directed: "eventsAreWhole",
  },
  {
    id: "replies-before-timers",
    number: 55,
    what: "a process that was paused hears what has arrived before its timers fire",
    file: "sim/world/process.ts",
    find: "[...timers, ...others].entries()",
    replace: "[...others, ...timers].entries()",
    ...self,
    directed: "timersComeFirst",
  },
  {
    id: "removals-unseen",
    number: 56,
    what: "the memory store's audit does not see that a job is removed",
    file: "sim/cluster/audit.ts",
    find: `touched.removed = what === "remove";`,
    replace: "",
    ...self,
    directed: "auditSeesAll",
  },
  {
    id: "updates-unseen",
    number: 56,
    what: "SQLite's audit does not see that a job is updated",
    file: "sim/cluster/audit.ts",
    find: "AFTER UPDATE ON main.",
    replace: "AFTER UPDATE OF id ON main.",
    ...self,
    directed: "auditSeesAll",
  },
  {
    id: "one-randomness",
    number: 57,
    what: "a process that is started again draws the same random numbers as before",
    file: "sim/world/process.ts",
    find: "this.#random = new Stream(",
    replace: "this.#random = ((seed: number, _: string) => new Stream(seed, process.name))(",
    ...self,
    directed: "randomnessIsSplit",
  },
  {
    id: "violations-are-swallowed",
    number: 59,
    what: "what a checker objects to ends as the error of a handler",
    file: "sim/run/history.ts",
    find: "this.#onViolation(violation);",
    replace: "throw violation;",
    ...self,
    directed: "violationsEndRuns",
  },
  {
    id: "no-bound",
    number: 58,
    what: "a run in which jobs do not end passes",
    file: "sim/run/run.ts",
    find: "this.#guarded(() => this.#reportOpen());",
    replace: "",
    ...self,
    directed: "endlessIsReported",
  },
];
