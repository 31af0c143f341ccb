/** `wake-up-child.ts FILE`: a server that says when each job starts. */
import { defineJob } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";

export const PING = defineJob<{ readonly n: number }>("ping");

/** `at` is of the clock that all processes of a machine share, in nanoseconds. */
export interface Started {
  readonly at: string;
}

async function main(path: string): Promise<void> {
  const store = await SqliteStore.open({ path });
  const tell = (message: Started | "ready"): boolean => process.send?.(message) ?? false;
  const handler = PING.handler(() => {
    tell({ at: String(process.hrtime.bigint()) });
  });
  const server = new Server(store, { handlers: [handler], queues: { default: 10 } });
  const run = server.runUntilSignal();
  while (!server.stats().listening || server.stats().heartbeatAge === null) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  tell("ready");
  await run;
  await store.close();
  process.disconnect?.();
}

const [, , path] = process.argv;
if (import.meta.main && path !== undefined) await main(path);
