/** What jobs of a scenario do when they run: they work, end as planned, and obey their signal or not. */
import { sleep, withDeadline } from "../../engine/async.ts";
import { PermanentError, SnoozeError } from "../../engine/errors.ts";
import { defineJob, Handler, type HandlerContext, type Job } from "../../engine/job.ts";
import type { Running } from "../cluster/cluster.ts";
import type { Obedience, RunPlan, Scenario } from "../scenario/scenario.ts";
import type { Incarnation } from "../world/process.ts";
import type { World } from "../world/world.ts";
import type { History } from "./history.ts";

/** `plan` is the index of the job's plan, or of the recurring job's. */
export const planned = defineJob<{ plan: number }>("planned");
export const recurring = defineJob<{ plan: number }>("recurring");

const SNOOZE = 7_000;

/** When nothing goes wrong any more, neither do handlers: those that hang return, and the others no longer fail. */
export class Health {
  healed = false;
  readonly #waiting = new Set<() => unknown>();

  heal(): void {
    this.healed = true;
    for (const resolve of [...this.#waiting]) resolve();
    this.#waiting.clear();
  }

  /** Resolves when all is healed or the signal aborts. */
  hang(incarnation: Incarnation, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.healed || signal.aborted) return resolve();
      // Not in a process that is gone.
      this.#waiting.add(() => incarnation.turn().then(resolve));
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}

export interface HandlerDeps {
  readonly world: World;
  readonly history: History;
  readonly scenario: Scenario;
  readonly health: Health;
  /** Enqueues one more job of this plan through the server's own client. */
  readonly enqueue: (plan: number, context: HandlerContext) => Promise<void>;
}

export function handlersFor(deps: HandlerDeps, running: Running): readonly Handler[] {
  const { jobs, recurring: recurrences } = deps.scenario;
  const { health, enqueue } = deps;
  const { incarnation } = running;
  const handlers = [
    planned.handler(async (job, context) => {
      const plan = jobs[job.args.plan];
      const run = plan?.runs[Math.min(job.attempt, plan.runs.length) - 1];
      if (plan === undefined || run === undefined) throw new PermanentError(`no plan ${job.args.plan}`);
      await act(health, incarnation, run, plan.obeys, job, context, enqueue);
    }),
    recurring.handler(async (job, context) => {
      const run = recurrences[job.args.plan]?.run;
      if (run === undefined) throw new PermanentError(`no plan ${job.args.plan}`);
      await act(health, incarnation, run, 0, job, context, enqueue);
    }),
  ] as readonly Handler[];
  return handlers.map((handler) => recorded(deps, running, handler));
}

/** The same handler, with its starts, aborts and ends in the history. */
export function recorded(
  { world, history }: Pick<HandlerDeps, "world" | "history">,
  { incarnation, claims }: Running,
  handler: Handler,
): Handler {
  return new Handler(handler.definition, async (job: Job, context) => {
    const { signal } = context;
    const claim = claims.get(job.id) ?? 0;
    const of = { incarnation: incarnation.name, job: job.id, claim, attempt: job.attempt };
    history.add({ type: "start", at: world.now, ...of });
    signal.addEventListener("abort", () => {
      const reason = (signal.reason as Error).name;
      history.add({ type: "abort", at: world.now, ...of, reason });
    });
    let how = "returned";
    try {
      return await handler.run(job, context);
    } catch (error) {
      how = error instanceof Error ? error.name : String(error);
      throw error;
    } finally {
      history.add({ type: "end", at: world.now, ...of, how });
    }
  });
}

async function act(
  health: Health,
  incarnation: Incarnation,
  run: RunPlan,
  obeys: Obedience,
  job: Job,
  context: HandlerContext,
  enqueue: HandlerDeps["enqueue"],
): Promise<void> {
  const { signal } = context;
  const wait = (ms: number): Promise<void> => workFor(incarnation, ms, obeys, signal);
  if (run.end === "block" && !health.healed) {
    block(incarnation, run.work);
    await sleep(incarnation.outside, 0, never());
  } else {
    await wait(run.work / 2);
    if (run.checkpoint) {
      job.progress(50);
      job.log("half way");
      await job.setParam("half", job.attempt);
    }
    const { enqueues } = run;
    if (enqueues !== null && !health.healed) {
      // A request may get lost, and a handler that obeys does not wait for it when it is told to stop.
      const giveUp = obeys === null ? never() : signal;
      await withDeadline(incarnation.outside, "enqueue", 5_000, () => enqueue(enqueues, context), { signal: giveUp });
    }
    await wait(run.work / 2);
  }
  if (health.healed) return;
  if (run.end === "hang") await hang(health, incarnation, obeys, signal);
  if (run.end === "throw") throw new Error("planned to fail");
  if (run.end === "permanent") throw new PermanentError("planned to fail for good");
  if (run.end === "snooze" && job.attempt < 3) throw new SnoozeError(SNOOZE);
}

/** One for each wait: a killed process never ends its own, and a signal for all would keep its whole world alive. */
const never = (): AbortSignal => new AbortController().signal;

/** Works for so long; once told to stop, gives up when it obeys. */
async function workFor(incarnation: Incarnation, ms: number, obeys: Obedience, signal: AbortSignal): Promise<void> {
  if (obeys === null) return sleep(incarnation.outside, ms, never());
  const until = incarnation.monotonic() + ms;
  await sleep(incarnation.outside, ms, signal);
  if (!signal.aborted) return;
  await sleep(incarnation.outside, Math.min(obeys, Math.max(until - incarnation.monotonic(), 0)), never());
  throw signal.reason;
}

async function hang(health: Health, incarnation: Incarnation, obeys: Obedience, signal: AbortSignal): Promise<void> {
  await health.hang(incarnation, obeys === null ? never() : signal);
  if (!signal.aborted || obeys === null) return;
  await sleep(incarnation.outside, obeys, never());
  throw signal.reason;
}

/** A handler that computes without pause: its process does nothing else meanwhile. */
function block(incarnation: Incarnation, ms: number): void {
  incarnation.process.block(ms);
}
