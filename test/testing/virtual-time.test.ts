import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { sleep } from "../../engine/async.ts";
import { systemRuntime } from "../../engine/runtime.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";

const HOUR = 3_600_000;

describe("timers", () => {
  test("fire in the order of their instants, those of one instant in the order in which they were set", async () => {
    const property = fc.asyncProperty(fc.array(fc.integer({ min: -5, max: 20 }), { maxLength: 30 }), async (delays) => {
      const time = new VirtualTime();
      const runtimes = [time.runtime(), time.runtime()];
      const start = time.now;
      const fired: [index: number, at: number][] = [];
      delays.forEach((ms, index) => {
        runtimes[index % 2]?.timer(ms, () => fired.push([index, time.now - start]));
      });
      await time.advance(20);
      const expected = delays
        .map((ms, index): [number, number] => [index, Math.max(ms, 0)])
        .sort(([a, x], [b, y]) => x - y || a - b);
      assert.deepEqual(fired, expected);
      assert.equal(time.armed, 0);
    });
    await fc.assert(property, { numRuns: 50 });
  });

  test("may be set by timers, also for the same instant", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const fired: string[] = [];
    runtime.timer(10, () => {
      fired.push("first");
      runtime.timer(0, () => fired.push("third"));
      runtime.timer(5, () => fired.push("fourth"));
    });
    runtime.timer(10, () => fired.push("second"));
    await time.advance(14);
    assert.deepEqual(fired, ["first", "second", "third"]);
    await time.advance(1);
    assert.deepEqual(fired, ["first", "second", "third", "fourth"]);
  });

  test("let everything that follows from one run before the next", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const steps: string[] = [];
    runtime.timer(10, async () => {
      for (let i = 0; i < 100; i++) await null;
      steps.push("all of the first");
    });
    runtime.timer(10, () => steps.push("the second"));
    await time.advance(10);
    assert.deepEqual(steps, ["all of the first", "the second"]);
  });

  test("do not fire once cancelled, not even at the instant at which they would", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const fired: string[] = [];
    const cancelEarly = runtime.timer(5, () => fired.push("early"));
    runtime.timer(10, () => cancelLate());
    const cancelLate = runtime.timer(10, () => fired.push("late"));
    const cancelFired = runtime.timer(1, () => fired.push("fired"));
    assert.equal(time.armed, 4);
    cancelEarly();
    cancelEarly();
    assert.equal(time.armed, 3);
    await time.advance(20);
    cancelFired();
    assert.deepEqual(fired, ["fired"]);
    assert.equal(time.armed, 0);
  });
});

describe("time", () => {
  test("passes only when told, by exactly so much, for all runtimes alike", async () => {
    const time = new VirtualTime();
    const [a, b] = [time.runtime(), time.runtime()];
    const start = a.now();
    assert.equal(start, Date.UTC(2026, 0, 1));
    await systemRuntime.turn();
    assert.equal(a.now(), start);
    await time.advance(1_234);
    assert.deepEqual([a.now() - start, b.now() - start, a.monotonic(), b.monotonic()], [1_234, 1_234, 1_234, 1_234]);
  });

  test("advances through the instants of the timers on its way", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const seen: number[] = [];
    const tick = (): void => {
      seen.push(runtime.monotonic());
      runtime.timer(100, tick);
    };
    runtime.timer(100, tick);
    await time.advance(350);
    assert.deepEqual(seen, [100, 200, 300]);
    assert.equal(runtime.monotonic(), 350);
  });

  test("has fractions on the monotonic clock, whole milliseconds on the wall clock", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const start = runtime.now();
    await time.advance(0.75);
    assert.equal(runtime.monotonic(), 0.75);
    assert.equal(runtime.now(), start);
  });

  test("lets what is runnable run even when it does not pass", async () => {
    const time = new VirtualTime();
    let ran = false;
    void Promise.resolve().then(() => {
      ran = true;
    });
    await time.advance(0);
    assert.equal(ran, true);
  });
});

describe("until", () => {
  test("ends at the instant at which it is done", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    let count = 0;
    const tick = (): void => {
      count += 1;
      runtime.timer(10, tick);
    };
    tick();
    await time.until(() => count === 4, HOUR);
    assert.equal(runtime.monotonic(), 30);
    await time.until(() => true, 0);
    assert.equal(runtime.monotonic(), 30);
  });

  test("fails when its limit has passed", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const neverTrue = (): boolean => false;
    await assert.rejects(time.until(neverTrue, 500), /not reached within 500 ms: .*false/);
    assert.equal(runtime.monotonic(), 500);
  });
});

describe("settled", () => {
  test("gives the value or the error of the promise", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const later = async (ms: number): Promise<number> => {
      await sleep(runtime, ms, new AbortController().signal);
      if (ms > 100) throw new Error("too long");
      return ms;
    };
    assert.equal(await time.settled(later(70), HOUR), 70);
    assert.equal(runtime.monotonic(), 70);
    await assert.rejects(time.settled(later(200), HOUR), /too long/);
    assert.equal(runtime.monotonic(), 270);
  });

  test("fails when its limit has passed", async () => {
    const time = new VirtualTime();
    await assert.rejects(time.settled(new Promise(() => {}), 500), /not reached within 500 ms/);
  });
});

test("a loop that lets no time pass is found", async () => {
  const time = new VirtualTime();
  const runtime = time.runtime();
  await time.advance(1_000);
  const loop = (): void => {
    runtime.timer(0, loop);
  };
  loop();
  await assert.rejects(time.advance(1), new RegExp(`time stands still at ${time.now}`));
});

describe("a runtime", () => {
  test("is a process of its own", () => {
    const time = new VirtualTime();
    const [a, b, c] = [time.runtime(), time.runtime(), time.runtime({ hostname: "db" })];
    assert.deepEqual([a.host.hostname, b.host.hostname, c.host.hostname], ["host1", "host2", "db"]);
    assert.deepEqual([a.host.pid, b.host.pid, c.host.pid], [1, 2, 3]);
    assert.equal(a.host.version, systemRuntime.host.version);
  });

  test("draws the same numbers in each run, others in each process", () => {
    const draw = (time: VirtualTime): number[][] =>
      [time.runtime(), time.runtime()].map((runtime) => Array.from({ length: 1_000 }, () => runtime.random()));
    const [a, b] = draw(new VirtualTime()) as [number[], number[]];
    assert.deepEqual(draw(new VirtualTime()), [a, b]);
    assert.notDeepEqual(a, b);
    for (const draws of [a, b]) {
      assert.ok(draws.every((number) => number >= 0 && number < 1));
      const mean = draws.reduce((sum, number) => sum + number, 0) / draws.length;
      assert.ok(Math.abs(mean - 0.5) < 0.05, `mean ${mean}`);
    }
    assert.equal(new VirtualTime().runtime({ random: () => 0.125 }).random(), 0.125);
  });

  test("gives random bytes in hexadecimal", () => {
    const runtime = new VirtualTime().runtime();
    const ids = Array.from({ length: 100 }, () => runtime.randomHex(8));
    for (const id of ids) assert.match(id, /^[0-9a-f]{16}$/);
    assert.equal(new Set(ids).size, 100);
    assert.equal(runtime.randomHex(0), "");
    assert.equal(new VirtualTime().runtime({ random: () => 0.01 }).randomHex(2), "0202");
  });

  test("takes no time for a turn, and lets none pass before it has ended", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const steps: string[] = [];
    const start = time.now;
    runtime.timer(5, async () => {
      for (let n = 0; n < 3; n++) await runtime.turn();
      steps.push(`the turns at ${time.now - start}`);
    });
    runtime.timer(6, () => steps.push(`the next timer at ${time.now - start}`));
    await time.advance(10);
    assert.deepEqual(steps, ["the turns at 5", "the next timer at 6"]);
  });

  test("is sent signals, until nobody listens", () => {
    const time = new VirtualTime();
    const [a, b] = [time.runtime(), time.runtime()];
    const got: string[] = [];
    const off = a.onSignal(["SIGTERM", "SIGINT"], (signal) => got.push(`first ${signal}`));
    const offOther = a.onSignal(["SIGTERM"], (signal) => got.push(`second ${signal}`));
    b.onSignal(["SIGTERM"], () => assert.fail("a signal of another process"));
    a.signal("SIGTERM");
    a.signal("SIGINT");
    assert.deepEqual(got, ["first SIGTERM", "second SIGTERM", "first SIGINT"]);
    assert.equal(a.listeners, 3);
    off();
    off();
    assert.equal(a.listeners, 1);
    a.signal("SIGTERM");
    assert.deepEqual(got.slice(3), ["second SIGTERM"]);
    offOther();
    a.signal("SIGTERM");
    assert.equal(got.length, 4);
    assert.equal(a.listeners, 0);
  });

  test("makes the unlikely happen where it was told to, and keeps the marks", () => {
    const runtime = new VirtualTime().runtime({ buggify: ["store.no-claim-check"] });
    assert.deepEqual([runtime.buggify("store.no-claim-check"), runtime.buggify("another")], [true, false]);
    runtime.mark("rare");
    runtime.mark("rare");
    assert.deepEqual([...runtime.marks], ["rare"]);
  });

  test("fails when an invariant is broken", () => {
    const runtime = new VirtualTime().runtime();
    runtime.invariant(true, "all is well");
    assert.throws(() => runtime.invariant(false, "one claim per job"), /invariant broken: one claim per job/);
  });
});

test("time never goes back, also when two callers let it pass at once", async () => {
  const time = new VirtualTime();
  await time.advance(10);
  const before = time.now;
  await Promise.all([time.advance(100), time.advance(5)]);
  assert.equal(time.now, before + 100);
});

describe("a hold", () => {
  test("lets no time pass until it is released, each for itself", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const fired: number[] = [];
    runtime.timer(5, () => fired.push(time.elapsed));
    const first = time.hold();
    const second = time.hold();
    const advanced = time.advance(10);
    for (let turns = 0; turns < 20; turns++) await systemRuntime.turn();
    first();
    first();
    for (let turns = 0; turns < 20; turns++) await systemRuntime.turn();
    assert.deepEqual([fired, time.elapsed], [[], 0]);
    second();
    await advanced;
    assert.deepEqual([fired, time.elapsed], [[5], 10]);
    first();
    await time.advance(1);
    assert.equal(time.elapsed, 11);
  });

  test("may be taken again by what its release lets run", async () => {
    const time = new VirtualTime();
    const runtime = time.runtime();
    const steps: string[] = [];
    runtime.timer(1, async () => {
      for (let n = 0; n < 3; n++) {
        const release = time.hold();
        for (let turns = 0; turns < 5; turns++) await systemRuntime.turn();
        steps.push(`held at ${time.elapsed}`);
        release();
        await null;
      }
    });
    runtime.timer(2, () => steps.push(`timer at ${time.elapsed}`));
    await Promise.all([time.advance(2), time.advance(2)]);
    assert.deepEqual(steps, ["held at 1", "held at 1", "held at 1", "timer at 2"]);
  });
});

test("a clock may start at an instant of one's own", async () => {
  const time = new VirtualTime({ start: 5 });
  const runtime = time.runtime();
  await time.advance(3);
  assert.deepEqual([time.now, time.elapsed, runtime.now(), runtime.monotonic()], [8, 3, 8, 3]);
});

test("reaches says whether it came to it", async () => {
  const time = new VirtualTime();
  time.runtime().timer(5, () => {});
  assert.equal(await time.reaches(() => time.elapsed === 5, 10), true);
  assert.equal(await time.reaches(() => false, 10), false);
  assert.equal(time.elapsed, 15);
});
