/** Runs an example's jobs, in this process or in others, while its progress is shown. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, KilnError, type Server } from "kiln";
import { UserError } from "./problem.ts";
import { type WorkerLog, Workers, type WorkersOptions } from "./workers.ts";

/** How often the progress is read, milliseconds. */
const INTERVAL = 200;

export interface Watch<View> {
  /** Reads the progress and shows it. */
  readonly look: () => Promise<View>;
  /** Done after each look, as long as there is something left to do. */
  readonly each?: (view: View) => Promise<void>;
  /** Aborted when the user has had enough. */
  readonly stop: AbortSignal;
}

/** Looks again and again until all is done, or the user has had enough: false. */
async function watch<View extends { readonly drained: boolean }>({ look, each, stop }: Watch<View>): Promise<boolean> {
  for (;;) {
    const view = await look();
    if (view.drained) return true;
    if (stop.aborted) return false;
    await each?.(view);
    await sleep(INTERVAL, undefined, { signal: stop }).catch(() => {});
  }
}

/** Runs all jobs in this process. False = stopped before the end. */
export async function runServer<View extends { readonly drained: boolean }>(
  log: WorkerLog,
  makeServer: (worker: number) => Server,
  watched: Watch<View>,
): Promise<boolean> {
  const worker = await log.addWorker(process.pid);
  const stop = new AbortController();
  const running = makeServer(worker).run({ signal: stop.signal });
  try {
    return await watch(watched);
  } finally {
    stop.abort();
    await running;
    await log.noteDeath(worker);
  }
}

export interface KillPlan<View> {
  readonly client: Client;
  readonly log: WorkerLog;
  /** A process is killed as soon as this is so, */
  readonly when: (view: View) => boolean;
  /** and it is running a job of one of these kinds, the first ones first. */
  readonly kinds: readonly string[];
  readonly line: (text: string) => void;
}

/** Runs all jobs in other processes and kills one of them on the way. False = stopped before the end. */
export async function runWorkers<View extends { readonly drained: boolean }>(
  options: WorkersOptions,
  { client, log, when, kinds, line }: KillPlan<View>,
  { look, each, stop }: Watch<View>,
): Promise<boolean> {
  const workers = new Workers(options);
  line(`running in processes ${workers.pids.join(", ")}`);
  let killed = false;
  const eachWithKill = async (view: View): Promise<void> => {
    workers.check();
    await each?.(view);
    if (killed || !when(view)) return;
    const victim = await workers.kill(client, log, kinds);
    if (victim === null) return;
    killed = true;
    line(`killed process ${victim.pid} while it held ${victim.jobs} jobs; the others take them over soon`);
  };
  try {
    return await watch({ look, each: eachWithKill, stop });
  } finally {
    await workers.stop();
  }
}

/** Aborted by the first SIGINT or SIGTERM; the next one ends the process at once. */
export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  const onSignal = (): void => {
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
    stop.abort();
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return stop.signal;
}

/** Exits with what `main` returns; 2 for what the user can put right, 1 for any other failure. */
export async function runMain(main: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await main();
  } catch (error) {
    if (error instanceof UserError) {
      console.error(error.message);
      process.exitCode = 2;
    } else {
      console.error(error instanceof KilnError ? error.message : error);
      process.exitCode = 1;
    }
  }
}
