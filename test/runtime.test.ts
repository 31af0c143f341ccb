import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { hostname } from "node:os";
import { describe, type TestContext, test } from "node:test";
import { systemRuntime } from "../engine/runtime.ts";

/** Beyond this Node's own `setTimeout` fires after a millisecond. */
const NODES_LIMIT = 2 ** 31 - 1;

const timeouts = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
const fired = (ms: number): Promise<void> => new Promise((resolve) => systemRuntime.timer(ms, resolve));

describe("a timer", () => {
  test("fires once", async () => {
    let count = 0;
    systemRuntime.timer(1, () => {
      count += 1;
    });
    while (count === 0) await fired(1);
    await fired(5);
    assert.equal(count, 1);
  });

  test("of no or negative length fires soon, but not at once", async () => {
    for (const ms of [0, -5, Number.NEGATIVE_INFINITY]) {
      let done = false;
      systemRuntime.timer(ms, () => {
        done = true;
      });
      assert.equal(done, false);
      while (!done) await fired(1);
    }
  });

  test("fires in order of length", async () => {
    const order: number[] = [];
    await Promise.all([20, 1, 10].map((ms) => fired(ms).then(() => order.push(ms))));
    assert.deepEqual(order, [1, 10, 20]);
  });

  test("may be longer than Node's own, and is cancelled like any other", async (t) => {
    const before = timeouts();
    const warnings: unknown[] = [];
    const note = (warning: unknown): number => warnings.push(warning);
    process.on("warning", note);
    t.after(() => process.off("warning", note));
    const cancels = [NODES_LIMIT + 1, 2 ** 31 + 1_000, 100 * 366 * 24 * 3_600_000, Number.POSITIVE_INFINITY].map((ms) =>
      systemRuntime.timer(ms, () => assert.fail(`${ms} ms have not passed`)),
    );
    assert.equal(timeouts() - before, cancels.length);
    // A timer that Node takes for one that is too long fires before this one, and warns.
    await fired(10);
    assert.deepEqual(warnings, []);
    for (const cancel of cancels) cancel();
    assert.equal(timeouts() - before, 0);
  });

  /** Node's timers and the monotonic clock, moved together by `pass`. */
  function mockClock(t: TestContext): { pass(ms: number): void } {
    let now = 0;
    t.mock.method(performance, "now", () => now);
    t.mock.timers.enable({ apis: ["setTimeout"] });
    return {
      pass(ms) {
        now += ms;
        t.mock.timers.tick(ms);
      },
    };
  }

  test("longer than Node's own fires when its time has come", (t) => {
    const clock = mockClock(t);
    for (const ms of [NODES_LIMIT, NODES_LIMIT + 1, 3 * NODES_LIMIT + 1_000]) {
      let count = 0;
      systemRuntime.timer(ms, () => {
        count += 1;
      });
      for (let left = ms - 1; left > 0; left -= NODES_LIMIT) clock.pass(Math.min(left, NODES_LIMIT));
      assert.equal(count, 0, `${ms} ms have not passed`);
      clock.pass(1);
      assert.equal(count, 1, `${ms} ms have passed`);
      clock.pass(NODES_LIMIT);
      assert.equal(count, 1, "it fires once");
    }
  });

  test("longer than Node's own can be cancelled when a part of it has passed", (t) => {
    const clock = mockClock(t);
    const cancel = systemRuntime.timer(NODES_LIMIT + 1_000, () => assert.fail("it was cancelled"));
    clock.pass(NODES_LIMIT);
    cancel();
    clock.pass(NODES_LIMIT);
  });

  test("never fires early by the monotonic clock", async () => {
    for (let n = 0; n < 30; n++) {
      const ms = 1 + (n % 10) * 0.95;
      const start = systemRuntime.monotonic();
      await new Promise<void>((resolve) => systemRuntime.timer(ms, resolve));
      const passed = systemRuntime.monotonic() - start;
      assert.ok(passed >= ms, `${passed} of ${ms} ms`);
    }
  });

  test("that was cancelled does not fire, and cancelling twice or too late is fine", async () => {
    const cancel = systemRuntime.timer(1, () => assert.fail("it was cancelled"));
    cancel();
    cancel();
    let done = false;
    const late = systemRuntime.timer(1, () => {
      done = true;
    });
    while (!done) await fired(1);
    late();
  });
});

describe("the clocks", () => {
  test("tell the time", () => {
    const before = Date.now();
    const now = systemRuntime.now();
    assert.ok(Number.isInteger(now) && now >= before && now <= Date.now());
  });

  test("the monotonic one never goes back and has fractions", () => {
    const readings = Array.from({ length: 1_000 }, () => systemRuntime.monotonic());
    readings.slice(1).forEach((reading, index) => {
      assert.ok(reading >= (readings[index] ?? 0));
    });
    assert.ok(readings.some((reading) => !Number.isInteger(reading)));
  });
});

describe("a turn", () => {
  test("lets microtasks, ticks and what was waiting before run", async () => {
    const ran: string[] = [];
    setImmediate(() => ran.push("immediate"));
    process.nextTick(() => ran.push("tick"));
    void (async () => {
      for (let i = 0; i < 1_000; i++) await null;
      ran.push("a thousand microtasks");
    })();
    await systemRuntime.turn();
    assert.deepEqual(ran.sort(), ["a thousand microtasks", "immediate", "tick"]);
  });

  test("does not keep input, output and timers from happening", async (t) => {
    const server = createServer((socket) => socket.end());
    t.after(() => server.close());
    let accepted = false;
    let ticked = false;
    server.on("connection", () => {
      accepted = true;
    });
    server.listen(0, "127.0.0.1");
    while (!server.listening) await systemRuntime.turn();
    const address = server.address();
    assert.ok(typeof address === "object" && address !== null);
    const socket = connect(address.port, "127.0.0.1").resume();
    t.after(() => socket.destroy());
    systemRuntime.timer(1, () => {
      ticked = true;
    });
    while (!accepted || !ticked) await systemRuntime.turn();
  });
});

describe("randomness", () => {
  test("is uniform in [0, 1)", () => {
    const draws = Array.from({ length: 10_000 }, () => systemRuntime.random());
    assert.ok(draws.every((draw) => draw >= 0 && draw < 1));
    // The standard deviation of the mean is 0.003; ten of them are never missed by chance.
    assert.ok(Math.abs(draws.reduce((sum, draw) => sum + draw, 0) / draws.length - 0.5) < 0.03);
  });

  test("comes as lowercase hexadecimal too", () => {
    const ids = Array.from({ length: 1_000 }, () => systemRuntime.randomHex(8));
    for (const id of ids) assert.match(id, /^[0-9a-f]{16}$/);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(systemRuntime.randomHex(0), "");
  });
});

describe("signals", () => {
  const counts = (): number[] => [process.listenerCount("SIGTERM"), process.listenerCount("SIGINT")];

  test("reach their listener, which then leaves nothing behind", async () => {
    const before = counts();
    const got: string[] = [];
    const off = systemRuntime.onSignal(["SIGTERM", "SIGINT"], (signal) => got.push(signal));
    assert.deepEqual(
      counts(),
      before.map((count) => count + 1),
    );
    process.kill(process.pid, "SIGTERM");
    while (got.length < 1) await fired(1);
    process.kill(process.pid, "SIGINT");
    while (got.length < 2) await fired(1);
    assert.deepEqual(got, ["SIGTERM", "SIGINT"]);
    off();
    assert.deepEqual(counts(), before);
    off();
    assert.deepEqual(counts(), before);
  });

  test("of two listeners one may leave alone", () => {
    const before = counts();
    const off = systemRuntime.onSignal(["SIGTERM"], () => {});
    const offOther = systemRuntime.onSignal(["SIGTERM", "SIGINT"], () => {});
    off();
    assert.deepEqual(
      counts(),
      before.map((count) => count + 1),
    );
    offOther();
    assert.deepEqual(counts(), before);
  });
});

test("the host is this one", async () => {
  const { version } = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8"));
  assert.deepEqual(systemRuntime.host, { hostname: hostname() || "localhost", pid: process.pid, version });
});

test("the simulator's hooks do nothing in production", () => {
  assert.equal(systemRuntime.buggify("store.no-claim-check"), false);
  systemRuntime.mark("rare");
  systemRuntime.invariant(false, "all is well");
});
