/** Limits as handlers see them: how many start in any window, and how many run at any instant. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { defineJob, type HandlerInterceptor, type JobDefinition } from "../../engine/job.ts";
import type { LimitOptions } from "../../engine/limit.ts";
import { START_SLACK } from "../../engine/server/attempt.ts";
import { MINUTE, type OpenStore, SECOND, STORES, World } from "./support.ts";

type Task = JobDefinition<{ n: number }>;
const limited = (limit: LimitOptions): Task => defineJob<{ n: number }>("task", { limit, backoff: () => 0 }) as Task;

function onEachStore(name: string, run: (open: OpenStore) => Promise<void>): void {
  for (const [store, open] of Object.entries(STORES)) test(`${store}: ${name}`, () => run(open));
}

/** What ran when, over all servers. */
class Starts {
  readonly at: number[] = [];
  readonly order: number[] = [];
  readonly #world: World;
  #running = 0;
  mostRunning = 0;

  constructor(world: World) {
    this.#world = world;
  }

  handler(task: Task, ms: (n: number) => number = () => 0) {
    return task.handler(async ({ args }, { signal }) => {
      this.at.push(this.#world.time.now);
      this.order.push(args.n);
      this.#running += 1;
      this.mostRunning = Math.max(this.mostRunning, this.#running);
      try {
        if (ms(args.n) > 0) await this.#world.work(ms(args.n), signal);
      } finally {
        this.#running -= 1;
      }
    });
  }

  /** Most starts in a closed window of this many milliseconds. */
  busiest(length: number): number {
    let [first, most] = [0, 0];
    this.at.forEach((moment, index) => {
      while (moment - (this.at[first] ?? 0) > length) first += 1;
      most = Math.max(most, index - first + 1);
    });
    return most;
  }
}

async function backlog(world: World, task: Task, count: number): Promise<number[]> {
  const specs = Array.from({ length: count }, (_, n) => task.spec({ n }));
  return (await world.client.enqueueMany(specs)).map(({ id }) => id);
}

const succeeded = async (world: World): Promise<number> => (await world.store.counts()).succeeded;

for (const { rate, per, burst } of [
  { rate: 10, per: SECOND, burst: 3 },
  { rate: 7, per: 997, burst: 1 },
  { rate: 100, per: MINUTE, burst: 100 },
]) {
  onEachStore(`many servers keep to ${rate} per ${per} ms with burst ${burst}, and use all of it`, async (open) => {
    const world = await World.make([], open);
    const starts = new Starts(world);
    const task = limited({ rate, per, burst });
    await backlog(world, task, 30 * rate);
    for (let n = 0; n < 4; n++)
      world.start([starts.handler(task, (job) => (job * 31) % 200)], { queues: { default: 8 } });
    await world.time.advance(20 * per);
    assert.ok(starts.busiest(per) <= rate + burst, `${starts.busiest(per)} in a window`);
    const allowance = 20 * rate + burst;
    assert.ok(starts.at.length >= 0.97 * allowance, `${starts.at.length} of ${allowance}`);
  });
}

onEachStore("workers that were busy do not make jobs start together", async (open) => {
  const world = await World.make([], open);
  const starts = new Starts(world);
  const task = limited({ rate: 20, burst: 2 });
  const other = defineJob("other", { priority: 1 });
  const blocker = other.handler((_job, { signal }) => world.work(3_500, signal));
  for (let n = 0; n < 3; n++) world.start([starts.handler(task), blocker], { queues: { default: 10 } });
  await backlog(world, task, 300);
  for (let round = 0; round < 3; round++) {
    await world.time.advance(SECOND);
    await world.client.enqueueMany(Array.from({ length: 30 }, () => other.spec({})));
    await world.time.advance(4 * SECOND);
  }
  assert.ok(starts.at.length > 50);
  assert.ok(starts.busiest(SECOND) <= 22, `${starts.busiest(SECOND)} in a second`);
});

/** Stalls: what the store admits meanwhile arrives at their end, all at once. */
async function stall(open: OpenStore, buggify: readonly string[]) {
  const world = await World.make([], open);
  const starts = new Starts(world);
  const task = limited({ rate: 20, burst: 4 });
  const ids = await backlog(world, task, 400);
  let end = 0;
  const admit = world.store.claim.bind(world.store);
  world.store.claim = async (query) => {
    const reply = await admit(query);
    // Replies without jobs come at once, or every server would wait for one and nothing more be admitted.
    if (reply.jobs.length > 0 && end > world.time.now) await world.work(end - world.time.now);
    return reply;
  };
  const start = () => world.start([starts.handler(task)], { queues: { default: 1 }, maintenance: false }, buggify);
  const processes = Array.from({ length: 60 }, start);
  await world.time.advance(SECOND);
  for (const length of [300, 700, 2_500, 4_000]) {
    end = world.time.now + length;
    await world.time.advance(length + 2 * SECOND);
  }
  return { world, starts, ids, processes };
}

onEachStore(
  "a store that stalls between admission and reply: starts stay within rate + burst + what starts late",
  async (open) => {
    const { world, starts, ids, processes } = await stall(open, []);
    const bound = 20 + 4 + Math.ceil((20 * START_SLACK) / SECOND);
    assert.ok(starts.busiest(SECOND) <= bound, `${starts.busiest(SECOND)} of ${bound} in a second`);
    await world.time.advance(MINUTE);
    assert.equal(await succeeded(world), ids.length, "what was handed back runs in the end");
    const late = (await Promise.all(ids.map((id) => world.job(id)))).filter(({ history }) => history.length > 0);
    assert.ok(late.length > 0);
    for (const { history, attempt } of late) {
      assert.ok(history.every(({ reason, state }) => reason === "late start" && state === "throttled"));
      assert.equal(attempt, 1, "without using an attempt");
    }
    const handedBack = processes.reduce((sum, { server }) => sum + server.stats().handedBack, 0);
    assert.equal(
      handedBack,
      late.reduce((sum, { history }) => sum + history.length, 0),
    );
    const warned = processes.map(({ logs }) => logs.filter((line) => /could not start in time/.test(line)));
    assert.ok(warned.some((lines) => lines.some((line) => /"limit":".+","after":[5-9]\d\d/.test(line))));
    assert.ok(
      warned.every((lines) => lines.length <= 2),
      "once in ten seconds, and the stalls take sixteen",
    );
  },
);

onEachStore("without the start slack such a stall breaks the bound", async (open) => {
  const { starts } = await stall(open, ["attempt.no-start-slack"]);
  assert.ok(starts.busiest(SECOND) > 20 + 4 + Math.ceil((20 * START_SLACK) / SECOND));
});

onEachStore("an interceptor that takes too long: the job is handed back and its handler not called", async (open) => {
  const world = await World.make([], open);
  const starts = new Starts(world);
  const task = limited({ rate: 1, per: "10s" });
  let calls = 0;
  const slow: HandlerInterceptor = async (_job, _context, next) => {
    calls += 1;
    if (calls === 1) await world.work(START_SLACK + 1);
    // What an interceptor makes of it does not count.
    return next().catch(() => "done");
  };
  world.start([starts.handler(task)], { interceptors: [slow] });
  const [id = 0] = await backlog(world, task, 1);
  await world.time.advance(SECOND);
  assert.deepEqual([(await world.job(id)).state, starts.at.length], ["throttled", 0]);
  const job = await world.reach(id, "succeeded", 20 * SECOND);
  assert.deepEqual([job.attempt, starts.at.length, calls], [1, 1, 2]);
});

onEachStore("a job limited by max alone may start as late as it likes", async (open) => {
  const world = await World.make([], open);
  const starts = new Starts(world);
  const task = limited({ max: 1 });
  const process = world.start([starts.handler(task)]);
  process.link.delayReply.set("claim", 2 * SECOND);
  const [id = 0] = await backlog(world, task, 1);
  const job = await world.reach(id, "succeeded", 10 * SECOND);
  assert.deepEqual(job.history, []);
});

onEachStore("never more than max run at any instant, also through kills, rescues and retries", async (open) => {
  const world = await World.make([], open);
  const task = limited({ max: 3 });
  const starts = new Starts(world);
  const boot = () => world.start([starts.handler(task, (n) => 500 + ((n * 131) % 3_000))], { queues: { default: 5 } });
  const processes = [boot(), boot(), boot()];
  const ids = await backlog(world, task, 60);
  let most = 0;
  for (let step = 0; step < 3_000; step++) {
    await world.time.advance(100);
    most = Math.max(most, (await world.store.counts()).processing);
    if (step % 200 === 50) {
      processes.shift()?.kill();
      processes.push(boot());
    }
  }
  await world.time.advance(3 * MINUTE);
  assert.equal(await succeeded(world), ids.length);
  assert.equal(most, 3);
  assert.equal(starts.mostRunning, 3, "handlers of servers that were declared dead have stopped before");
});

onEachStore("the most urgent job of a key goes first, whenever it came", async (open) => {
  const world = await World.make([], open);
  const starts = new Starts(world);
  const task = limited({ rate: 1, burst: 1 });
  world.start([starts.handler(task)]);
  await backlog(world, task, 4);
  await world.time.advance(1_500);
  await world.client.enqueue(task, { n: 100 }, { priority: 5 });
  await world.client.enqueue(task, { n: 200 }, { priority: 9 });
  await world.time.advance(10 * SECOND);
  assert.deepEqual(starts.order, [0, 1, 200, 100, 2, 3]);
});

onEachStore("waiting for a rate costs no polling: the next start is exactly at the opening", async (open) => {
  const world = await World.make([], open);
  const starts = new Starts(world);
  const task = limited({ rate: 1, per: "7s", burst: 1 });
  const process = world.start([starts.handler(task)], { pollInterval: "1h" });
  await world.time.advance(SECOND);
  await backlog(world, task, 20);
  await world.time.advance(10);
  process.link.calls.length = 0;
  await world.time.advance(19 * 7 * SECOND);
  const [first = 0] = starts.at;
  assert.deepEqual(
    starts.at,
    Array.from({ length: 20 }, (_, n) => first + n * 7 * SECOND),
  );
  const claims = process.link.calls.filter((call) => call === "claim").length;
  assert.ok(claims <= 3 * 20, `${claims} claims for 19 jobs`);
});

onEachStore("a place that becomes free is taken at once, on another server too", async (open) => {
  const world = await World.make([], open);
  const starts = new Starts(world);
  const task = limited({ max: 1 });
  for (let n = 0; n < 2; n++)
    world.start([starts.handler(task, () => 100)], { pollInterval: "1h", queues: { default: 1 } });
  await world.time.advance(SECOND);
  await backlog(world, task, 10);
  await world.time.advance(1_000 + 100);
  assert.equal(await succeeded(world), 10);
});

onEachStore("one hot key and 32 workers: the bound, and at least 97 % of the allowance", async (open) => {
  const world = await World.make([], open);
  const starts = new Starts(world);
  const task = limited({ rate: 50, burst: 5 });
  world.start([starts.handler(task, () => 15)], { queues: { default: 32 } });
  await backlog(world, task, 1_100);
  await world.time.advance(20 * SECOND);
  assert.ok(starts.busiest(SECOND) <= 55);
  assert.ok(starts.at.length >= 0.97 * (20 * 50 + 5), `${starts.at.length}`);
});

onEachStore("10,000 keys: each at its own pace", async (open) => {
  const world = await World.make([], open);
  const starts = new Starts(world);
  const task = limited({});
  const keys = 10_000;
  const specs = Array.from({ length: 2 * keys }, (_, n) => {
    return task.spec({ n: n % keys }, { limit: { key: `key ${n % keys}`, rate: 1, per: "1m", burst: 1 } });
  });
  await world.client.enqueueMany(specs);
  world.start([starts.handler(task)], { queues: { default: 500 }, timeout: false });
  await world.time.advance(30 * SECOND);
  assert.equal(new Set(starts.order).size, keys, "the first of each");
  assert.equal(starts.order.length, keys, "and no second one");
  await world.time.advance(MINUTE);
  assert.equal(starts.order.length, 2 * keys);
});

onEachStore(
  "delayed, retried and snoozed jobs are admitted again, and transitions say where they come from",
  async (open) => {
    const world = await World.make([], open);
    const task = limited({ rate: 1, per: "10s" });
    const at: number[] = [];
    const handler = task.handler(() => {
      at.push(world.time.now);
      if (at.length < 3) throw new Error("again");
    });
    const process = world.start([handler]);
    const events = process.server.events();
    const start = world.time.now;
    const id = await world.client.enqueue(task, { n: 1 }, { delay: "3s" });
    await world.reach(id, "succeeded", MINUTE);
    assert.deepEqual(
      at.map((moment) => moment - start),
      [3_000, 13_000, 23_000],
    );
    const moves: string[] = [];
    for (let n = 0; n < 6; n++) {
      const { value } = await events.next();
      if (value?.type === "transition") moves.push(`${value.from} ${value.to}`);
    }
    assert.deepEqual(moves.slice(0, 2), ["throttled processing", "processing throttled"]);
    assert.equal(moves.at(-1), "processing succeeded");
  },
);
