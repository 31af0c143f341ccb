import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { z } from "zod";
import { Client } from "../../engine/client.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import {
  CancelledError,
  defineJob,
  FencedError,
  type HandlerInterceptor,
  InvalidError,
  PermanentError,
  type RunJobOptions,
  runJob,
  ShutdownError,
  StallError,
  snooze,
  TimeoutError,
  VirtualTime,
} from "./support.ts";

const mail = defineJob<{ to: string; at?: Date }, { sent: number }>("mail", { queue: "mail", maxAttempts: 3 });
const boom = new Error("boom");
const failing = mail.handler(() => {
  throw boom;
});

describe("a handler that returns", () => {
  test("succeeds with its output as it comes back from JSON", async () => {
    const at = new Date(0);
    const result = await runJob(
      mail.handler(({ args }) => {
        assert.deepEqual(args, { to: "ada", at: "1970-01-01T00:00:00.000Z" });
        return { sent: -0, extra: undefined };
      }),
      { to: "ada", at },
    );
    const { state, reason, error, message, delay, output, params } = result;
    assert.deepEqual(
      { state, reason, error, message, delay, output, params },
      {
        ...{ state: "succeeded", reason: null, error: undefined, message: null },
        ...{ delay: 0, output: { sent: 0 }, params: {} },
      },
    );
    assert.equal(result.output?.sent, 0);
    assert.equal(result.job.kind, "mail");
    assert.deepEqual(result.job.history, []);
  });

  test("without anything has no output", async () => {
    const result = await runJob(
      defineJob("none").handler(() => {}),
      {},
    );
    assert.equal(result.output, undefined);
    assert.equal(result.state, "succeeded");
  });

  test("what can't be stored fails the job", async () => {
    const result = await runJob(
      defineJob("big").handler(() => ({ n: 1n })),
      {},
    );
    assert.deepEqual([result.state, result.reason, result.error], ["failed", "output rejected", undefined]);
    assert.match(result.message ?? "", /output\.n must be JSON, not a bigint/);
  });
});

describe("a handler that throws", () => {
  test("is retried as its kind says", async () => {
    const kind = defineJob("flaky", { backoff: (attempt, error) => (error === boom ? attempt * 7_000 : 0) });
    const handler = kind.handler(() => {
      throw boom;
    });
    const result = await runJob(handler, {}, { attempt: 4 });
    assert.equal(result.error, boom);
    assert.deepEqual(
      [result.state, result.reason, result.message, result.delay],
      ["scheduled", "retry", "Error: boom", 28_000],
    );
    assert.equal(result.job.attempt, 4);
    assert.deepEqual(
      result.job.history.map(({ attempt, reason }) => [attempt, reason]),
      [[4, "retry"]],
    );
  });

  test("is retried as the server says when its kind does not", async () => {
    const own = await runJob(failing, { to: "ada" }, { backoff: () => 123 });
    assert.equal(own.delay, 123);
    const { delay } = await runJob(failing, { to: "ada" });
    assert.ok(delay >= 15_000 && delay <= 44_000, `${delay}`);
    const atOnce = await runJob(failing, { to: "ada" }, { backoff: () => 0 });
    assert.deepEqual([atOnce.state, atOnce.delay], ["enqueued", 0]);
  });

  test("the last time is exhausted", async () => {
    const result = await runJob(failing, { to: "ada" }, { attempt: 3 });
    assert.deepEqual([result.state, result.reason, result.delay], ["failed", "exhausted", 0]);
    const only = await runJob(failing, { to: "ada" }, { maxAttempts: 1 });
    assert.deepEqual([only.state, only.reason], ["failed", "exhausted"]);
  });

  test("may say what becomes of the job", async () => {
    const cases: [unknown, string, string, number][] = [
      [snooze("5m"), "scheduled", "snoozed", 300_000],
      [new PermanentError("no such mailbox"), "failed", "permanent", 0],
      [new CancelledError("not needed"), "deleted", "cancelled", 0],
      [undefined, "scheduled", "retry", 50],
    ];
    for (const [thrown, state, reason, delay] of cases) {
      const handler = mail.handler(() => {
        throw thrown;
      });
      const result = await runJob(handler, { to: "ada" }, { backoff: () => 50 });
      assert.deepEqual([result.state, result.reason, result.delay, result.error], [state, reason, delay, thrown]);
    }
  });
});

describe("args", () => {
  const money = defineJob("money", {
    args: z.object({ cents: z.number().transform(String), currency: z.string().default("EUR") }),
  });

  test("go through the schema", async () => {
    const result = await runJob(
      money.handler(({ args }) => args),
      { cents: 5 },
    );
    assert.deepEqual(result.output, { cents: "5", currency: "EUR" });
    assert.deepEqual(result.job.args, { cents: 5 });
  });

  test("that do not fit are refused before the handler runs", async () => {
    let ran = false;
    const handler = money.handler(() => {
      ran = true;
    });
    await assert.rejects(runJob(handler, JSON.parse('{ "cents": "5" }')), { code: "invalid", message: /args\.cents/ });
    const circular: { to: string; self?: unknown } = { to: "ada" };
    circular.self = circular;
    await assert.rejects(runJob(failing, circular), {
      code: "invalid",
      message: /must not contain an object that it is part of/,
    });
    assert.equal(ran, false);
  });
});

describe("options", () => {
  test("reach the handler", async () => {
    const deadline = new Date(Date.now() + 60_000);
    const options = { queue: "other", priority: 5, maxAttempts: 9, title: "Mail", tags: ["a"], meta: { b: "c" } };
    await runJob(
      mail.handler((job) => {
        const { queue, priority, maxAttempts, title, tags, meta } = job;
        assert.deepEqual({ queue, priority, maxAttempts, title, tags: [...tags], meta: { ...meta } }, options);
        assert.deepEqual(job.deadline, deadline);
        assert.equal(job.attempt, 2);
        return { sent: 1 };
      }),
      { to: "ada" },
      { ...options, deadline, attempt: 2 },
    ).then(({ state, error }) => assert.equal(state, "succeeded", `${error}`));
  });

  test("checkpoints from before are there, and those that it saves are shown", async () => {
    const handler = mail.handler(async (job) => {
      assert.deepEqual([job.param("page"), job.param("__proto__"), job.param("other")], [3, [null], undefined]);
      assert.equal(job.attempt, 1);
      await job.setParam("page", 4);
      throw boom;
    });
    const params = JSON.parse('{ "page": 3, "__proto__": [null] }');
    const result = await runJob(handler, { to: "ada" }, { params });
    assert.equal(result.error, boom);
    assert.deepEqual(Object.entries(result.params), [
      ["page", 4],
      ["__proto__", [null]],
    ]);
    assert.deepEqual(
      result.job.history.map(({ reason }) => reason),
      ["retry"],
    );
  });

  test("interceptors run around it, the first outermost", async () => {
    const steps: string[] = [];
    const around =
      (name: string): HandlerInterceptor =>
      async (job, _context, next) => {
        steps.push(`${name} before ${job.attempt}`);
        const output = await next();
        steps.push(`${name} after`);
        return { ...(output as object), [name]: true };
      };
    const result = await runJob(
      mail.handler(() => ({ sent: 1 })),
      { to: "ada" },
      { interceptors: [around("a"), around("b")] },
    );
    assert.deepEqual(steps, ["a before 1", "b before 1", "b after", "a after"]);
    assert.deepEqual(result.output, { sent: 1, b: true, a: true });
  });

  test("a deadline that has passed deletes the job", async () => {
    const result = await runJob(failing, { to: "ada" }, { deadline: new Date(0) });
    assert.deepEqual([result.state, result.reason, result.error], ["deleted", "deadline", undefined]);
  });

  test("that are wrong are all named", async () => {
    const bad = JSON.parse(
      '{ "attempt": 0, "tries": 1, "params": 3, "signal": {}, "priority": "high" }',
    ) as RunJobOptions;
    await assert.rejects(runJob(failing, { to: "ada" }, bad), (error: InvalidError) => {
      assert.deepEqual(error.problems.map(({ field }) => field).sort(), ["attempt", "params", "signal", "tries"]);
      return error instanceof InvalidError;
    });
    const refused: [RunJobOptions, RegExp][] = [
      [{ attempt: 4 }, /attempt must be at most maxAttempts, which is 3, got 4/],
      [{ params: { n: 1n } }, /params\.n must be JSON, not a bigint/],
      [{ priority: 1e9 }, /priority must be an integer/],
      [{ killGrace: -1 }, /killGrace must be a duration/],
    ];
    for (const [options, message] of refused)
      await assert.rejects(runJob(failing, { to: "ada" }, options), { code: "invalid", message });
    await assert.rejects(runJob(JSON.parse("{}"), {}), /handler must be a handler/);
  });
});

describe("an aborted handler", () => {
  const obedient = mail.handler(async (_job, { signal }) => {
    await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    return { sent: 0 };
  });

  test("is treated as its reason says", async () => {
    const cases: [unknown, string, string | null][] = [
      [new ShutdownError("deploy"), "enqueued", "shutdown"],
      [new CancelledError("deleted"), "deleted", "cancelled"],
      [new FencedError("cut off"), "processing", null],
      ["anything", "deleted", "cancelled"],
    ];
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    cases.push([revoked.proxy, "deleted", "cancelled"]);
    for (const [reason, state, why] of cases) {
      const stop = new AbortController();
      const running = runJob(obedient, { to: "ada" }, { signal: stop.signal });
      setImmediate(() => stop.abort(reason));
      const result = await running;
      assert.deepEqual([result.state, result.reason], [state, why]);
    }
  });

  test("may have been aborted before it begins", async () => {
    let seen = false;
    const handler = mail.handler((_job, { signal }) => {
      seen = signal.aborted;
      return { sent: 0 };
    });
    const result = await runJob(handler, { to: "ada" }, { signal: AbortSignal.abort() });
    assert.equal(seen, true);
    assert.equal(result.state, "succeeded", "who returns has succeeded");
  });

  test("is timed out, in virtual time when asked for", async () => {
    const time = new VirtualTime();
    const result = await time.settled(
      runJob(obedient, { to: "ada" }, { timeout: "1h", runtime: time.runtime() }),
      3_600_000,
    );
    assert.ok(result.error instanceof TimeoutError);
    assert.deepEqual(
      [result.state, result.reason, result.message],
      ["scheduled", "retry", "TimeoutError: timed out after 3600000 ms"],
    );
    assert.equal(time.elapsed, 3_600_000);
  });

  test("is taken to hang without a sign of life, in real time too", async () => {
    const kind = defineJob("hangs", { stallTimeout: "20ms" });
    const handler = kind.handler(
      (_job, { signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    );
    const result = await runJob(handler, {});
    assert.ok(result.error instanceof StallError);
    assert.equal(result.state, "scheduled");
  });

  test("is abandoned when it ignores its signal", async () => {
    const deaf = mail.handler(() => new Promise<never>(() => {}));
    const result = await runJob(deaf, { to: "ada" }, { timeout: "5ms", killGrace: "5ms" });
    assert.deepEqual([result.state, result.reason], ["scheduled", "retry"]);
    assert.match(result.message ?? "", /ignored its abort signal for 5 ms and was abandoned/);
  });
});

test("what the handler enqueues is there to be looked at", async () => {
  const handler = mail.handler(async (job, { client }) => {
    const child = await client.enqueue(mail, { to: "grace" }, { delay: "1h" });
    assert.equal((await client.get(job.id))?.state, "processing");
    return { sent: child };
  });
  const { client, output } = await runJob(handler, { to: "ada" });
  const { jobs } = await client.list({ state: "scheduled" });
  assert.deepEqual(
    jobs.map(({ id, args }) => [id, args]),
    [[output?.sent, { to: "grace" }]],
  );
});

test("what the handler did not wait for is refused once it has returned", async () => {
  const late = Promise.withResolvers<unknown>();
  const returned = Promise.withResolvers<void>();
  const handler = mail.handler((_job, { client }) => {
    const enqueue = async (): Promise<unknown> => {
      await returned.promise;
      return client.enqueue(mail, { to: "grace" });
    };
    enqueue().then(late.resolve, late.reject);
    return { sent: 1 };
  });
  const { client } = await runJob(handler, { to: "ada" });
  returned.resolve();
  await assert.rejects(late.promise, { code: "claim_lost" });
  assert.equal((await client.counts()).enqueued, 0);
});

test("a client of the test's own is what the handler gets", async () => {
  const own = new Client(new MemoryStore());
  const handler = mail.handler(async (_job, { client }) => {
    assert.equal(client, own);
    return { sent: await client.enqueue(mail, { to: "grace" }) };
  });
  const result = await runJob(handler, { to: "ada" }, { client: own });
  assert.equal(result.client, own);
  assert.deepEqual((await own.get(result.output?.sent ?? 0))?.args, { to: "grace" });
  const stub = { enqueue: async () => 7, enqueueMany: assert.fail } as unknown as Client;
  const sent = mail.handler(async (_job, { client }) => ({ sent: await client.enqueue(mail, { to: "grace" }) }));
  assert.deepEqual((await runJob(sent, { to: "ada" }, { client: stub })).output, { sent: 7 });
});

test("a handler that deletes its own job and then fails leaves it deleted", async () => {
  const handler = mail.handler(async (job, { client }) => {
    await client.delete(job.id);
    throw boom;
  });
  const result = await runJob(handler, { to: "ada" });
  assert.deepEqual([result.state, result.reason, result.error, result.delay], ["deleted", "cancelled", boom, 0]);
});

test("what the handler logs is cut as a server would cut it, and its progress is kept", async () => {
  const handler = mail.handler((job) => {
    job.progress(250);
    for (let n = 0; n < 1_200; n++) job.log(`line ${n}`);
    return { sent: 1 };
  });
  const { lines, job } = await runJob(handler, { to: "ada" });
  assert.equal(lines.length, 1_001);
  assert.deepEqual([lines[0], lines[999]], ["line 0", "line 999"]);
  assert.equal(job.progress, 100);
});
