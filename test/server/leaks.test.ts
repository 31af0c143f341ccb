/** After `run` nothing of a server remains, and while it runs jobs leave nothing behind. Real time, handles and heap. */
import assert from "node:assert/strict";
import { execFile as execFileCallback } from "node:child_process";
import { getEventListeners } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import { constant, snooze } from "../../engine/retry.ts";
import type { ServerConfig } from "../../engine/server/config.ts";
import { Server } from "../../engine/server/server.ts";
import type { Store } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import type { Leaks } from "./leaks-child.ts";

const execFile = promisify(execFileCallback);

const MEGABYTE = 2 ** 20;
/** Of 30,000 jobs: 52 bytes for each. Optimised code and inline caches alone were seen to take two thirds of it. */
const HEAP_LIMIT = 1.5 * MEGABYTE;

let directory: string;
before(async () => {
  directory = await mkdtemp(join(tmpdir(), "kiln-leaks-"));
});
after(() => rm(directory, { recursive: true, force: true }));

/** Warnings such as MaxListenersExceededWarning, and rejections that nobody handled. */
let complaints: unknown[] = [];
const complain = (what: unknown): void => {
  complaints.push(what);
};
beforeEach(() => {
  complaints = [];
  process.on("warning", complain);
  process.on("unhandledRejection", complain);
});
afterEach(() => {
  process.off("warning", complain);
  process.off("unhandledRejection", complain);
  assert.deepEqual(complaints, []);
});

const STORES: readonly (readonly [name: string, open: (name: string) => Promise<Store>])[] = [
  ["memory", () => MemoryStore.open()],
  ["SQLite", (name) => SqliteStore.open({ path: join(directory, `${name}.db`), durability: "normal" })],
];

async function until(done: () => boolean): Promise<void> {
  while (!done()) await setTimeout(2);
}

/** Everything of this process that a server or a store could leave behind. */
async function left(): Promise<unknown> {
  // A handle that was closed is given back in the next turn of the event loop.
  await setTimeout(0);
  const names = process.eventNames();
  return {
    listeners: Object.fromEntries(names.map((name) => [String(name), process.listenerCount(name)])),
    resources: process.getActiveResourcesInfo().toSorted(),
    files: openFiles(),
  };
}

/** The files of the stores that are open; known on Linux only. */
function openFiles(): string[] {
  if (process.platform !== "linux") return [];
  const targets = readdirSync("/proc/self/fd").map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      // The one that the directory itself was read with.
      return "";
    }
  });
  return targets.filter((target) => target.startsWith(directory)).toSorted();
}

function countSubscriptions(store: Store): { readonly open: number } {
  const counter = { open: 0 };
  const subscribe = store.subscribe.bind(store);
  store.subscribe = (listener) => {
    const unsubscribe = subscribe(listener);
    counter.open += 1;
    return async () => {
      await unsubscribe();
      counter.open -= 1;
    };
  };
  return counter;
}

/** All kinds of ends that leave the server something to tidy up. */
const variety = {
  quick: defineJob("quick"),
  failing: defineJob("failing", { maxAttempts: 2, backoff: constant(5) }),
  snoozing: defineJob<{ readonly until: number }>("snoozing"),
  timing: defineJob("timing", { timeout: 20, maxAttempts: 1 }),
  stalling: defineJob("stalling", { stallTimeout: 20, maxAttempts: 1 }),
  open: defineJob("open"),
};

const waitForAbort = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

const handlers: ServerConfig["handlers"] = [
  variety.quick.handler(() => "done"),
  variety.failing.handler(() => {
    throw new Error("no");
  }),
  variety.snoozing.handler(({ args }) => {
    if (Date.now() < args.until) throw snooze(5);
  }),
  variety.timing.handler((_job, { signal }) => waitForAbort(signal)),
  variety.stalling.handler((_job, { signal }) => waitForAbort(signal)),
  variety.open.handler((_job, { signal }) => waitForAbort(signal)),
];

async function enqueueVariety(client: Client): Promise<void> {
  await client.enqueue(variety.quick, {});
  await client.enqueue(variety.failing, {});
  await client.enqueue(variety.snoozing, { until: Date.now() + 20 });
  await client.enqueue(variety.timing, {});
  await client.enqueue(variety.stalling, {});
  await client.enqueue(variety.open, {});
  await client.enqueue(variety.quick, {}, { delay: "1h" });
}

for (const [name, open] of STORES) {
  for (const how of ["run", "runUntilSignal"] as const) {
    test(`nothing remains after ${how} on ${name}`, async (t) => {
      const beforeStore = await left();
      const store = await open(how);
      const stop = new AbortController();
      // Also after a failure, so that it is seen.
      t.after(async () => {
        stop.abort();
        process.emit("SIGTERM");
        await store.close();
      });
      const subscriptions = countSubscriptions(store);
      await enqueueVariety(new Client(store));
      const beforeServer = await left();
      const server = new Server(store, { handlers, queues: { default: 10 }, shutdownTimeout: 10 });
      const events = server.events();
      const ended = how === "run" ? server.run({ signal: stop.signal }) : server.runUntilSignal();
      // All but the one that waits for the end and the one of the next hour.
      await until(() => server.stats().succeeded === 2 && server.stats().dead === 3 && server.stats().inFlight === 1);
      assert.equal(subscriptions.open, 1);
      if (how === "run") stop.abort();
      else process.emit("SIGTERM");
      await ended;

      assert.deepEqual(await left(), beforeServer);
      assert.deepEqual(getEventListeners(stop.signal, "abort"), []);
      assert.equal(subscriptions.open, 0);
      const { handedBack, inFlight, pending, listening } = server.stats();
      const atEnd = { handedBack: 1, inFlight: 0, pending: 0, listening: false };
      assert.deepEqual({ handedBack, inFlight, pending, listening }, atEnd);
      let seen = 0;
      for await (const _event of events) seen += 1;
      assert.ok(seen > 0, "the events end too");
      await store.close();
      assert.deepEqual(await left(), beforeStore);
    });
  }

  test(`10,000 jobs add no listeners and no heap on ${name}`, async () => {
    const { heap, warnings, signalListeners, ...none } = await measureLeaks(name, join(directory, "heap.db"));
    assert.ok(heap < HEAP_LIMIT, `the heap grew by ${(heap / MEGABYTE).toFixed(1)} MiB`);
    // The leader's four duties wait on one signal.
    assert.ok(signalListeners <= 4, `a signal has ${signalListeners} listeners`);
    assert.deepEqual(none, { processListeners: 0, signalListenersAtEnd: 0 });
    assert.deepEqual(warnings, []);
  });
}

async function measureLeaks(...args: readonly string[]): Promise<Leaks> {
  const child = join(import.meta.dirname, "leaks-child.ts");
  const { stdout, stderr } = await execFile(process.execPath, [
    "--conditions=kiln-source",
    "--expose-gc",
    child,
    ...args,
  ]);
  assert.equal(stderr, "");
  return JSON.parse(stdout) as Leaks;
}
