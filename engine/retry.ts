/** How long a failed job waits before its next attempt. */
import type { Duration } from "./duration.ts";
import { SnoozeError } from "./errors.ts";
import { Problems, readDuration } from "./problems.ts";
import { LONGEST_DURATION } from "./rules/limits.ts";

/**
 * Milliseconds from the failure of attempt `attempt` (from 1) to the next one. `error` is what the attempt threw;
 * `random` gives uniform numbers in [0, 1) and is the only randomness that it should use.
 */
export type Backoff = (attempt: number, error: unknown, random: () => number) => number;

/**
 * `base`, doubled after each attempt until `limit`; of that a random part between half and all.
 * @throws InvalidError unless 1ms <= base <= limit <= a hundred years
 */
export function exponential(base: Duration, limit: Duration): Backoff {
  const problems = new Problems();
  const first = readDuration(problems, "base", base, { min: 1, max: LONGEST_DURATION }) ?? 1;
  const most = readDuration(problems, "limit", limit, { min: first, max: LONGEST_DURATION }) ?? first;
  problems.end("bad backoff");
  return (attempt, _error, random) => {
    const full = Math.min(first * 2 ** (attempt - 1), most);
    return Math.round(full / 2 + (full / 2) * random());
  };
}

/** Always `delay`. @throws InvalidError unless 0 <= delay <= a hundred years */
export function constant(delay: Duration): Backoff {
  return delays(delay);
}

/**
 * The first delay after the first attempt, the second after the second and so on; the last one repeats. Without any,
 * `defaultBackoff`.
 * @throws InvalidError unless each is from 0 to a hundred years
 */
export function delays(...list: readonly Duration[]): Backoff {
  const problems = new Problems();
  const range = { min: 0, max: LONGEST_DURATION };
  const waits = list.map((delay, index) => readDuration(problems, `delays[${index}]`, delay, range) ?? 0);
  problems.end("bad backoff");
  const last = waits.at(-1);
  return last === undefined ? defaultBackoff : (attempt) => waits[attempt - 1] ?? last;
}

/**
 * What a job gets when nothing else is said: (attempt - 1)^4 + 15 + attempt * r seconds with r from 0 to 29, at most a
 * hundred years. About half a minute after the first attempt, three hours after the tenth.
 */
export const defaultBackoff: Backoff = (attempt, _error, random) => {
  const seconds = (attempt - 1) ** 4 + 15 + Math.floor(random() * 30) * attempt;
  return Math.min(seconds * 1_000, LONGEST_DURATION);
};

/**
 * What `backoff` says, as whole milliseconds from 0 to a hundred years. Total: `defaultBackoff` steps in for a function
 * that throws or returns something else than a number.
 */
export function retryDelay(backoff: Backoff, attempt: number, error: unknown, random: () => number): number {
  const delay = attemptBackoff(backoff, attempt, error, random) ?? defaultBackoff(attempt, error, random);
  return Math.ceil(Math.min(Math.max(delay, 0), LONGEST_DURATION));
}

function attemptBackoff(backoff: Backoff, attempt: number, error: unknown, random: () => number): number | null {
  try {
    const delay: unknown = backoff(attempt, error, random);
    // An async function is no backoff; its rejection must not end the process on top of that.
    if (delay instanceof Promise) delay.catch(() => {});
    return typeof delay === "number" && !Number.isNaN(delay) ? delay : null;
  } catch {
    return null;
  }
}

/**
 * To be thrown by a handler: run the job again after `delay` without using up an attempt.
 * @throws InvalidError unless 0 <= delay <= a hundred years
 */
export function snooze(delay: Duration): SnoozeError {
  const problems = new Problems();
  const wait = readDuration(problems, "delay", delay, { min: 0, max: LONGEST_DURATION }) ?? 0;
  problems.end("can't snooze");
  return new SnoozeError(wait);
}
