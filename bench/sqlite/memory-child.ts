/** `memory-child.ts FILE KIND`: a server for one kind; sends its memory once it has run for a while. */
import { setTimeout } from "node:timers/promises";
import { defineJob } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { QUEUE } from "./files.ts";

/** Bytes. */
export interface Memory {
  readonly rss: number;
}

/** Long enough for a few polls and for the leader's first round of duties; milliseconds. */
const WHILE = 3_000;
const WORKERS = 10;

async function main(path: string, kind: string): Promise<void> {
  const store = await SqliteStore.open({ path });
  const handler = defineJob(kind).handler((_job, { signal }) => {
    return new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  });
  const server = new Server(store, { handlers: [handler], queues: { [QUEUE]: WORKERS }, shutdownTimeout: 0 });
  const run = server.runUntilSignal();
  await setTimeout(WHILE);
  globalThis.gc?.();
  process.send?.({ rss: process.memoryUsage.rss() } satisfies Memory);
  await run;
  await store.close();
  process.disconnect?.();
}

const [, , path, kind] = process.argv;
if (path !== undefined && kind !== undefined) await main(path, kind);
