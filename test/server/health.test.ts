import assert from "node:assert/strict";
import { test } from "node:test";
import { healthOf } from "../../engine/server/health.ts";
import { Counters, type ServerStats } from "../../engine/server/stats.ts";

const stats = (fields: Partial<ServerStats> = {}): ServerStats => ({
  ...new Counters(),
  ...{ faults: 0, loopBlocks: 0, inFlight: 0, capacity: 1, pending: 0 },
  ...{ heartbeatAge: 1_000, leader: false, fenced: false, listening: true },
  ...fields,
});

const problems = (fields: Partial<ServerStats>, { running = true, oldest = 0 } = {}): readonly string[] => {
  const health = healthOf(running, stats(fields), oldest, 60_000);
  assert.equal(health.healthy, health.problems.length === 0);
  return health.problems;
};

test("a server that beats and stores its results is healthy, up to the limits", () => {
  assert.deepEqual(problems({}), []);
  assert.deepEqual(problems({ heartbeatAge: 30_000 }, { oldest: 30_000 }), []);
  assert.deepEqual(problems({ faults: 99, pending: 500, inFlight: 1, listening: false }), []);
});

test("it is not when it does not run, whatever its last heartbeat", () => {
  for (const heartbeatAge of [null, 0, 99_000]) {
    assert.deepEqual(problems({ heartbeatAge }, { running: false }), ["the server is not running"]);
  }
});

test("it is not before its first heartbeat, nor without one for more than half of deadAfter", () => {
  assert.deepEqual(problems({ heartbeatAge: null }), ["the server has not been able to register"]);
  assert.deepEqual(problems({ heartbeatAge: 30_000.6 }), ["no heartbeat got through for 30001 ms"]);
});

test("it is not when results pile up", () => {
  const expected = ["7 results wait to be stored, the oldest for 30001 ms"];
  assert.deepEqual(problems({ pending: 7 }, { oldest: 30_001 }), expected);
});

test("all that is wrong is said", () => {
  const [beat, fenced, piling] = problems({ heartbeatAge: 55_000, fenced: true, pending: 1 }, { oldest: 55_000 });
  assert.match(beat ?? "", /no heartbeat/);
  assert.match(fenced ?? "", /has fenced itself/);
  assert.match(piling ?? "", /wait to be stored/);
});
