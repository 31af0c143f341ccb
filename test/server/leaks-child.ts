/**
 * `leaks-child.ts STORE FILE`: runs rounds of jobs on one server and prints what they left behind, as JSON. In a process
 * of its own, because the test runner keeps books of every promise. Needs `--expose-gc`.
 */
import { getEventListeners } from "node:events";
import { setTimeout } from "node:timers/promises";
import { Client } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import type { Store } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";

const JOBS = 10_000;
const WARM_UP_ROUNDS = 2;
const ROUNDS = 3;
const WORKERS = 100;
const HOUR = 3_600_000;

export interface Leaks {
  /** Bytes that the heap has grown by in the rounds after the warm-up. */
  readonly heap: number;
  /** Listeners on the process that came in them. */
  readonly processListeners: number;
  /** The most listeners that one signal had after another round, of all the signals that were listened to in it. */
  readonly signalListeners: number;
  /** The same after the end of the server, without the signals that its jobs were given. */
  readonly signalListenersAtEnd: number;
  /** Such as MaxListenersExceededWarning. */
  readonly warnings: readonly string[];
}

async function measure(store: Store): Promise<Leaks> {
  const warnings: string[] = [];
  process.on("warning", ({ name, message }) => warnings.push(`${name}: ${message}`));
  const ofJobs = new WeakSet<AbortSignal>();
  const noop = defineJob("noop");
  const handler = noop.handler((_job, { signal }) => {
    ofJobs.add(signal);
    signal.addEventListener("abort", () => {});
  });
  const server = new Server(store, { handlers: [handler], queues: { default: WORKERS } });
  const client = new Client(store);
  const stop = new AbortController();
  const ended = server.run({ signal: stop.signal });
  let total = 0;
  const round = async (): Promise<void> => {
    total += JOBS;
    await client.enqueueMany(Array.from({ length: JOBS }, () => noop.spec({})));
    while (server.stats().succeeded < total) await setTimeout(2);
    await store.prune({ succeeded: 0, deleted: 0, failed: 0, servers: HOUR, stats: HOUR, limit: JOBS });
  };

  for (let n = 0; n < WARM_UP_ROUNDS; n += 1) await round();
  const listeners = processListeners();
  const before = heapUsed();
  for (let n = 0; n < ROUNDS; n += 1) await round();
  const heap = heapUsed() - before;

  const signals = watchSignals();
  await round();
  const signalListeners = mostListeners(signals);
  const left = { heap, signalListeners, processListeners: processListeners() - listeners };
  stop.abort();
  await ended;
  await store.close();
  const others = [...signals].filter((signal) => !ofJobs.has(signal));
  return { ...left, signalListenersAtEnd: mostListeners(others), warnings };
}

function processListeners(): number {
  return process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
}

function heapUsed(): number {
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

/** Gathers every signal that anyone listens to from now on. */
function watchSignals(): Set<AbortSignal> {
  const signals = new Set<AbortSignal>();
  const { addEventListener } = EventTarget.prototype;
  EventTarget.prototype.addEventListener = function watched(this: EventTarget, ...args) {
    if (this instanceof AbortSignal) signals.add(this);
    return Reflect.apply(addEventListener, this, args);
  };
  return signals;
}

function mostListeners(signals: Iterable<AbortSignal>): number {
  let most = 0;
  for (const signal of signals) most = Math.max(most, getEventListeners(signal, "abort").length);
  return most;
}

const [, , name, path = ""] = process.argv;
const store = name === "memory" ? await MemoryStore.open() : await SqliteStore.open({ path, durability: "normal" });
process.stdout.write(JSON.stringify(await measure(store)));
