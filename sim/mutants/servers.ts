/** Faults in heartbeats, fences and rescue. */
import type { Mutant } from "./mutant.ts";
import { job, jobs, partition, scenario, servers } from "./plans.ts";

/** A server is cut off for longer than others wait for it, with a job that takes longer still. */
const cutOff = scenario({
  duration: 220_000,
  servers: servers(2),
  jobs: [job(300_000, { at: 100 })],
  faults: [partition(0, 6_000, 200_000)],
});

const crashTwice = scenario({
  duration: 220_000,
  jobs: [job(40_000, { at: 100 })],
  faults: [
    { type: "crash", target: 0, at: 5_000, restartAfter: 1_000 },
    { type: "crash", target: 0, at: 100_000, restartAfter: 1_000 },
  ],
});

/** The leader stays; the other server is silent for less than it may be. */
const shortSilence = scenario({
  duration: 180_000,
  servers: servers(2),
  jobs: jobs(8, (index) => job(150_000, { at: 4_000 + index })),
  faults: [partition(1, 80_000, 45_000)],
});

const beatOfTheDead = scenario({
  duration: 150_000,
  servers: servers(2),
  jobs: [job(20_000, { at: 2_000 })],
  faults: [
    { type: "delayRequest", target: 0, op: "heartbeat", nth: 0, at: 4_000, for: 100_000 },
    { type: "crash", target: 0, at: 7_000, restartAfter: null },
  ],
});

const swarm = { random: "swarm" } as const;

export const SERVERS: readonly Mutant[] = [
  {
    id: "no-fence",
    number: 2,
    what: "a server that can't reach the store goes on with its jobs",
    file: "engine/server/heartbeat.ts",
    find: `for (const attempt of attempts) this.#abort(attempt, "the server can't prove that it still holds this job");`,
    replace: "",
    invariants: ["S4", "S5"],
    ...swarm,
    directed: cutOff,
  },
  {
    id: "fence-from-reply",
    number: 3,
    what: "silence is counted from when a beat was answered, not from when it was sent",
    file: "engine/server/heartbeat.ts",
    find: "this.#alive(sent);\n      this.#reconcile(reply, beat);",
    replace: "this.#alive(runtime.monotonic());\n      this.#reconcile(reply, beat);",
    invariants: ["S5"],
    ...swarm,
    directed: scenario({
      duration: 130_000,
      jobs: [job(300_000, { at: 100 })],
      faults: [
        { type: "delayReply", target: 0, op: "heartbeat", nth: 0, at: 8_000, for: 4_500 },
        partition(0, 14_700, 100_000),
      ],
    }),
  },
  {
    id: "fenced-attempt-stays",
    number: 4,
    what: "a job that a fence has ended still counts as running here, and is never handed back",
    file: "engine/server/runner.ts",
    find: "attempts.remove(attempt);\n      return;",
    replace: "return;",
    invariants: ["L4", "S19"],
    ...swarm,
    directed: scenario({ duration: 90_000, jobs: [job(100_000, { at: 100 })], faults: [partition(0, 6_000, 57_000)] }),
  },
  {
    id: "beat-of-the-dead",
    number: 7,
    what: "a heartbeat brings a dead server back (memory)",
    file: "engine/stores/memory/coordinate.ts",
    find: "const server = livingServer(data, beat.server);",
    replace: "const server = data.servers.get(beat.server);\n  if (server) server.deadAt = null;",
    invariants: ["S2", "S6"],
    random: "safety",
    directed: beatOfTheDead,
  },
  {
    id: "beat-of-the-dead-sql",
    number: 7,
    what: "a heartbeat brings a dead server back (SQLite)",
    file: "engine/stores/sqlite/coordinate.ts",
    find: "SET heartbeat_at = ?2, running = ?3 WHERE id = ?1 AND dead_at IS NULL",
    replace: "SET heartbeat_at = ?2, running = ?3, dead_at = NULL WHERE id = ?1",
    invariants: ["S2", "S6"],
    random: "safety",
    directed: beatOfTheDead,
  },
  {
    id: "half-a-silence",
    number: 11,
    what: "a server is dead after half the time that it was promised (memory)",
    file: "engine/stores/memory/coordinate.ts",
    find: "now - server.heartbeatAt > server.info.deadAfter",
    replace: "now - server.heartbeatAt > server.info.deadAfter / 2",
    invariants: ["S4", "S6"],
    ...swarm,
    directed: shortSilence,
  },
  {
    id: "half-a-silence-sql",
    number: 11,
    what: "a server is dead after half the time that it was promised (SQLite)",
    file: "engine/stores/sqlite/coordinate.ts",
    find: `AND heartbeat_at + dead_after < ? LIMIT 1";
const DECLARE_DEAD = "UPDATE kiln_servers SET dead_at = ?1 WHERE dead_at IS NULL AND heartbeat_at + dead_after < ?1";`,
    replace: `AND heartbeat_at + dead_after / 2 < ? LIMIT 1";
const DECLARE_DEAD = "UPDATE kiln_servers SET dead_at = ?1 WHERE dead_at IS NULL AND heartbeat_at + dead_after / 2 < ?1";`,
    invariants: ["S4", "S6"],
    ...swarm,
    directed: shortSilence,
  },
  {
    id: "second-rescue-at-once",
    number: 13,
    what: "a job that was rescued twice in a row starts again without a pause",
    file: "engine/rules/rescue.ts",
    find: `const again = orphan.lastReason === ("orphaned" satisfies Reason);`,
    replace: "const again = false;",
    invariants: ["S8"],
    random: "lite",
    directed: crashTwice,
  },
];
