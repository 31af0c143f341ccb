/** Which state a job is in when it is, or becomes, ready. All instants are the store's, in milliseconds since 1970. */
import { ARCHIVED_STATES, JOB_STATES, type JobFilter, type JobState, type NewJob } from "../store.ts";

/** When a new job is due: its `runAt`, or `delay` (whole milliseconds, rounded up) after now. A past instant is kept as it was given. */
export function dueAt(job: Pick<NewJob, "runAt" | "delay">, now: number): number {
  return job.runAt === null ? now + Math.ceil(Math.max(job.delay, 0)) : job.runAt.getTime();
}

/** State of a job that is not held back by anything but its time and its limit. */
export function readyState(runAt: number, now: number, limited = false): "scheduled" | "enqueued" | "throttled" {
  return runAt > now ? "scheduled" : waitingState(limited);
}

/** Where a job waits that is due. */
export function waitingState(limited: boolean): "enqueued" | "throttled" {
  return limited ? "throttled" : "enqueued";
}

/** What `requeue` may touch. */
export const REQUEUEABLE: readonly JobState[] = ["failed", "scheduled", "succeeded", "deleted"];
/** What `delete` ends at once; a processing job is only marked. */
export const DELETABLE: readonly JobState[] = ["awaiting", "scheduled", "enqueued", "throttled", "failed"];

/** Of jobs that wait to run or are running; a failed one is neither. */
export const UNFINISHED: readonly JobState[] = JOB_STATES.filter(
  (state) => state !== "failed" && !(ARCHIVED_STATES as readonly JobState[]).includes(state),
);

/** `attempt` and `maxAttempts` of a job that is requeued from `state`. */
export function requeuedAttempts(
  state: JobState,
  attempt: number,
  maxAttempts: number,
): { attempt: number; maxAttempts: number } {
  if (state !== "scheduled") return { attempt: 0, maxAttempts };
  return { attempt, maxAttempts: Math.max(maxAttempts, attempt + 1) };
}

/** True when a job in `state` may match the filter by its state alone. */
export function filterAllows(filter: JobFilter, state: JobState): boolean {
  return filter.state === undefined || filter.state === state;
}
