/** The calls of a store as commands, each with what the model makes of it. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { type InsertedJob, JOB_STATES, OUTCOME_STATES, type ServerInfo, type Writer } from "../../engine/store.ts";
import { outcome } from "../conformance/support.ts";
import type { World } from "./model.ts";
import { both, type Command, command, compareViews, ROLLBACK } from "./model-command.ts";
import * as draws from "./model-draws.ts";
import { age, delay, filter, filterOf, kind, queue, server } from "./model-draws.ts";
import * as jobs from "./model-jobs.ts";
import * as operators from "./model-operators.ts";

export const serverInfo = (id: string): ServerInfo => ({
  ...{ id, hostname: "host", pid: 1, version: "1", kinds: [], workers: 4, deadAfter: 30_000 },
  queues: id === "s1" ? ["a"] : ["c"],
});

/** `back` is drawn for `whileHeld`; null = whoever holds what. */
async function insert(world: World, writer: Writer, drawn: draws.DrawnJobs, back: number | null): Promise<void> {
  const given = draws.jobsOf(world, drawn);
  const whileHeld = back === null ? undefined : draws.claimOf(world, back);
  const call = () => writer.insert(given, whileHeld && { whileHeld });
  await both("insert", call, (found) => {
    const added = Array.isArray(found) ? (found as InsertedJob[]).filter(({ duplicate }) => !duplicate) : [];
    const fresh = added.map(({ id }) => id);
    return jobs.insert(world, given, fresh, whileHeld);
  });
}

const inserting = command(
  "insert",
  fc.record({ drawn: draws.jobs, back: draws.seldom(draws.claim) }),
  ({ drawn, back }) =>
    (world, { store }) =>
      insert(world, store, drawn, back),
);

const transacting = command(
  "transaction",
  fc.record({
    ...{ calls: fc.array(draws.jobs, { maxLength: 3 }), held: draws.seldom(draws.claim) },
    ...{ back: draws.claim, rollsBack: fc.boolean() },
  }),
  ({ calls, held, back, rollsBack }) =>
    async (world, { store }) => {
      const before = structuredClone(world);
      const transaction = store.transaction(async (writer) => {
        for (const drawn of calls) await insert(world, writer, drawn, held);
        const ref = draws.claimOf(world, back);
        const params = { inside: `${world.lastId}` };
        await both(
          "setParams",
          () => writer.setParams(ref, params),
          () => jobs.setParams(world, ref, params),
        );
        if (rollsBack) throw ROLLBACK;
      });
      if (!rollsBack) return transaction;
      await assert.rejects(transaction, ROLLBACK);
      Object.assign(world, before, { touched: world.touched });
    },
);

const claiming = command(
  "claim",
  fc.record({
    ...{ server, sequence: fc.nat(99), limit: fc.integer({ min: 1, max: 5 }) },
    queues: fc.oneof(fc.constant(["a", "b"]), fc.array(queue, { maxLength: 3 })),
    kinds: fc.oneof(fc.constant([]), fc.array(kind, { maxLength: 2 })),
  }),
  (query) =>
    (world, { store }) =>
      both(
        "claim",
        () => store.claim(query),
        () => jobs.claim(world, query),
      ),
);

const finishing = command(
  "finish",
  fc.record({
    ...{ server, resend: fc.boolean() },
    ends: fc.array(
      fc.record({
        ...{ back: draws.claim, state: fc.constantFrom(...OUTCOME_STATES), delay, refund: fc.boolean() },
        reason: fc.constantFrom(null, "retry", "shutdown"),
        stale: fc.integer({ min: 0, max: 3 }).map((number) => number === 3),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  }),
  ({ server, resend, ends }) =>
    async (world, { store }) => {
      const outcomes = ends.map(({ back, state, stale, reason, ...fields }) => {
        const { id, claim } = draws.claimOf(world, back);
        const ref = { id, claim: stale ? claim - 1 : claim };
        return outcome(ref, state, { ...fields, reason, error: reason && "failed", output: `"by ${state}"` });
      });
      for (const what of resend ? ["finish", "finish, sent again"] : ["finish"]) {
        await both(
          what,
          () => store.finish(server, outcomes),
          () => jobs.finish(world, server, outcomes),
        );
      }
    },
);

const settingParams = command("setParams", fc.record({ back: draws.claim, value: fc.nat(9) }), ({ back, value }) => {
  const params = { [`key ${value % 2}`]: `${value}` };
  return (world, { store }) => {
    const ref = draws.claimOf(world, back);
    return both(
      "setParams",
      () => store.setParams(ref, params),
      () => jobs.setParams(world, ref, params),
    );
  };
});

const registering = command("register", server, (id) => (world, { store }) => {
  const info = serverInfo(id);
  return both(
    "register",
    () => store.register(info),
    () => operators.register(world, info),
  );
});

const beating = command("heartbeat", fc.record({ server, running: fc.nat(4) }), (beat) => (world, { store }) => {
  const call = async (): Promise<unknown> => {
    const { leases, ...reply } = await store.heartbeat(beat);
    return { ...reply, leases: leases.toSorted((a, b) => a.id - b.id) };
  };
  return both("heartbeat", call, () => operators.heartbeat(world, beat));
});

const unregistering = command(
  "unregister",
  server,
  (id) =>
    (world, { store }) =>
      both(
        "unregister",
        () => store.unregister(id),
        () => operators.unregister(world, id),
      ),
);

const leading = command("lead", server, (holder) => (world, { store }) => {
  const query = { name: "leader", holder, ttl: 20_000 };
  return both(
    "lead",
    () => store.lead(query),
    () => operators.lead(world, query),
  );
});

const resigning = command("resign", server, (holder) => (world, { store }) => {
  const query = { name: "leader", holder };
  return both(
    "resign",
    () => store.resign(query),
    () => operators.resign(world, query),
  );
});

const listingOrphans = command(
  "orphans",
  fc.constantFrom(1, 100),
  (limit) =>
    (world, { store }) =>
      both(
        "orphans",
        async () => (await store.orphans(limit)).map(({ lastReason, ...orphan }) => ({ ...orphan, lastReason })),
        () => operators.orphans(world, limit),
      ),
);

const deleting = command("delete", filter, (drawn) => (world, { store }) => {
  const given = filterOf(world, drawn);
  return both(
    "delete",
    () => store.delete(given),
    () => operators.deleteJobs(world, given),
  );
});

const requeueing = command(
  "requeue",
  filter,
  (drawn) =>
    (world, { store }) => {
      const given = filterOf(world, drawn);
      return both(
        "requeue",
        () => store.requeue(given),
        () => operators.requeue(world, given),
      );
    },
  (drawn, world) => operators.isDecided(world, filterOf(world, drawn)),
);

const pausing = command(
  "pause",
  queue,
  (name) =>
    (world, { store }) =>
      both(
        "pauseQueue",
        () => store.pauseQueue(name),
        () => operators.pauseQueue(world, name),
      ),
);

const resuming = command(
  "resume",
  queue,
  (name) =>
    (world, { store }) =>
      both(
        "resumeQueue",
        () => store.resumeQueue(name),
        () => operators.resumeQueue(world, name),
      ),
);

const sweeping = command(
  "sweep",
  fc.constant(1_000),
  (most) =>
    (world, { store }) =>
      both(
        "sweep",
        () => store.sweep(most),
        () => operators.sweep(world),
      ),
);

const pruning = command("prune", fc.record({ succeeded: age, deleted: age, failed: age }), (ages) => {
  const query = { ...ages, servers: 60_000, stats: 1e12, limit: 1_000 };
  return (world, { store }) =>
    both(
      "prune",
      () => store.prune(query),
      () => operators.prune(world, query),
    );
});

const passing = command("time passes", fc.constantFrom(1, 500, 20_000, 31_000), (ms) => (world, { store, time }) => {
  world.now += ms;
  return both(
    "now",
    () => time.advance(ms).then(() => store.now()),
    () => new Date(world.now),
  );
});

const looking = command(
  "look",
  fc.constantFrom(...JOB_STATES),
  (state) =>
    (world, { store }) =>
      compareViews(world, store, [state]),
);

/** How often each is drawn, compared with the others. */
const WEIGHTS: readonly (readonly [number, fc.Arbitrary<Command>])[] = [
  ...([
    [12, inserting],
    [2, transacting],
    [14, claiming],
    [12, finishing],
    [6, passing],
  ] as const),
  ...([
    [2, settingParams],
    [2, deleting],
    [4, requeueing],
    [2, pruning],
    [2, sweeping],
    [1, looking],
  ] as const),
  ...([
    [3, registering],
    [1, unregistering],
    [4, beating],
    [1, listingOrphans],
    [1, leading],
    [1, resigning],
  ] as const),
  ...([
    [1, pausing],
    [2, resuming],
  ] as const),
];

/** As `fc.commands` takes them, which draws each as often as the others. */
export const COMMANDS: fc.Arbitrary<Command>[] = WEIGHTS.flatMap(([weight, drawn]) => Array(weight).fill(drawn));
