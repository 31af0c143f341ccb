/** Faults in leadership, recurring jobs, waiting and clocks. */
import type { RecurringPlan } from "../scenario/scenario.ts";
import type { Mutant } from "./mutant.ts";
import { job, jobs, runs, scenario, servers } from "./plans.ts";

const everyMinute: RecurringPlan = {
  ...{ at: 0, cron: "* * * * *", timeZone: "UTC", misfire: "all", overlap: true },
  run: runs(500),
};

const short = scenario({ duration: 20_000, jobs: [job(1_000, { at: 1_000 })] });
const twoServers = scenario({ duration: 60_000, servers: servers(2), jobs: [job(1_000, { at: 5_000 })] });

/** A firing is late: the leader tries again, and then both arrive. */
const firingTwice = scenario({
  duration: 200_000,
  recurring: [everyMinute],
  faults: [{ type: "delayRequest", target: 0, op: "fireRecurring", nth: 0, at: 0, for: 20_000 }],
});

const swarm = { random: "swarm" } as const;

export const LEADER: readonly Mutant[] = [
  {
    id: "rescue-at-once",
    number: 8,
    what: "a new leader gives nobody time to beat again before it declares servers dead",
    file: "engine/server/server.ts",
    find: "rescueDelay: deadAfter + heartbeatInterval,",
    replace: "rescueDelay: 0,",
    invariants: ["S6"],
    ...swarm,
    directed: scenario({
      duration: 150_000,
      servers: servers(3),
      jobs: jobs(6, (index) => job(100_000, { at: 3_000 + index })),
      faults: [{ type: "databaseDown", at: 8_000, for: 70_000 }],
    }),
  },
  {
    id: "lease-for-all",
    number: 9,
    what: "the leader's lease is given to whoever asks (memory)",
    file: "engine/stores/memory/coordinate.ts",
    find: "if (unexpired && current.holder !== holder) return { held: false, heldFor: 0 };",
    replace: "",
    invariants: ["S16"],
    ...swarm,
    directed: twoServers,
  },
  {
    id: "lease-for-all-sql",
    number: 9,
    what: "the leader's lease is given to whoever asks (SQLite)",
    file: "engine/stores/sqlite/coordinate.ts",
    find: `if (other) return NOT_HELD;
  return db.write(({ now }) => {
    const lease = lasting(now);
    if (lease !== null && lease[0] !== holder) return NOT_HELD;`,
    replace: `return db.write(({ now }) => {
    const lease = lasting(now);`,
    invariants: ["S16"],
    ...swarm,
    directed: twoServers,
  },
  {
    id: "recurring-by-wall-clock",
    number: 10,
    what: "a leader fires recurring jobs by its own wall clock",
    file: "engine/server/recurring.ts",
    find: "const { now, rows, nextIn } = due;",
    replace: "const { rows, nextIn } = due;\n    const now = new Date(runtime.now());",
    invariants: ["S15"],
    random: "recurring",
    directed: scenario({
      duration: 200_000,
      servers: servers(1, () => ({ skew: 600_000 })),
      recurring: [everyMinute],
    }),
  },
  {
    id: "fire-any-version",
    number: 17,
    what: "an occurrence is fired whether or not another call has fired it (memory)",
    file: "engine/stores/memory/recurring.ts",
    find: "assertVersion(firing.id, firing.version, row.version);",
    replace: "",
    invariants: ["S15"],
    random: "recurring",
    directed: firingTwice,
  },
  {
    id: "fire-any-version-sql",
    number: 17,
    what: "an occurrence is fired whether or not another call has fired it (SQLite)",
    file: "engine/stores/sqlite/recurring.ts",
    find: "assertVersion(id, version, actual);",
    replace: "",
    invariants: ["S15"],
    random: "recurring",
    directed: firingTwice,
  },
  {
    id: "no-polling",
    number: 20,
    what: "a server finds work only when it is told of it",
    file: "engine/server/claimer.ts",
    find: "this.#lookAt = Math.min(runtime.monotonic() + Math.min(pollInterval, reply?.nextIn ?? pollInterval), this.#hint);",
    replace: "this.#lookAt = this.#hint;",
    invariants: ["L4", "L5"],
    ...swarm,
    directed: scenario({
      duration: 60_000,
      jobs: [job(1_000, { at: 10_000 })],
      faults: [{ type: "loseEvents", at: 5_000, for: 60_000 }],
    }),
  },
  {
    id: "deadline-timers-stay",
    number: 22,
    what: "the timer of a call that was answered in time is not cancelled",
    file: "engine/async.ts",
    find: "cancel();\n      signal?.removeEventListener",
    replace: "signal?.removeEventListener",
    invariants: ["S19"],
    ...swarm,
    directed: scenario({ duration: 20_000, jobs: [job(1_000, { at: 1_000 })] }),
  },
  {
    id: "real-clock",
    number: 23,
    what: "the fence goes by the real clock",
    file: "engine/server/heartbeat.ts",
    find: "const left = this.#lastSent + fenceAfter - runtime.monotonic();",
    replace: "const left = this.#lastSent + fenceAfter - performance.now() % 1_000;",
    invariants: ["tripwire"],
    ...swarm,
    directed: short,
  },
  {
    id: "real-randomness",
    number: 24,
    what: "a leader's renewals are spread by real randomness",
    file: "engine/server/leader.ts",
    find: "await sleep(runtime, ttl / 3, signal);",
    replace: "await sleep(runtime, (ttl / 3) * (0.9 + Math.random() / 10), signal);",
    invariants: ["tripwire"],
    ...swarm,
    directed: short,
  },
  {
    id: "state-of-the-process",
    number: 24,
    what: "what a leader does depends on what others in its process have done",
    file: "engine/server/leader.ts",
    find: "await sleep(runtime, ttl / 3, signal);",
    replace: "await sleep(runtime, ttl / 3 + ((Leader.renewals = (Leader.renewals ?? 0) + 1) % 7), signal);",
    invariants: ["determinism"],
    random: { not: "only the same scenario twice shows it" },
    directed: short,
  },
];
