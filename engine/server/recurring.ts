/**
 * The leader's duty to fire recurring jobs. Each occurrence is handled by a write that takes effect only if the row is
 * still as it was read: whatever other leaders do at the same time, it fires at most once.
 */
import { sleep, withDeadline } from "../async.ts";
import { makeSchedule } from "../cron.ts";
import { ConflictError, DeadlineError, NotFoundError, StoreError } from "../errors.ts";
import { dueOccurrences } from "../rules/misfire.ts";
import { occurrenceJob } from "../rules/recurring.ts";
import type { Runtime } from "../runtime.ts";
import type { DueRecurring, FireRecurring, RecurringRecord, Store } from "../store.ts";
import type { Faults } from "./faults.ts";

export interface RecurringDeps {
  readonly runtime: Runtime;
  readonly store: Store;
  readonly faults: Faults;
}

const CALL_DEADLINE = 15_000;
/**
 * What is due next is known to the millisecond and slept for. So this is only for recurring jobs that are set meanwhile, and of
 * which no event tells, as in another process on a store whose events don't reach that far.
 */
const INTERVAL = 15_000;
/** Until the next try after a failure, or when others were faster. */
const RETRY = 1_000;
/** Most rows of one look. */
const LIMIT = 100;
/** How long a row that can't be fired is left alone, so that it keeps nobody else waiting. */
const PUT_OFF = 60_000;

export class Recurring {
  readonly #deps: RecurringDeps;

  #sleeping: AbortController | null = null;
  /** Something may have become due since the last look began. */
  #stale = false;

  constructor(deps: RecurringDeps) {
    this.#deps = deps;
  }

  /** Looks again, at once when it sleeps. */
  wake(): void {
    this.#stale = true;
    this.#sleeping?.abort();
  }

  /** Fires what is due until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#stale = false;
      const wait = await this.#fireDue(signal);
      if (wait > 0 && !this.#stale) await this.#sleep(wait, signal);
    }
  }

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const sleeping = new AbortController();
    const end = (): void => sleeping.abort();
    this.#sleeping = sleeping;
    signal.addEventListener("abort", end);
    await sleep(this.#deps.runtime, ms, sleeping.signal);
    signal.removeEventListener("abort", end);
    this.#sleeping = null;
  }

  /** Returns how long nothing more is due, milliseconds. */
  async #fireDue(signal: AbortSignal): Promise<number> {
    const { runtime } = this.#deps;
    const due = await this.#look();
    if (due === null) return RETRY;
    const { now, rows, nextIn } = due;
    if (rows.length === 0) return Math.min(nextIn ?? INTERVAL, INTERVAL);
    let moved = false;
    for (const row of rows) {
      if (signal.aborted) break;
      moved = (await this.#fire(row, now.getTime())) || moved;
      // A row that has missed a lot takes a while to work out.
      await runtime.turn();
    }
    // What did not move would be found again at once.
    return moved ? 0 : RETRY;
  }

  /** Null when the store could not say. */
  async #look(): Promise<DueRecurring | null> {
    const { runtime, store, faults } = this.#deps;
    try {
      return await withDeadline(runtime, "dueRecurring", CALL_DEADLINE, () => store.dueRecurring(LIMIT));
    } catch (error) {
      faults.report("recurring", error);
      return null;
    }
  }

  /** False when the row is as it was. */
  async #fire(row: RecurringRecord, now: number): Promise<boolean> {
    try {
      await this.#send(firingOf(row, now));
      return true;
    } catch (error) {
      if (isOvertaken(error)) return false;
      this.#deps.faults.report("recurring", new Error(`recurring job ${row.id} can't be fired`, { cause: error }));
      // Put off, what was due now would be forgotten.
      if (isPassing(error)) return false;
    }
    return this.#putOff(row, now);
  }

  async #putOff({ id, version, lastRunAt }: RecurringRecord, now: number): Promise<boolean> {
    try {
      await this.#send({ id, version, lastRunAt, nextRunAt: new Date(now + PUT_OFF), jobs: [] });
      return true;
    } catch (error) {
      if (!isOvertaken(error)) this.#deps.faults.report("recurring", error);
      return false;
    }
  }

  async #send(firing: FireRecurring): Promise<void> {
    const { runtime, store } = this.#deps;
    await withDeadline(runtime, "fireRecurring", CALL_DEADLINE, () => store.fireRecurring(firing));
  }
}

/** Someone else has fired, changed or removed it. */
const isOvertaken = (error: unknown): boolean => error instanceof ConflictError || error instanceof NotFoundError;

/** The fault is not the row's. */
const isPassing = (error: unknown): boolean =>
  error instanceof DeadlineError || (error instanceof StoreError && error.retryable);

/** @throws InvalidError when its schedule is not understood here */
function firingOf(row: RecurringRecord, now: number): FireRecurring {
  const schedule = makeSchedule(row.cron, row.timeZone);
  const due = row.nextRunAt?.getTime() ?? now;
  // All of them at once would overlap.
  const misfire = row.misfire === "all" && !row.overlap ? "once" : row.misfire;
  const { occurrences, last, next } = dueOccurrences(schedule.from(due), due, now, misfire);
  return {
    id: row.id,
    version: row.version,
    nextRunAt: next === null ? null : new Date(next),
    lastRunAt: last === null ? row.lastRunAt : new Date(last),
    jobs: occurrences.map((occurrence) => occurrenceJob(row, occurrence)),
  };
}
