import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, test } from "node:test";
import { Background, settlesWithin, sleep, Wakeup, withDeadline } from "../engine/async.ts";
import { DeadlineError } from "../engine/errors.ts";
import { systemRuntime } from "../engine/runtime.ts";
import { type VirtualRuntime, VirtualTime } from "../engine/testing/virtual-time.ts";

function clock(): { time: VirtualTime; runtime: VirtualRuntime } {
  const time = new VirtualTime();
  return { time, runtime: time.runtime() };
}

const never = (): Promise<never> => new Promise(() => {});

/** The runner reports a rejection without a handler too, but not in the test that caused it. */
async function withoutUnhandledRejection(body: () => Promise<void>): Promise<void> {
  const unhandled: unknown[] = [];
  const note = (error: unknown): number => unhandled.push(error);
  process.on("unhandledRejection", note);
  try {
    await body();
    await systemRuntime.turn();
    assert.deepEqual(unhandled, []);
  } finally {
    process.off("unhandledRejection", note);
  }
}

describe("sleep", () => {
  test("lasts as long as it was told, and leaves no timer and no listener", async () => {
    const { time, runtime } = clock();
    const stop = new AbortController();
    const start = time.now;
    await time.settled(sleep(runtime, 1_500, stop.signal), 10_000);
    assert.equal(time.now - start, 1_500);
    assert.equal(time.armed, 0);
    assert.equal(getEventListeners(stop.signal, "abort").length, 0);
  });

  test("ends at once when the signal aborts", async () => {
    const { time, runtime } = clock();
    const stop = new AbortController();
    const asleep = sleep(runtime, 1_500, stop.signal);
    await time.advance(400);
    assert.equal(time.armed, 1);
    assert.equal(getEventListeners(stop.signal, "abort").length, 1);
    stop.abort(new Error("enough"));
    await asleep;
    assert.equal(time.armed, 0);
    assert.equal(getEventListeners(stop.signal, "abort").length, 0);
  });

  test("does not begin when the signal has aborted before", async () => {
    const { time, runtime } = clock();
    await sleep(runtime, 1_500, AbortSignal.abort());
    assert.equal(time.armed, 0);
  });

  test("leaves nothing on a signal that lives long", async () => {
    const { time, runtime } = clock();
    const { signal } = new AbortController();
    const many = Array.from({ length: 100 }, (_, index) => sleep(runtime, index, signal));
    await time.settled(Promise.all(many), 1_000);
    assert.equal(getEventListeners(signal, "abort").length, 0);
  });
});

describe("withDeadline", () => {
  test("gives the value and disarms its timer", async () => {
    const { time, runtime } = clock();
    assert.equal(await withDeadline(runtime, "claim", 500, async () => 7), 7);
    assert.equal(time.armed, 0);
  });

  test("gives the error of the call and disarms its timer", async () => {
    const { time, runtime } = clock();
    const failure = new Error("no");
    const call = (): Promise<never> => Promise.reject(failure);
    await assert.rejects(withDeadline(runtime, "claim", 500, call), (error) => error === failure);
    assert.equal(time.armed, 0);
  });

  test("a call that throws at once is no different", async () => {
    const { time, runtime } = clock();
    const failure = new Error("no");
    const call = (): Promise<never> => {
      throw failure;
    };
    await assert.rejects(withDeadline(runtime, "claim", 500, call), (error) => error === failure);
    assert.equal(time.armed, 0, "no timer is left");
  });

  test("calls at once", () => {
    const { runtime } = clock();
    let called = false;
    void withDeadline(runtime, "claim", 500, async () => {
      called = true;
    });
    assert.equal(called, true);
  });

  test("fails after its time, naming what did not answer", async () => {
    const { time, runtime } = clock();
    const start = time.now;
    const call = withDeadline(runtime, "heartbeat", 2_500, never);
    await assert.rejects(time.settled(call, 10_000), (error) => {
      assert.ok(error instanceof DeadlineError);
      assert.equal(error.message, "heartbeat did not answer within 2500 ms");
      return true;
    });
    assert.equal(time.now - start, 2_500);
    assert.equal(time.armed, 0);
  });

  test("hands over a value that comes too late, once", async () => {
    const { time, runtime } = clock();
    const late: number[] = [];
    const answer = Promise.withResolvers<number>();
    const call = withDeadline(runtime, "claim", 500, () => answer.promise, { late: (value) => late.push(value) });
    await assert.rejects(time.settled(call, 1_000), DeadlineError);
    assert.deepEqual(late, []);
    answer.resolve(7);
    await systemRuntime.turn();
    assert.deepEqual(late, [7]);
  });

  test("does not hand over a value that came in time", async () => {
    const { time, runtime } = clock();
    const late: number[] = [];
    await withDeadline(runtime, "claim", 500, async () => 7, { late: (value) => late.push(value) });
    await time.advance(1_000);
    assert.deepEqual(late, []);
  });

  test("swallows an error that comes too late", () =>
    withoutUnhandledRejection(async () => {
      const { time, runtime } = clock();
      const answer = Promise.withResolvers<number>();
      const late: number[] = [];
      const call = withDeadline(runtime, "claim", 500, () => answer.promise, { late: (value) => late.push(value) });
      await assert.rejects(time.settled(call, 1_000), DeadlineError);
      answer.reject(new Error("too late"));
      await systemRuntime.turn();
      assert.deepEqual(late, []);
    }));
});

describe("settlesWithin", () => {
  test("is true for a promise that settles in time, whichever way", async () => {
    const { time, runtime } = clock();
    assert.equal(await settlesWithin(runtime, 500, Promise.resolve()), true);
    assert.equal(await settlesWithin(runtime, 500, Promise.reject(new Error("no"))), true);
    assert.equal(await settlesWithin(runtime, 0, Promise.resolve()), true, "it had settled before");
    const later = sleep(runtime, 499, new AbortController().signal);
    assert.equal(await time.settled(settlesWithin(runtime, 500, later), 1_000), true);
    assert.equal(time.armed, 0);
  });

  test("is false after its time, and what comes later does no harm", () =>
    withoutUnhandledRejection(async () => {
      const { time, runtime } = clock();
      const start = time.now;
      const later = Promise.withResolvers<void>();
      assert.equal(await time.settled(settlesWithin(runtime, 500, later.promise), 1_000), false);
      assert.equal(time.now - start, 500);
      assert.equal(time.armed, 0);
      later.reject(new Error("too late"));
    }));
});

describe("Wakeup", () => {
  const isDone = async (promise: Promise<void>): Promise<boolean> => {
    let done = false;
    void promise.then(() => {
      done = true;
    });
    await systemRuntime.turn();
    return done;
  };

  test("wakes a sleeper and disarms its timer", async () => {
    const { time, runtime } = clock();
    const wakeup = new Wakeup(runtime);
    const asleep = wakeup.wait(1_000);
    assert.equal(await isDone(asleep), false);
    assert.equal(time.armed, 1);
    wakeup.wake();
    assert.equal(await isDone(asleep), true);
    assert.equal(time.armed, 0);
  });

  test("sleeps no longer than its time", async () => {
    const { time, runtime } = clock();
    const start = time.now;
    await time.settled(new Wakeup(runtime).wait(1_000), 5_000);
    assert.equal(time.now - start, 1_000);
    assert.equal(time.armed, 0);
  });

  test("keeps a wake-up for the next wait, and only one", async () => {
    const { time, runtime } = clock();
    const wakeup = new Wakeup(runtime);
    wakeup.wake();
    wakeup.wake();
    assert.equal(await isDone(wakeup.wait(1_000)), true);
    assert.equal(time.armed, 0);
    const second = wakeup.wait(1_000);
    assert.equal(await isDone(second), false);
    await time.settled(second, 1_000);
  });

  test("a wake-up that ended a wait is used up; one that follows it is kept", async () => {
    const { runtime } = clock();
    const wakeup = new Wakeup(runtime);
    const first = wakeup.wait(1_000);
    wakeup.wake();
    assert.equal(await isDone(first), true);
    const second = wakeup.wait(1_000);
    assert.equal(await isDone(second), false);
    wakeup.wake();
    wakeup.wake();
    assert.equal(await isDone(second), true);
    assert.equal(await isDone(wakeup.wait(1_000)), true);
  });

  test("sleeps without end when it is told no time", async () => {
    const { time, runtime } = clock();
    const wakeup = new Wakeup(runtime);
    const asleep = wakeup.wait(null);
    assert.equal(time.armed, 0);
    await time.advance(365 * 24 * 3_600_000);
    assert.equal(await isDone(asleep), false);
    wakeup.wake();
    assert.equal(await isDone(asleep), true);
  });

  test("can be used again after its time has run out", async () => {
    const { time, runtime } = clock();
    const wakeup = new Wakeup(runtime);
    await time.settled(wakeup.wait(10), 100);
    wakeup.wake();
    assert.equal(await isDone(wakeup.wait(null)), true, "nobody waited, so it was kept");
  });
});

describe("Background", () => {
  test("is idle when nothing was started", async () => {
    await new Background(() => assert.fail("no error")).idle();
  });

  test("waits for everything, also for what was started meanwhile", async () => {
    const { time, runtime } = clock();
    const { signal } = new AbortController();
    const ended: string[] = [];
    const work = new Background(() => assert.fail("no error"));
    work.start("first", async () => {
      await sleep(runtime, 100, signal);
      work.start("second", async () => {
        await sleep(runtime, 500, signal);
        ended.push("second");
      });
      ended.push("first");
    });
    await time.settled(work.idle(), 1_000);
    assert.deepEqual(ended, ["first", "second"]);
  });

  test("owns the errors of what it runs, thrown at once or later", () =>
    withoutUnhandledRejection(async () => {
      const errors: [string, unknown][] = [];
      const work = new Background((name, error) => errors.push([name, (error as Error).message]));
      work.start("loop", async () => {
        await systemRuntime.turn();
        throw new Error("later");
      });
      work.start("call", () => {
        throw new Error("at once");
      });
      work.start("fine", async () => {});
      await work.idle();
      assert.deepEqual(errors, [
        ["call", "at once"],
        ["loop", "later"],
      ]);
    }));
});
