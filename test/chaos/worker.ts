/** `worker.ts DATABASE LOG`: one of the servers of the chaos. Writes down when each run of a handler starts and ends. */
import { openSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { FencedError, ShutdownError } from "../../engine/errors.ts";
import type { Handler, HandlerFunction, JobDefinition } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { capped, delayed, flaky, hopeless, LIMITED_WORK, plain, rated, ratedAndCapped, slow } from "./jobs.ts";
import { sharedNow, writeLine } from "./log.ts";
import type { RunEnd } from "./verdict.ts";

const [, , database = "", log = ""] = process.argv;
const fd = openSync(log, "a");

/** A worker that the test has left behind must not live on. */
const leftBehind = (): never => process.exit(1);
process.once("disconnect", leftBehind);

function logged<Input, Args>(definition: JobDefinition<Input, Args>, work: HandlerFunction<Args, unknown>): Handler {
  return definition.handler(async (job, context) => {
    const { id, attempt } = job;
    const end = (how: RunEnd): void => writeLine(fd, { type: "end", id, attempt, at: sharedNow(), how });
    writeLine(fd, { type: "start", id, attempt, at: sharedNow() });
    try {
      await work(job, context);
    } catch (error) {
      const { reason } = context.signal;
      end(reason instanceof ShutdownError ? "shutdown" : reason instanceof FencedError ? "fenced" : "threw");
      throw error;
    }
    end("returned");
  });
}

const handlers = [
  logged(plain, () => {}),
  logged(delayed, () => {}),
  logged(flaky, ({ attempt, args }) => {
    if (attempt <= args.failures) throw new Error(`failure ${attempt} of ${args.failures}`);
  }),
  logged(hopeless, () => {
    throw new Error("as always");
  }),
  logged(slow, ({ args }, { signal }) => setTimeout(args.ms, undefined, { signal })),
  ...[rated, capped, ratedAndCapped].map((definition) =>
    logged(definition, (_job, { signal }) => setTimeout(LIMITED_WORK, undefined, { signal })),
  ),
];

const store = await SqliteStore.open({ path: database });
const server = new Server(store, {
  handlers,
  queues: { default: 20 },
  heartbeatInterval: "200ms",
  killGrace: "200ms",
  // The least that is allowed.
  deadAfter: "5801ms",
  leaderTtl: "1s",
  shutdownTimeout: "50ms",
  logger: {
    debug: () => {},
    info: () => {},
    warn: (message, fields) => console.error(message, fields),
    error: (message, fields) => console.error(message, fields),
  },
});
const { id } = server;
await server.runUntilSignal();
// Where nothing but this test runs, it never is; on a machine that stands still for seconds it may be.
if (server.id !== id) writeLine(fd, { type: "declared dead" });
await store.close();
process.off("disconnect", leftBehind);
process.disconnect();
