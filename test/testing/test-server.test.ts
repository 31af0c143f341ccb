import assert, { AssertionError } from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  assertEnqueued,
  assertNotEnqueued,
  constant,
  defineJob,
  InvalidError,
  MemoryStore,
  SqliteStore,
  snooze,
  TestServer,
  type TestServerOptions,
  VirtualTime,
} from "./support.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const step = defineJob<{ n: number }, number>("step", { backoff: constant("20m") });

describe("drain", () => {
  test("takes a job through its retries over an hour in milliseconds", async () => {
    const kind = defineJob<{ to: string }>("mail", { backoff: constant("20m") });
    const server = new TestServer({
      handlers: [
        kind.handler(({ attempt }) => {
          if (attempt <= 3) throw new Error(`mailbox is full (${attempt})`);
          return { sent: attempt };
        }),
      ],
    });
    const started = performance.now();
    const before = server.time.now;
    const id = await server.client.enqueue(kind, { to: "ada" });
    const [mail, ...others] = await server.drain();
    assert.equal(others.length, 0);
    assert.deepEqual([mail?.id, mail?.state, mail?.output], [id, "succeeded", { sent: 4 }]);
    assert.deepEqual(
      mail?.attempts.map(({ startedAt, ...attempt }) => ({ at: startedAt.getTime() - before, ...attempt })),
      [
        ...[1, 2, 3].map((n) => ({
          ...{ at: (n - 1) * 20 * MINUTE, attempt: n, state: "scheduled", reason: "retry" },
          ...{ error: `Error: mailbox is full (${n})`, delay: 20 * MINUTE, output: undefined },
        })),
        { at: HOUR, attempt: 4, state: "succeeded", reason: null, error: null, delay: 0, output: { sent: 4 } },
      ],
    );
    assert.equal(server.time.now - before, HOUR, "it ends at the instant at which the last job did");
    const took = performance.now() - started;
    assert.ok(took < 1_000, `${took} ms`);
    assert.equal(server.time.armed, 0, "and leaves nothing behind");
    assert.deepEqual(await server.client.servers(), []);
  });

  test("of nothing takes no time", async () => {
    const server = new TestServer({ handlers: [step.handler(() => 1)] });
    const before = server.time.now;
    assert.deepEqual(await server.drain(), []);
    assert.equal(server.time.now, before);
  });

  test("runs what jobs enqueue, in whatever queue, and leaves kinds without a handler alone", async () => {
    const other = defineJob("other");
    const server = new TestServer({
      handlers: [
        step.handler(async ({ args: { n } }, { client }) => {
          if (n > 0) await client.enqueue(step, { n: n - 1 }, { queue: `queue-${n}`, delay: "1m" });
          else await client.enqueue(other, {});
          return n;
        }),
      ],
    });
    await server.client.enqueue(step, { n: 3 }, { queue: "first" });
    const jobs = await server.drain();
    assert.deepEqual(
      jobs.map(({ queue, output, state }) => [queue, output, state]),
      [
        ["first", 3, "succeeded"],
        ["queue-3", 2, "succeeded"],
        ["queue-2", 1, "succeeded"],
        ["queue-1", 0, "succeeded"],
      ],
    );
    await assertNotEnqueued(server.client, step);
    await assertEnqueued(server.client, other);
  });

  test("may be repeated, and gives only what ran in it", async () => {
    const server = new TestServer({ handlers: [step.handler(({ args }) => args.n)] });
    for (const n of [1, 2]) {
      await server.client.enqueue(step, { n });
      assert.deepEqual(
        (await server.drain()).map(({ output }) => output),
        [n],
      );
    }
    await server.client.requeue([1, 2]);
    assert.deepEqual(
      (await server.drain()).map(({ id, attempts }) => [id, attempts.length]),
      [
        [1, 1],
        [2, 1],
      ],
    );
  });

  test("gives every way in which an attempt ends", async () => {
    const kind = defineJob<{ end: string }>("ends", { backoff: () => 0, maxAttempts: 2 });
    const server = new TestServer({
      handlers: [
        kind.handler(async (job, { client }) => {
          const first = (await client.get(job.id))?.history.length === 0;
          if (job.args.end === "snooze" && first) throw snooze("1h");
          if (job.args.end === "cancel") await client.delete(job.id);
          if (job.args.end !== "snooze") throw new Error(job.args.end);
        }),
      ],
    });
    for (const end of ["snooze", "fail", "cancel"]) await server.client.enqueue(kind, { end });
    const jobs = (await server.drain()).sort((a, b) => a.id - b.id);
    assert.deepEqual(
      jobs.map(({ state, attempts }) => [state, attempts.map((a) => [a.attempt, a.state, a.reason, a.delay])]),
      [
        [
          "succeeded",
          [
            [1, "scheduled", "snoozed", HOUR],
            [1, "succeeded", null, 0],
          ],
        ],
        [
          "failed",
          [
            [1, "enqueued", "retry", 0],
            [2, "failed", "exhausted", 0],
          ],
        ],
        ["deleted", [[1, "deleted", "cancelled", 0]]],
      ],
    );
  });

  test("runs a thousand jobs with at most `workers` at once", async () => {
    let running = 0;
    let most = 0;
    const server = new TestServer({
      workers: 3,
      handlers: [
        step.handler(async ({ args }) => {
          running += 1;
          most = Math.max(most, running);
          await null;
          running -= 1;
          return args.n;
        }),
      ],
    });
    await server.client.enqueueMany(Array.from({ length: 1_000 }, (_, n) => step.spec({ n })));
    const jobs = await server.drain();
    assert.equal(jobs.length, 1_000);
    assert.ok(jobs.every(({ state, output, args }) => state === "succeeded" && output === (args as { n: number }).n));
    assert.equal(most, 3);
  });

  test("is one at a time", async () => {
    let inside: Promise<unknown> | undefined;
    const server = new TestServer({
      handlers: [
        step.handler(async () => {
          inside = server.drain();
          await inside;
          return 1;
        }),
      ],
    });
    await server.client.enqueue(step, { n: 1 }, { maxAttempts: 1 });
    const [job] = await server.drain();
    assert.match(job?.attempts[0]?.error ?? "", /ConflictError: another drain is under way/);
    await assert.rejects(inside ?? assert.fail(), { code: "conflict" });
  });
});

describe("the limit", () => {
  test("ends a drain with what is not done, and what keeps it", async () => {
    const server = new TestServer({
      handlers: [
        step.handler(() => {
          throw new Error("never again");
        }),
      ],
    });
    const { client } = server;
    const before = server.time.now;
    await client.pauseQueue("paused");
    await client.enqueue(step, { n: 1 });
    await client.enqueue(step, { n: 2 }, { queue: "paused" });
    await client.enqueue(step, { n: 3 }, { delay: "2d" });
    await assert.rejects(server.drain({ limit: "1h" }), (error: Error) => {
      assert.ok(error instanceof AssertionError);
      assert.equal(
        error.message,
        [
          "not drained within 1h of virtual time:",
          "  job 2, step, enqueued in the paused queue paused",
          "  job 1, step, scheduled for 20m from now, attempt 4 of 10: Error: never again",
          "  job 3, step, scheduled for 47h from now",
        ].join("\n"),
      );
      return true;
    });
    assert.equal(server.time.now - before, HOUR);
    assert.equal(server.time.armed, 0);
    await client.resumeQueue("paused");
    await client.delete({ state: "scheduled" });
    assert.deepEqual(
      (await server.drain()).map(({ id, state }) => [id, state]),
      [[2, "failed"]],
    );
  });

  test("is a day, and a day costs little", async () => {
    const server = new TestServer({ handlers: [step.handler(() => 1)] });
    await server.client.enqueue(step, { n: 1 }, { delay: "25h" });
    const started = performance.now();
    await assert.rejects(
      server.drain(),
      /not drained within 1d of virtual time:\n {2}job 1, step, scheduled for 1h from now$/,
    );
    assert.ok(performance.now() - started < 2_000);
    assert.equal((await server.drain({ limit: "1h" })).length, 1);
  });

  test("is not needed for a job that runs again and again at once", async () => {
    const server = new TestServer({
      handlers: [
        step.handler(() => {
          throw snooze(0);
        }),
      ],
    });
    await server.client.enqueue(step, { n: 1 });
    const message = /^job 1 runs again and again, and no time passes:\n {2}job 1, step, enqueued$/;
    await assert.rejects(server.drain(), { name: "AssertionError", message });
    await server.client.delete(1);
    assert.deepEqual(await server.drain(), []);
  });

  test("may allow for any number of attempts as long as time passes", async () => {
    let runs = 0;
    const server = new TestServer({
      handlers: [
        step.handler(() => {
          runs += 1;
          if (runs < 2_000) throw snooze("1m");
          return runs;
        }),
      ],
    });
    await server.client.enqueue(step, { n: 1 });
    const [job] = await server.drain({ limit: "2d" });
    assert.deepEqual([job?.output, job?.attempts.length, job?.attempt], [2_000, 2_000, 1]);
  });

  test("names at most five jobs", async () => {
    const server = new TestServer({ handlers: [step.handler(() => 1)] });
    await server.client.enqueueMany(Array.from({ length: 7 }, (_, n) => step.spec({ n }, { delay: "1h" })));
    await assert.rejects(
      server.drain({ limit: 0 }),
      /:\n( {2}job \d, step, scheduled for 1h from now\n){5} {2}and others$/,
    );
  });
});

describe("a handler that does something in real time", () => {
  test("keeps virtual time standing still", async (t) => {
    const dir = await mkdtemp(join(tmpdir(), "kiln-drain-"));
    t.after(() => rm(dir, { recursive: true }));
    const http = createServer((_request, response) => setTimeout(() => response.end("pong"), 30));
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      http.close();
      http.closeAllConnections();
    });
    const { port } = http.address() as AddressInfo;
    const kind = defineJob<{ what: string }>("real", { timeout: "1s", backoff: constant("10m") });
    const server = new TestServer({
      handlers: [
        kind.handler(async ({ args: { what }, attempt }, { signal }) => {
          const before = server.time.now;
          if (what === "sleep") await sleep(50);
          if (what === "fetch")
            assert.equal(await (await fetch(`http://127.0.0.1:${port}`, { signal })).text(), "pong");
          if (what === "file") {
            for (let n = 0; n < 20; n++) await writeFile(join(dir, "a"), `${n}`);
            assert.equal(await readFile(join(dir, "a"), "utf8"), "19");
          }
          assert.equal(server.time.now, before);
          if (attempt < 3) throw new Error("again");
          return what;
        }),
      ],
    });
    const start = server.time.now;
    for (const what of ["sleep", "fetch", "file"]) await server.client.enqueue(kind, { what });
    const jobs = await server.drain();
    assert.deepEqual(jobs.map(({ output }) => output).sort(), ["fetch", "file", "sleep"]);
    assert.deepEqual(jobs.flatMap(({ attempts }) => attempts.map(({ error }) => error)).sort(), [
      ...Array(6).fill("Error: again"),
      ...Array(3).fill(null),
    ]);
    assert.equal(server.time.now - start, 20 * MINUTE);
  });

  test("may also do so in its schema", async () => {
    const args = {
      "~standard": {
        ...({ version: 1, vendor: "test" } as const),
        validate: async (value: unknown) => {
          await sleep(20);
          return { value: value as { n: number } };
        },
      },
    };
    const kind = defineJob("checked", { args, timeout: "1ms" });
    const server = new TestServer({ handlers: [kind.handler(() => "done")] });
    await server.client.enqueue(kind, { n: 1 });
    assert.deepEqual(
      (await server.drain()).map(({ output }) => output),
      ["done"],
    );
  });
});

describe("a handler that waits for its signal", () => {
  const kind = defineJob<{ cleanup: number }>("hangs", { timeout: "30m", maxAttempts: 1 });
  const options = (patience?: number): TestServerOptions => ({
    ...(patience !== undefined && { patience }),
    killGrace: "2s",
    handlers: [
      kind.handler(async ({ args }, { signal }) => {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        if (args.cleanup > 0) await sleep(args.cleanup);
        throw signal.reason;
      }),
    ],
  });

  test("is timed out once `patience` has passed", async () => {
    const server = new TestServer(options(20));
    const start = server.time.now;
    await server.client.enqueue(kind, { cleanup: 0 });
    const [job] = await server.drain();
    assert.deepEqual([job?.state, job?.attempts[0]?.error], ["failed", "TimeoutError: timed out after 1800000 ms"]);
    assert.equal(server.time.now - start, 30 * MINUTE);
  });

  test("has `patience` again to tidy up, in real time", async () => {
    const server = new TestServer(options(100));
    await server.client.enqueue(kind, { cleanup: 20 });
    const [job] = await server.drain();
    assert.equal(job?.attempts[0]?.error, "TimeoutError: timed out after 1800000 ms");
  });

  test("is abandoned when it takes longer", async () => {
    const server = new TestServer(options(5));
    await server.client.enqueue(kind, { cleanup: 500 });
    const [job] = await server.drain();
    assert.match(job?.attempts[0]?.error ?? "", /ignored its abort signal for 2000 ms and was abandoned/);
  });

  test("need not be waited for", async () => {
    const server = new TestServer(options(0));
    await server.client.enqueue(kind, { cleanup: 0 });
    const started = performance.now();
    const [job] = await server.drain();
    assert.equal(job?.state, "failed");
    assert.ok(performance.now() - started < 500);
  });
});

describe("options", () => {
  test("a store of one's own, here SQLite, on a clock of one's own", async () => {
    const time = new VirtualTime();
    const store = await SqliteStore.open({ path: ":memory:", runtime: time.runtime() });
    const server = new TestServer({
      ...{ store, time },
      handlers: [
        step.handler(async ({ attempt, args }) => {
          await sleep(5);
          if (attempt < 3) throw new Error("again");
          return args.n;
        }),
      ],
    });
    await server.client.enqueue(step, { n: 7 }, { delay: "3h" });
    const [job] = await server.drain();
    assert.deepEqual([job?.output, job?.attempts.length, time.elapsed], [7, 3, 3 * HOUR + 40 * MINUTE]);
    await store.close();
  });

  test("interceptors, backoff and timeout are as in ServerConfig", async () => {
    const kind = defineJob("plain");
    const seen: number[] = [];
    const server = new TestServer({
      backoff: () => 5,
      interceptors: [
        (job, _context, next) => {
          seen.push(job.attempt);
          return next();
        },
      ],
      handlers: [
        kind.handler(({ attempt }) => {
          if (attempt < 3) throw new Error("again");
        }),
      ],
    });
    await server.client.enqueue(kind, {});
    const [job] = await server.drain();
    assert.deepEqual(
      job?.attempts.map(({ delay }) => delay),
      [5, 5, 0],
    );
    assert.deepEqual(seen, [1, 2, 3]);
  });

  test("the clock starts at the real time, so that a runAt of a user's own means what it says", async () => {
    const server = new TestServer({ handlers: [step.handler(() => 1)] });
    await server.client.enqueue(step, { n: 1 }, { runAt: new Date(Date.now() + HOUR) });
    await assertEnqueued(server.client, step, (job) => job.state === "scheduled");
    assert.equal((await server.drain({ limit: "61m" })).length, 1);
  });

  test("that are wrong are all named", () => {
    const bad: [unknown, string[]][] = [
      [undefined, ["options", "handlers"]],
      [{}, ["handlers"]],
      [{ handlers: [] }, ["handlers"]],
      [{ handlers: [{}], workers: 0, patience: -1, queues: {} }, ["workers", "patience", "queues"]],
      [{ handlers: [step.handler(() => 1)], store: new MemoryStore() }, ["store"]],
      [{ handlers: [step.handler(() => 1)], timeout: 0 }, ["timeout"]],
    ];
    for (const [options, fields] of bad) {
      assert.throws(
        () => new TestServer(options as TestServerOptions),
        (error: InvalidError) => {
          assert.ok(error instanceof InvalidError);
          assert.deepEqual(error.problems.map(({ field }) => field).sort(), fields.sort());
          return true;
        },
      );
    }
  });

  test("a limit that is none is refused", async () => {
    const server = new TestServer({ handlers: [step.handler(() => 1)] });
    for (const limit of [-1, Number.NaN, "soon", 1e18]) {
      await assert.rejects(server.drain({ limit }), { code: "invalid", message: /limit must be a duration/ });
    }
  });
});
