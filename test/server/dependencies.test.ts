import assert from "node:assert/strict";
import { test } from "node:test";
import { Flow } from "../../engine/flow.ts";
import { defineJob, type HandlerInterceptor, type Job } from "../../engine/job.ts";
import { constant } from "../../engine/retry.ts";
import { MINUTE, SECOND, World } from "./support.ts";

const options = { maxAttempts: 2, backoff: constant("10s") };
const charge = defineJob<{ order: number; fail?: boolean }>("charge", options);
const mail = defineJob("mail", options);
const report = defineJob("report", options);

test("a flow runs in order, each job at once after its last parent, with the outputs of its parents", async () => {
  const world = await World.make();
  const runs: [string, number][] = [];
  const outputs: Map<number, unknown>[] = [];
  world.start([
    charge.handler(async ({ args }) => {
      runs.push(["charge", world.time.now]);
      await world.work(args.order * SECOND);
      return args.order === 3 ? undefined : { receipt: args.order };
    }),
    mail.handler(async (job) => {
      runs.push(["mail", world.time.now]);
      outputs.push(await job.parentOutputs());
    }),
  ]);
  const flow = new Flow();
  const last = flow.add(mail.spec({}, { needs: [1, 2, 3] }));
  for (const order of [1, 2, 3]) flow.add(charge.spec({ order }));
  const start = world.time.now;
  const inserted = await world.client.enqueueMany(flow.specs);
  const [mailId = 0, one = 0, two = 0, three = 0] = inserted.map(({ id }) => id);
  assert.equal(inserted[last]?.state, "awaiting");
  await world.reach(mailId, "succeeded", MINUTE);
  assert.deepEqual(
    runs.map(([kind]) => kind),
    ["charge", "charge", "charge", "mail"],
  );
  const wait = (runs[3]?.[1] ?? 0) - start - 3 * SECOND;
  assert.ok(wait >= 0 && wait < 50, `${wait} ms after its last parent`);
  const expected = [
    [one, { receipt: 1 }],
    [two, { receipt: 2 }],
  ] as const;
  assert.deepEqual(outputs, [new Map<number, unknown>(expected)]);
  assert.deepEqual((await world.job(three)).children, [mailId]);
});

test("a parent's retries and failure keep a child waiting; its requeueing lets it go on", async () => {
  const world = await World.make();
  let fails = true;
  const finished: string[] = [];
  world.start([
    charge.handler(() => {
      if (fails) throw new Error("refused");
    }),
    mail.handler(() => void finished.push("mail")),
    report.handler(() => void finished.push("report")),
  ]);
  const parent = await world.client.enqueue(charge, { order: 1 });
  const child = await world.client.enqueue(mail, {}, { after: parent });
  const any = await world.client.enqueue(report, {}, { afterFinished: [parent] });
  await world.reach(parent, "failed", MINUTE);
  await world.reach(any, "succeeded", SECOND);
  await world.time.advance(MINUTE);
  assert.equal((await world.job(child)).state, "awaiting");
  fails = false;
  await world.client.requeue(parent);
  await world.reach(child, "succeeded", SECOND);
  assert.deepEqual(finished, ["report", "mail"]);
});

test("cancelling a running parent deletes what waits for its success, to any depth", async () => {
  const world = await World.make();
  const process = world.start([
    charge.handler((_job, { signal }) => world.work(10 * MINUTE, signal)),
    mail.handler(() => assert.fail("never runs")),
    report.handler(() => {}),
  ]);
  const parent = await world.client.enqueue(charge, { order: 1 });
  const child = await world.client.enqueue(mail, {}, { after: parent });
  const grandchild = await world.client.enqueue(mail, {}, { after: child });
  const any = await world.client.enqueue(report, {}, { afterFinished: grandchild });
  await world.reach(parent, "processing", SECOND);
  await world.client.delete(parent);
  await world.reach(any, "succeeded", SECOND);
  for (const [id, by] of [
    [child, parent],
    [grandchild, child],
  ] as const) {
    const { state, history } = await world.job(id);
    assert.deepEqual([state, history.map(({ reason }) => reason)], ["deleted", [`parent ${by} deleted`]]);
  }
  assert.equal((await world.client.counts()).deleted, 3);
  assert.equal(process.server.stats().cancelled, 1, "the server's own count is of what it ran");
});

test("outputs are read from interceptors too, and through a passing fault of the store", async () => {
  const world = await World.make();
  const seen: unknown[] = [];
  const read = async (job: Job): Promise<void> => {
    seen.push([job.kind, ...(await job.parentOutputs()).values()]);
  };
  const interceptor: HandlerInterceptor = async (job, _context, next) => {
    await read(job);
    return next();
  };
  const process = world.start(
    [
      charge.handler(() => "paid"),
      mail.handler(async (job) => {
        await world.work(100);
        process.link.down = true;
        const reading = read(job);
        await world.work(2 * SECOND);
        process.link.down = false;
        await reading;
      }),
    ],
    { interceptors: [interceptor] },
  );
  const parent = await world.client.enqueue(charge, { order: 1 });
  const child = await world.client.enqueue(mail, {}, { after: parent });
  await world.reach(child, "succeeded", MINUTE);
  assert.deepEqual(seen, [["charge"], ["mail", "paid"], ["mail", "paid"]]);
  assert.equal(process.link.calls.filter((call) => call === "outputs").length > 2, true, "it was asked again");
});

test("a job without parents has no outputs to read, and asks nobody", async () => {
  const world = await World.make();
  const seen: unknown[] = [];
  const process = world.start([mail.handler(async (job) => void seen.push(job.parents, await job.parentOutputs()))]);
  const id = await world.client.enqueue(mail, {});
  await world.reach(id, "succeeded", SECOND);
  assert.deepEqual(seen, [[], new Map()]);
  assert.ok(!process.link.calls.includes("outputs"));
});
