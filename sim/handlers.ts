/** What jobs of a scenario do when they run: they work, end as planned, and obey their signal or not. */
import { sleep, withDeadline } from "../engine/async.ts";
import { PermanentError, SnoozeError } from "../engine/errors.ts";
import { defineJob, type Handler, type HandlerContext, type Job } from "../engine/job.ts";
import type { Running } from "./cluster.ts";
import type { History } from "./history.ts";
import type { Incarnation } from "./process.ts";
import type { Obedience, RunPlan, Scenario } from "./scenario.ts";
import type { World } from "./world.ts";

/** `plan` is the index of the job's plan, or of the recurring job's. */
export const planned = defineJob<{ plan: number }>("planned");
export const recurring = defineJob<{ plan: number }>("recurring");

const SNOOZE = 7_000;

/** When nothing goes wrong any more, neither do handlers: those that hang return, and the others no longer fail. */
export class Health {
  healed = false;
  readonly #waiting = new Set<() => void>();

  heal(): void {
    this.healed = true;
    for (const resolve of [...this.#waiting]) resolve();
    this.#waiting.clear();
  }

  /** Resolves when all is healed or the signal aborts. */
  hang(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.healed || signal.aborted) return resolve();
      this.#waiting.add(resolve);
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
  return [
    planned.handler(async (job, context) => {
      const plan = jobs[job.args.plan];
      const run = plan?.runs[Math.min(job.attempt, plan.runs.length) - 1];
      if (plan === undefined || run === undefined) throw new PermanentError(`no plan ${job.args.plan}`);
      await work(deps, running, run, plan.obeys, job, context);
    }),
    recurring.handler(async (job, context) => {
      const run = recurrences[job.args.plan]?.run;
      if (run === undefined) throw new PermanentError(`no plan ${job.args.plan}`);
      await work(deps, running, run, 0, job, context);
    }),
  ] as readonly Handler[];
}

async function work(
  { world, history, health, enqueue }: HandlerDeps,
  { incarnation, claims }: Running,
  run: RunPlan,
  obeys: Obedience,
  job: Job,
  context: HandlerContext,
): Promise<void> {
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
    await act(health, incarnation, run, obeys, job, context, enqueue);
  } catch (error) {
    how = (error as Error).name;
    throw error;
  } finally {
    history.add({ type: "end", at: world.now, ...of, how });
  }
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
    await sleep(incarnation, 0, NEVER);
  } else {
    await wait(run.work / 2);
    if (run.checkpoint) {
      job.progress(50);
      job.log("half way");
      await job.setParam("half", job.attempt);
    }
    const next = run.enqueues;
    // As a driver of a database does: the reply may be lost.
    if (next !== null && !health.healed) {
      await withDeadline(incarnation, "enqueue", 5_000, () => enqueue(next, context));
    }
    await wait(run.work / 2);
  }
  if (health.healed) return;
  if (run.end === "hang") await hang(health, incarnation, obeys, signal);
  if (run.end === "throw") throw new Error("planned to fail");
  if (run.end === "permanent") throw new PermanentError("planned to fail for good");
  if (run.end === "snooze" && job.attempt < 3) throw new SnoozeError(SNOOZE);
}

const NEVER = new AbortController().signal;

/** Works for so long; once told to stop, gives up when it obeys. */
async function workFor(incarnation: Incarnation, ms: number, obeys: Obedience, signal: AbortSignal): Promise<void> {
  if (obeys === null) return sleep(incarnation, ms, NEVER);
  const until = incarnation.monotonic() + ms;
  await sleep(incarnation, ms, signal);
  if (!signal.aborted) return;
  await sleep(incarnation, Math.min(obeys, Math.max(until - incarnation.monotonic(), 0)), NEVER);
  throw signal.reason;
}

async function hang(health: Health, incarnation: Incarnation, obeys: Obedience, signal: AbortSignal): Promise<void> {
  await health.hang(obeys === null ? NEVER : signal);
  if (!signal.aborted || obeys === null) return;
  await sleep(incarnation, obeys, NEVER);
  throw signal.reason;
}

/** A handler that computes without pause: its process does nothing else meanwhile. */
function block(incarnation: Incarnation, ms: number): void {
  incarnation.process.block(ms);
}
