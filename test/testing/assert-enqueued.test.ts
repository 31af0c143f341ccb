import assert, { AssertionError } from "node:assert/strict";
import { describe, test } from "node:test";
import { assertEnqueued, assertNotEnqueued, Client, defineJob, MemoryStore, Server, VirtualTime } from "./support.ts";

interface Mail {
  to: string;
  at?: Date;
  parts?: { name: string; bytes: number }[];
}

const mail = defineJob<Mail>("mail");
const report = defineJob<{ month: number }>("report", { queue: "slow" });
const greet = defineJob<string>("greet");

const client = (): Client => new Client(new MemoryStore({ runtime: new VirtualTime().runtime() }));

async function failure(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => assert.fail("it should fail"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof AssertionError, `${error}`);
  return error.message;
}

describe("assertEnqueued", () => {
  test("gives the first job of the kind, ready ones before scheduled ones", async () => {
    const c = client();
    await c.enqueue(report, { month: 1 });
    const later = await c.enqueue(mail, { to: "later" }, { delay: "1h" });
    assert.equal((await assertEnqueued(c, mail)).id, later);
    const ready = await c.enqueue(mail, { to: "ready" }, { tags: ["a"] });
    const job = await assertEnqueued(c, mail);
    assert.deepEqual([job.id, job.state, job.args.to, job.tags], [ready, "enqueued", "ready", ["a"]]);
  });

  test("finds by some of the args, each compared deeply as JSON", async () => {
    const c = client();
    const at = new Date(0);
    await c.enqueue(mail, { to: "ada", parts: [{ name: "a", bytes: 1 }] });
    const id = await c.enqueue(mail, { to: "ada", at, parts: [{ name: "a", bytes: 2 }] });
    for (const match of [{ at }, { parts: [{ name: "a", bytes: 2 }] }, { to: "ada", at }]) {
      assert.equal((await assertEnqueued(c, mail, match)).id, id);
    }
    for (const match of [
      { to: "Ada" },
      { parts: [] },
      { to: "ada", at: new Date(1) },
      { parts: [{ name: "a", bytes: 3 }] },
    ]) {
      await failure(assertEnqueued(c, mail, match));
    }
    await assertEnqueued(c, mail, {});
    await failure(assertEnqueued(c, mail, JSON.parse('{"__proto__":{}}')));
  });

  test("finds by a function of the job", async () => {
    const c = client();
    const id = await c.enqueue(mail, { to: "ada" }, { priority: 3 });
    await c.enqueue(mail, { to: "grace" });
    assert.equal((await assertEnqueued(c, mail, (job) => job.priority === 3 && job.args.to === "ada")).id, id);
    await assert.rejects(
      assertEnqueued(c, mail, () => {
        throw new RangeError("of the function's own");
      }),
      RangeError,
    );
  });

  test("compares args that are no object as a whole", async () => {
    const c = client();
    await c.enqueue(greet, "ada");
    await assertEnqueued(c, greet, "ada");
    await failure(assertEnqueued(c, greet, "grace"));
  });

  test("looks at all pages", async () => {
    const c = client();
    await c.enqueueMany(Array.from({ length: 1_201 }, (_, month) => report.spec({ month })));
    assert.equal((await assertEnqueued(c, report, { month: 1_200 })).id, 1_201);
    await assertNotEnqueued(c, report, { month: 1_201 });
  });

  test("says what was looked for and what there is instead", async () => {
    const c = client();
    assert.equal(await failure(assertEnqueued(c, mail)), "no mail job is enqueued or scheduled, nor is any other job");
    await c.enqueueMany([report.spec({ month: 1 }), report.spec({ month: 2 }, { delay: 5 }), greet.spec("x")]);
    assert.equal(
      await failure(assertEnqueued(c, mail, { to: "ada" })),
      'no mail job with args {"to":"ada"} is enqueued or scheduled; of other kinds: 2 report, 1 greet',
    );
    await c.enqueue(mail, { to: "grace" });
    assert.equal(
      await failure(assertEnqueued(c, mail, { to: "ada" })),
      'no mail job with args {"to":"ada"} is enqueued or scheduled, but there is:\n  job 4, enqueued: {"to":"grace"}',
    );
    await c.enqueueMany(Array.from({ length: 6 }, () => mail.spec({ to: "eve" }, { delay: "1h" })));
    const message = await failure(assertEnqueued(c, mail, (job) => job.args.to === "ada"));
    assert.match(message, /^no mail job that the function accepts is enqueued or scheduled, but there are:\n/);
    assert.match(message, /\n {2}job 5, scheduled: \{"to":"eve"\}\n(.*\n)*.*and 2 more$/);
  });
});

test("assertNotEnqueued passes when there is none, and shows those that there are", async () => {
  const c = client();
  await assertNotEnqueued(c, mail);
  await c.enqueue(mail, { to: "ada" });
  await assertNotEnqueued(c, mail, { to: "grace" });
  await assertNotEnqueued(c, report);
  assert.equal(
    await failure(assertNotEnqueued(c, mail)),
    'mail should have no job, but there is:\n  job 1, enqueued: {"to":"ada"}',
  );
  assert.equal(
    await failure(assertNotEnqueued(c, mail, { to: "ada" })),
    'mail should have no job with args {"to":"ada"}, but there is:\n  job 1, enqueued: {"to":"ada"}',
  );
});

test("jobs that run or have ended are not waiting; those that wait for a retry are", async () => {
  const time = new VirtualTime();
  const store = new MemoryStore({ runtime: time.runtime() });
  const c = new Client(store);
  const handlers = [
    mail.handler(async (job, context) => {
      if (job.args.to === "fails") throw new Error("no");
      if (job.args.to === "hangs") await new Promise((_, reject) => context.signal.addEventListener("abort", reject));
    }),
  ];
  const server = new Server(store, { handlers, queues: { default: 3 }, runtime: time.runtime(), killGrace: 0 });
  const stop = new AbortController();
  const ended = server.run({ signal: stop.signal });
  await c.enqueueMany(["fails", "hangs", "succeeds"].map((to) => mail.spec({ to })));
  await time.advance(100);
  assert.equal((await assertEnqueued(c, mail, { to: "fails" })).attempt, 1);
  await assertNotEnqueued(c, mail, { to: "hangs" });
  await assertNotEnqueued(c, mail, { to: "succeeds" });
  stop.abort();
  await time.settled(ended, 60_000);
});

test("what is no client, definition or match is refused", async () => {
  const bad = JSON.parse("{}");
  await assert.rejects(assertEnqueued(bad, mail), { code: "invalid", message: /client must be a client/ });
  await assert.rejects(assertNotEnqueued(client(), bad), {
    code: "invalid",
    message: /definition must be what defineJob returned/,
  });
  await assert.rejects(assertEnqueued(client(), mail, { to: 1n as unknown as string }), {
    code: "invalid",
    message: /match\.to/,
  });
});
