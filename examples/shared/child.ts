/** What a child process does: it works until its parent says stop, or is gone. */
import type { Server } from "kiln";
import type { WorkerLog } from "./workers.ts";

/** Runs a server. */
export async function runChild(
  stop: AbortSignal,
  log: WorkerLog,
  makeServer: (worker: number, onProblem: (text: string) => void) => Server,
): Promise<void> {
  const worker = await log.addWorker(process.pid);
  const onProblem = (text: string): void => {
    if (process.connected) process.send?.(text);
  };
  await makeServer(worker, onProblem).run({ signal: stop });
  await log.noteDeath(worker);
}

/** Aborted when the parent has disconnected or ended. Ctrl-C in a terminal reaches all processes: it alone obeys. */
export function untilParentIsGone(): AbortSignal {
  process.on("SIGINT", () => {});
  const stop = new AbortController();
  process.on("disconnect", () => stop.abort());
  if (!process.connected) stop.abort();
  return stop.signal;
}
