import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { ascending, reasonsOf, record } from "../conformance/support.ts";
import { assertReportedOnce, type Fault, SECOND, setup } from "./completer-support.ts";

/** Times between calls of `finish`, milliseconds. */
const gaps = (calls: readonly { readonly at: number }[]): number[] =>
  calls.slice(1).map(({ at }, index) => at - (calls[index]?.at ?? 0));

describe("batches", () => {
  test("hold all that ended in one turn, in the order of the jobs, and need no time", async () => {
    const world = await setup(40);
    for (const job of [...world.jobs].reverse()) await world.submit(job);
    assert.deepEqual(world.store.calls, [], "not before the turn is over");
    assert.equal(world.completer.pending, 40);
    const start = world.time.now;
    await world.time.advance(0);
    const ids = ascending(world.jobs.map(({ id }) => id));
    assert.deepEqual(world.store.calls, [{ at: start, server: "s1", ids }]);
    assertReportedOnce(world, "succeeded");
    assert.deepEqual(await world.states(), { succeeded: 40 });
    assert.equal(world.completer.pending, 0);
    assert.equal(world.completer.oldest, 0);
    assert.equal(world.time.armed, 0);
  });

  test("are of at most 500, back to back, one call in flight, each sorted", async () => {
    const world = await setup(1_200);
    const shuffled = [...world.jobs].sort((a, b) => ((a.id * 7_919) % 1_201) - ((b.id * 7_919) % 1_201));
    world.store.always = 20;
    for (const job of shuffled) await world.submit(job);
    await world.time.advance(60);
    assert.deepEqual(
      world.store.calls.map(({ ids }) => ids.length),
      [500, 500, 200],
    );
    assert.deepEqual(gaps(world.store.calls), [20, 20]);
    for (const { ids } of world.store.calls) assert.deepEqual(ids, ascending(ids));
    assert.equal(world.store.mostInFlight, 1);
    assertReportedOnce(world, "succeeded");
  });

  test("gather what ends while a call is in flight", async () => {
    const world = await setup(30);
    world.store.always = 100;
    for (const [index, job] of world.jobs.entries()) {
      await world.submit(job);
      if (index < 10) await world.time.advance(9);
    }
    await world.time.advance(SECOND);
    assert.deepEqual(
      world.store.calls.map(({ ids }) => ids.length),
      [1, 29],
    );
    assert.deepEqual(gaps(world.store.calls), [100]);
    assertReportedOnce(world, "succeeded");
  });

  test("report the state that the job is in now", async () => {
    const world = await setup(4);
    const [retried, snoozed, failed, cancelled] = world.jobs as [never, never, never, (typeof world.jobs)[number]];
    await world.store.delete({ ids: [cancelled.id] });
    await world.submit(retried, "scheduled", { delay: 5_000, reason: "retry" });
    await world.submit(snoozed, "scheduled", { delay: 0, refund: true, reason: "snoozed" });
    await world.submit(failed, "failed", { reason: "permanent" });
    await world.submit(cancelled, "scheduled", { delay: 5_000, reason: "retry" });
    await world.time.advance(0);
    assert.deepEqual([...world.decided.values()].flat(), ["scheduled", "enqueued", "failed", "deleted"]);
  });
});

describe("a store that fails", () => {
  test("loses nothing: four failed calls, and every job has succeeded at its first attempt", async () => {
    const world = await setup(40);
    world.store.faults.push("fails", "fails", "fails", "fails");
    for (const job of world.jobs) await world.submit(job);
    await world.time.advance(SECOND);
    assert.deepEqual(gaps(world.store.calls), [10, 20, 40, 80]);
    assertReportedOnce(world, "succeeded");
    for (const { id } of world.jobs) assert.equal((await record(world.store, id)).attempt, 1);
    assert.equal(world.faults.count, 4);
    assert.equal(world.completer.pending, 0);
  });

  test("is tried again after 10 ms, doubling to 5 s, and after a success after 10 ms again", async () => {
    const world = await setup(2);
    const [first, second] = world.jobs as [(typeof world.jobs)[number], (typeof world.jobs)[number]];
    world.store.faults.push(...Array.from({ length: 13 }, (): Fault => "fails"));
    await world.submit(first);
    await world.time.until(() => world.decided.size === 1, 60 * SECOND);
    const doubling = [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_000, 5_000, 5_000, 5_000];
    assert.deepEqual(gaps(world.store.calls), doubling);
    world.store.calls.length = 0;
    world.store.faults.push("fails");
    await world.submit(second);
    await world.time.advance(SECOND);
    assert.deepEqual(gaps(world.store.calls), [10]);
    assertReportedOnce(world, "succeeded");
  });

  test("counts as working again once it has decided on one outcome of several", async () => {
    const world = await setup(2);
    const [locked] = world.jobs as [(typeof world.jobs)[number]];
    const busy: Fault = ({ id }) => (id === locked.id ? { status: "busy" } : null);
    world.store.faults.push("fails", "fails", "fails", busy, "fails", "fails");
    for (const job of world.jobs) await world.submit(job);
    await world.time.advance(SECOND);
    assert.deepEqual(gaps(world.store.calls), [10, 20, 40, 0, 10, 20]);
    assertReportedOnce(world, "succeeded");
  });

  test("makes `pending` and `oldest` say what waits, and for how long", async () => {
    const world = await setup(3);
    world.store.always = "fails";
    const [first, ...others] = world.jobs;
    assert.ok(first);
    await world.submit(first);
    await world.time.advance(30 * SECOND);
    for (const job of others) await world.submit(job);
    await world.time.advance(SECOND);
    assert.deepEqual([world.completer.pending, world.completer.oldest], [3, 31 * SECOND]);
    world.store.always = null;
    await world.time.advance(5 * SECOND);
    assert.deepEqual([world.completer.pending, world.completer.oldest], [0, 0]);
  });

  test("that does not answer is asked again after 15 seconds", async () => {
    const world = await setup(5);
    world.store.faults.push("hangs");
    for (const job of world.jobs) await world.submit(job);
    await world.time.advance(14_999);
    assert.equal(world.store.calls.length, 1);
    await world.time.advance(SECOND);
    assert.deepEqual(gaps(world.store.calls), [15_010]);
    assertReportedOnce(world, "succeeded");
    assert.deepEqual(
      world.lines.map(([, , fields]) => fields),
      [{ error: "DeadlineError: finish did not answer within 15000 ms" }],
    );
    assert.equal(world.time.armed, 0);
  });

  test("whose reply is lost has stored the outcomes, which are stale when they come again", async () => {
    const world = await setup(3);
    world.store.faults.push("reply lost");
    for (const job of world.jobs) await world.submit(job);
    await world.time.advance(SECOND);
    assert.equal(world.store.calls.length, 2);
    assertReportedOnce(world, "stale");
    assert.deepEqual(await world.states(), { succeeded: 3 });
  });

  test("that answers for too few outcomes is asked about the others again", async () => {
    const world = await setup(3);
    const finish = world.store.finish.bind(world.store);
    world.store.finish = async (server, outcomes) => finish(server, outcomes.slice(0, 1));
    for (const job of world.jobs) await world.submit(job);
    await world.time.advance(SECOND);
    assertReportedOnce(world, "succeeded");
  });
});

describe("an outcome", () => {
  test("whose claim was lost is reported as such, and the others of its batch are stored", async () => {
    const world = await setup(3);
    const [lost] = world.jobs as [(typeof world.jobs)[number]];
    for (const job of world.jobs) await world.submit(job === lost ? { ...job, claim: job.claim - 1 } : job);
    await world.time.advance(0);
    assert.deepEqual([...world.decided.values()].flat(), ["stale", "succeeded", "succeeded"]);
    assert.equal((await record(world.store, lost.id)).state, "processing");
    assert.equal(world.store.calls.length, 1);
  });

  test("that is busy is sent again until it is not, and holds up no other", async () => {
    const world = await setup(3);
    const [locked] = world.jobs as [(typeof world.jobs)[number]];
    const busy: Fault = ({ id }) => (id === locked.id ? { status: "busy" } : null);
    world.store.faults.push(busy, busy, busy);
    for (const job of world.jobs) await world.submit(job);
    await world.time.advance(0);
    assert.deepEqual(
      [...world.decided.keys()],
      world.jobs.slice(1).map(({ id }) => id),
    );
    assert.equal(world.completer.pending, 1);
    await world.time.advance(SECOND);
    assertReportedOnce(world, "succeeded");
    assert.deepEqual(
      world.store.calls.map(({ ids }) => ids.length),
      [3, 1, 1, 1],
    );
    assert.equal(world.faults.count, 0, "it is no fault");
  });

  test("that the store rejects ends as failed, with the rule as its error and nothing else kept", async () => {
    const world = await setup(2);
    const [bad, good] = world.jobs as [(typeof world.jobs)[number], (typeof world.jobs)[number]];
    await world.submit(bad, "succeeded", { output: "no JSON", refund: true, trace: "at somewhere" });
    await world.submit(good);
    await world.time.advance(SECOND);
    assert.deepEqual(
      [...world.decided],
      [
        [good.id, ["succeeded"]],
        [bad.id, ["failed"]],
      ],
    );
    const { state, attempt, output, history } = await record(world.store, bad.id);
    assert.deepEqual([state, attempt, output], ["failed", 1, null]);
    assert.deepEqual(
      history.map(({ reason, error, trace }) => [reason, error, trace]),
      [["rejected", "output must be JSON", null]],
    );
  });

  test("that would be repeated later but is rejected fails too, without a delay", async () => {
    const world = await setup(1);
    const [job] = world.jobs as [(typeof world.jobs)[number]];
    await world.submit(job, "scheduled", { delay: Number.NaN, refund: true, reason: "retry" });
    await world.time.advance(SECOND);
    assertReportedOnce(world, "failed");
    assert.deepEqual(await reasonsOf(world.store, job.id), ["rejected"]);
  });

  test("that is rejected twice is dropped, with a line in the log, and holds up no other", async () => {
    const world = await setup(3);
    const [bad, ...others] = world.jobs as [(typeof world.jobs)[number]];
    world.store.always = ({ id }) => (id === bad.id ? { status: "rejected", rule: "must be nicer" } : null);
    for (const job of world.jobs) await world.submit(job);
    await world.time.advance(SECOND);
    assert.deepEqual(world.decided.get(bad.id), ["dropped"]);
    for (const { id } of others) assert.deepEqual(world.decided.get(id), ["succeeded"]);
    assert.deepEqual(world.lines, [
      ["error", "finish failed", { error: `Error: outcome of job ${bad.id} refused twice: must be nicer` }],
    ]);
    assert.equal(world.completer.pending, 0);
    assert.equal(world.time.armed, 0);
  });
});

describe("back-pressure", () => {
  test("makes attempts wait while too many outcomes do, and lets them go on when there is room", async () => {
    const world = await setup(1_500, 1_000);
    world.store.always = "fails";
    for (const job of world.jobs) void world.submit(job);
    await world.time.advance(SECOND);
    assert.deepEqual([world.taken(), world.completer.pending], [1_000, 1_000]);
    world.store.always = SECOND;
    await world.time.until(() => world.decided.size === 500, 60 * SECOND);
    assert.deepEqual([world.taken(), world.completer.pending], [1_500, 1_000]);
    await world.time.advance(3 * SECOND);
    assertReportedOnce(world, "succeeded");
    assert.deepEqual(await world.states(), { succeeded: 1_500 });
  });

  test("never lets more wait than there is room for, even for one", async () => {
    const world = await setup(20, 1);
    let most = 0;
    world.store.always = 10;
    for (const job of world.jobs) void world.submit(job);
    while (world.decided.size < 20) {
      most = Math.max(most, world.completer.pending);
      await world.time.advance(1);
    }
    assert.equal(most, 1);
    assertReportedOnce(world, "succeeded");
  });
});

test("whatever the store does for a while, each outcome is stored and reported once", async () => {
  const anyFault: fc.Arbitrary<Fault> = fc.oneof(
    fc.constantFrom<Fault>("fails", "reply lost", "hangs"),
    fc.integer({ min: 0, max: 20_000 }),
    fc.integer({ min: 1, max: 4 }).map(
      (n): Fault =>
        ({ id }) =>
          id % n === 0 ? { status: "busy" } : null,
    ),
  );
  const property = fc.asyncProperty(
    fc.array(anyFault, { maxLength: 12 }),
    fc.integer({ min: 1, max: 30 }),
    fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 30, maxLength: 30 }),
    async (faults, capacity, pauses) => {
      const world = await setup(30, capacity);
      world.store.faults.push(...faults);
      const submitted: Promise<void>[] = [];
      for (const [index, job] of world.jobs.entries()) {
        submitted.push(world.submit(job));
        await world.time.advance(pauses[index] ?? 0);
      }
      await world.time.settled(Promise.all(submitted), 600 * SECOND);
      await world.time.settled(world.completer.drain(600 * SECOND), 600 * SECOND);
      assert.deepEqual(await world.states(), { succeeded: 30 });
      assert.equal(world.decided.size, 30);
      // Null is right for one whose earlier call was stored without an answer in time.
      for (const states of world.decided.values()) assert.equal(states.length, 1);
      assert.equal(world.completer.pending, 0);
      // A call that was given up may still be under way in the store.
      await world.time.advance(20 * SECOND);
      assert.equal(world.time.armed, 0);
    },
  );
  await fc.assert(property, { numRuns: 60 });
});

test("the age of the oldest is that of the one which waits longest, whatever its id", async () => {
  const world = await setup(2);
  const [low, high] = world.jobs;
  assert.ok(low && high);
  world.store.always = "fails";
  await world.submit(high);
  await world.time.advance(40 * SECOND);
  await world.submit(low);
  await world.time.advance(10 * SECOND);
  assert.equal(world.completer.oldest, 50 * SECOND);
});

test("one row that stays busy holds up no others", async () => {
  const world = await setup(2);
  const [locked, other] = world.jobs;
  assert.ok(locked && other);
  world.store.always = ({ id }) => (id === locked.id ? { status: "busy" } : null);
  await world.submit(locked);
  await world.time.advance(15_200);
  const start = world.time.now;
  await world.submit(other);
  await world.time.until(() => world.decided.size === 1, 60 * SECOND);
  assert.ok(world.time.now - start <= 100, `${world.time.now - start} ms`);
});
