/** `cancel-child.ts DATABASE`: a server in a process of its own that says what becomes of the jobs it runs. */
import { setTimeout } from "node:timers/promises";
import { CancelledError } from "../../engine/errors.ts";
import { defineJob } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import type { JobId } from "../../engine/store.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { sharedNow } from "../chaos/log.ts";

export const endless = defineJob("endless");

/** Heartbeats and polls do not help: the longest that a server may be told. */
export const RARELY = { pollInterval: "1h", heartbeatInterval: "5m", deadAfter: "1h" } as const;

/** `at`: when the handler saw it, on the clock of `sharedNow`. */
export type Said =
  | { readonly type: "running"; readonly id: JobId }
  | { readonly type: "aborted"; readonly id: JobId; readonly at: number; readonly cancelled: boolean };

const say = (said: Said): unknown => process.send?.(said);

async function serve(path: string): Promise<void> {
  const store = await SqliteStore.open({ path });
  const handler = endless.handler(async ({ id }, { signal }) => {
    const seen = (): unknown =>
      say({ type: "aborted", id, at: sharedNow(), cancelled: signal.reason instanceof CancelledError });
    signal.addEventListener("abort", seen, { once: true });
    say({ type: "running", id });
    await setTimeout(3_600_000, undefined, { signal });
  });
  const server = new Server(store, { handlers: [handler], queues: { default: 20 }, ...RARELY });
  // A server that the test has left behind must not live on.
  process.once("disconnect", () => process.exit(1));
  await server.runUntilSignal();
  await store.close();
  process.exit(0);
}

const [, main, path = ""] = process.argv;
if (main === import.meta.filename) await serve(path);
