/** `delay-child.ts FILE`: a server whose jobs become due one by one; sends how late they, and timers beside them, were. */
import { Client } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";

/** Milliseconds, one for each job and for each timer. */
export interface Late {
  readonly jobs: readonly number[];
  readonly timers: readonly number[];
}

const JOBS = 600;
/** The first is due after so long, and the others follow at this mean distance; milliseconds. */
const FIRST = 1_500;
const APART = 15;

const alarm = defineJob<{ readonly n: number }>("alarm");

async function main(path: string): Promise<void> {
  const store = await SqliteStore.open({ path });
  const jobs: number[] = [];
  const timers: number[] = [];
  const stop = new AbortController();
  const handler = alarm.handler(({ runAt }) => {
    jobs.push(Date.now() - runAt.getTime());
    if (jobs.length === JOBS) stop.abort();
  });
  const server = new Server(store, { handlers: [handler], queues: { default: 10 } });
  const run = server.run({ signal: stop.signal });
  // Not in step with anything, and each job alone: the server is idle before it.
  const delays = Array.from({ length: JOBS }, (_, n) => FIRST + (n + Math.random() * 0.6) * APART);
  await new Client(store).enqueueMany(delays.map((delay, n) => alarm.spec({ n }, { delay: Math.round(delay) })));
  for (const delay of delays) {
    const due = performance.now() + delay + APART * 0.8;
    setTimeout(() => timers.push(performance.now() - due), delay + APART * 0.8);
  }
  await run;
  await store.close();
  process.send?.({ jobs, timers } satisfies Late);
  process.disconnect?.();
}

const [, , path] = process.argv;
if (import.meta.main && path !== undefined) await main(path);
