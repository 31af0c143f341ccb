/** The end of a completer: what still waits is stored if the store lets it, else dropped and logged. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertReportedOnce, SECOND, setup } from "./completer-support.ts";

test("with nothing to store takes no time and leaves nothing", async () => {
  const world = await setup(0);
  await world.completer.drain(15 * SECOND);
  assert.equal(world.time.armed, 0);
  assert.deepEqual(world.lines, []);
});

test("stores all that waits", async () => {
  const world = await setup(1_200);
  for (const job of world.jobs) await world.submit(job);
  const start = world.time.now;
  await world.time.settled(world.completer.drain(15 * SECOND), 0);
  assert.equal(world.time.now, start);
  assertReportedOnce(world, "succeeded");
  assert.deepEqual(await world.states(), { succeeded: 1_200 });
  assert.equal(world.time.armed, 0);
});

test("waits for a store that recovers in time", async () => {
  const world = await setup(700);
  world.store.always = "fails";
  for (const job of world.jobs) await world.submit(job);
  await world.time.advance(20 * SECOND);
  const drained = world.completer.drain(15 * SECOND);
  await world.time.advance(9 * SECOND);
  world.store.always = null;
  await world.time.settled(drained, 6 * SECOND);
  assertReportedOnce(world, "succeeded");
  assert.equal(world.completer.pending, 0);
  assert.equal(world.time.armed, 0);
});

test("drops what can't be stored in time, says so once, and never sends it", async () => {
  const world = await setup(700);
  world.store.always = "fails";
  for (const job of world.jobs) await world.submit(job);
  await world.time.advance(SECOND);
  world.lines.length = 0;
  const start = world.time.now;
  await world.time.settled(world.completer.drain(15 * SECOND), 60 * SECOND);
  assert.equal(world.time.now - start, 15 * SECOND);
  assertReportedOnce(world, "dropped");
  const jobs = world.jobs.slice(0, 20).map(({ id }) => id);
  const dropped = world.lines.filter(([, message]) => message !== "finish failed");
  assert.deepEqual(dropped, [["error", "results dropped, their jobs will run again", { count: 700, jobs }]]);
  assert.deepEqual([world.completer.pending, world.completer.oldest], [0, 0]);
  assert.equal(world.time.armed, 0);
  const calls = world.store.calls.length;
  world.store.always = null;
  await world.time.advance(60 * SECOND);
  assert.equal(world.store.calls.length, calls);
  assert.deepEqual(await world.states(), { processing: 700 });
});

test("stores what is submitted meanwhile", async () => {
  const world = await setup(3);
  const [first, ...others] = world.jobs as [(typeof world.jobs)[number]];
  world.store.faults.push(5 * SECOND);
  await world.submit(first);
  const drained = world.completer.drain(15 * SECOND);
  await world.time.advance(SECOND);
  for (const job of others) await world.submit(job);
  await world.time.settled(drained, 5 * SECOND);
  assertReportedOnce(world, "succeeded");
});

test("lets those go that wait for room, storing what they bring as far as the store allows", async () => {
  const world = await setup(1_500, 1_000);
  world.store.always = "fails";
  for (const job of world.jobs) void world.submit(job);
  await world.time.advance(SECOND);
  assert.equal(world.taken(), 1_000);
  const drained = world.completer.drain(15 * SECOND);
  await world.time.advance(10 * SECOND);
  world.store.always = null;
  await world.time.settled(drained, 5 * SECOND);
  assert.equal(world.taken(), 1_500);
  assertReportedOnce(world, "succeeded");
  assert.deepEqual(await world.states(), { succeeded: 1_500 });
});

test("lets those go that wait for room even when nothing can be stored", async () => {
  const world = await setup(1_500, 1_000);
  world.store.always = "fails";
  for (const job of world.jobs) void world.submit(job);
  await world.time.settled(world.completer.drain(15 * SECOND), 15 * SECOND);
  await world.time.advance(0);
  assert.equal(world.taken(), 1_500);
  assertReportedOnce(world, "dropped");
  assert.equal(world.time.armed, 0);
});

test("ends when the store does not answer at all, leaving no timer", async () => {
  const world = await setup(5);
  world.store.always = "hangs";
  for (const job of world.jobs) await world.submit(job);
  await world.time.settled(world.completer.drain(15 * SECOND), 15 * SECOND);
  assertReportedOnce(world, "dropped");
  assert.equal(world.time.armed, 0);
});

test("what is submitted after it is dropped, and the submitter told", async () => {
  const world = await setup(2);
  const [before, after] = world.jobs as [(typeof world.jobs)[number], (typeof world.jobs)[number]];
  await world.submit(before);
  await world.time.settled(world.completer.drain(15 * SECOND), 0);
  await world.submit(after);
  await world.time.advance(60 * SECOND);
  assert.deepEqual([...world.decided.values()].flat(), ["succeeded", "dropped"]);
  assert.equal(world.store.calls.length, 1);
  assert.equal(world.time.armed, 0);
});

test("gives those that wait for room their turn, however small the capacity", async () => {
  const world = await setup(3, 2);
  for (const job of world.jobs) void world.submit(job);
  await world.time.settled(world.completer.drain(15 * SECOND), SECOND);
  await world.time.advance(0);
  assert.deepEqual(await world.states(), { succeeded: 3 });
});

test("takes no longer than it was given, also while a call hangs", async () => {
  const world = await setup(5);
  world.store.always = "hangs";
  for (const job of world.jobs) await world.submit(job);
  const start = world.time.now;
  await world.time.settled(world.completer.drain(SECOND), 60 * SECOND);
  assert.equal(world.time.now - start, SECOND);
});

test("is not made longer by a call that began before it", async () => {
  const world = await setup(5);
  world.store.faults.push(14 * SECOND + 900);
  world.store.always = "hangs";
  const [first, ...rest] = world.jobs;
  if (first) await world.submit(first);
  await world.time.advance(1);
  for (const job of rest) await world.submit(job);
  const start = world.time.now;
  await world.time.settled(world.completer.drain(15 * SECOND), 60 * SECOND);
  assert.ok(world.time.now - start <= 15 * SECOND, `${world.time.now - start}`);
});

test("counts and logs those that waited for room, too", async () => {
  const world = await setup(1_500, 1_000);
  world.store.always = "fails";
  for (const job of world.jobs) void world.submit(job);
  await world.time.settled(world.completer.drain(15 * SECOND), 60 * SECOND);
  await world.time.advance(0);
  assertReportedOnce(world, "dropped");
  const line = world.lines.find(([, message]) => message === "results dropped, their jobs will run again");
  assert.ok(line);
  assert.equal((line[2] as { count: number }).count, 1_500);
});
