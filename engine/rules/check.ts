/** What every store refuses before it writes anything. The client has checked the same with a user's words. */
import { InvalidError, type Problem } from "../errors.ts";
import { JOB_STATES, type JobFilter, type JobQuery, type JsonText, type NewJob, type SeriesQuery } from "../store.ts";
import { ATTEMPTS, INSTANT, JSON_MAX_BYTES, KIND, LONGEST_DURATION, PAGE, PRIORITY, QUEUE } from "./limits.ts";
import { isJson } from "./outcome.ts";
import { cleanText, cutText, shown } from "./text.ts";

const isInteger = (value: number, min: number, max: number): boolean =>
  Number.isInteger(value) && value >= min && value <= max;

/** Collects problems under a common prefix. */
class Problems {
  readonly all: Problem[] = [];

  add(ok: boolean, field: string, value: unknown, rule: string): void {
    if (!ok) this.all.push({ field, value: shown(value), rule });
  }

  /** @throws InvalidError when there are any. */
  end(what: string): void {
    if (this.all.length > 0) throw new InvalidError(what, this.all);
  }
}

/** @throws InvalidError naming `jobs[position].field` of every problem. */
export function checkNewJobs(jobs: readonly NewJob[]): void {
  const problems = new Problems();
  jobs.forEach((job, index) => {
    const check = (ok: boolean, field: string, value: unknown, rule: string): void =>
      problems.add(ok, `jobs[${index}].${field}`, value, rule);
    check(isName(job.kind, KIND), "kind", job.kind, KIND_RULE);
    check(isName(job.queue, QUEUE), "queue", job.queue, QUEUE_RULE);
    check(isInteger(job.priority, PRIORITY.min, PRIORITY.max), "priority", job.priority, range(PRIORITY));
    check(isInteger(job.maxAttempts, ATTEMPTS.min, ATTEMPTS.max), "maxAttempts", job.maxAttempts, range(ATTEMPTS));
    check(isJson(job.args), "args", job.args, "must be JSON");
    check(fits(job.args, JSON_MAX_BYTES), "args", job.args, `must be at most ${JSON_MAX_BYTES} bytes`);
    check(job.timeout === null || isDuration(job.timeout), "timeout", job.timeout, DURATION_RULE);
    check(job.delay <= LONGEST_DURATION, "delay", job.delay, DURATION_RULE);
    check(isInstant(job.runAt), "runAt", job.runAt, INSTANT_RULE);
    check(isInstant(job.deadline), "deadline", job.deadline, INSTANT_RULE);
    check(job.title === null || isClean(job.title), "title", job.title, CLEAN_RULE);
    check(job.tags.every(isClean), "tags", job.tags, CLEAN_RULE);
    check(Object.entries(job.meta).flat().every(isClean), "meta", job.meta, CLEAN_RULE);
  });
  problems.end("can't insert");
}

export const KIND_RULE = `must be 1 to ${KIND.maxBytes} letters, digits, "_", ".", ":" or "-", beginning with a letter`;
export const QUEUE_RULE = `must be 1 to ${QUEUE.maxBytes} lowercase letters, digits, "_", ".", ":" or "-", not "." or ".."`;
export const DURATION_RULE = "must be a duration of at least 0 and at most a hundred years";
export const INSTANT_RULE = "must be a valid Date from 1970 to 9999";
/** Not every database can store such text, and none may change it silently. */
export const CLEAN_RULE = "must be text without NUL and without lone surrogates";
const range = ({ min, max }: { min: number; max: number }): string => `must be an integer from ${min} to ${max}`;

/** True for a valid kind or queue name, by the rules of `limits.ts`. */
export function isName(
  name: unknown,
  rule: { readonly maxBytes: number; readonly pattern: RegExp; readonly refused?: readonly string[] },
): name is string {
  return (
    typeof name === "string" &&
    name.length <= rule.maxBytes &&
    rule.pattern.test(name) &&
    !(rule.refused?.includes(name) ?? false)
  );
}

export const isDuration = (ms: number): boolean => ms >= 0 && ms <= LONGEST_DURATION;

const isClean = (text: unknown): boolean => typeof text === "string" && cleanText(text) === text;

const fits = (text: unknown, bytes: number): boolean => typeof text !== "string" || Buffer.byteLength(text) <= bytes;

function isInstant(date: Date | null): boolean {
  if (date === null) return true;
  const ms = date instanceof Date ? date.getTime() : Number.NaN;
  return ms >= INSTANT.min && ms <= INSTANT.max;
}

/** @throws InvalidError naming `params.key` of every problem. */
export function checkParams(params: Readonly<Record<string, JsonText>>): void {
  const problems = new Problems();
  for (const [key, value] of Object.entries(params)) {
    problems.add(isClean(key), `params.${cutText(key, 100)}`, key, CLEAN_RULE);
    problems.add(isJson(value), `params.${cutText(key, 100)}`, value, "must be JSON");
    problems.add(
      fits(value, JSON_MAX_BYTES),
      `params.${cutText(key, 100)}`,
      value,
      `must be at most ${JSON_MAX_BYTES} bytes`,
    );
  }
  problems.end("can't save");
}

/** @throws InvalidError */
export function checkFilter(filter: JobFilter): void {
  const problems = new Problems();
  const set = filter.ids !== undefined || filter.state !== undefined;
  problems.add(set, "filter", filter, "must have ids or a state");
  if (filter.state !== undefined) checkState(problems, filter.state);
  problems.end("bad filter");
}

function checkState(problems: Problems, state: unknown): void {
  problems.add(
    (JOB_STATES as readonly unknown[]).includes(state),
    "state",
    state,
    `must be one of ${JOB_STATES.join(", ")}`,
  );
}

/** The page size to use. @throws InvalidError */
export function checkQuery(query: JobQuery): number {
  const problems = new Problems();
  checkState(problems, query.state);
  const limit = query.limit ?? PAGE.default;
  problems.add(Number.isInteger(limit) && limit >= 0, "limit", limit, "must be a whole number of at least 0");
  problems.end("bad query");
  return limit === 0 ? PAGE.default : Math.min(limit, PAGE.max);
}

const MINUTE = 60_000;

/** The range in milliseconds since 1970: buckets that start at or after `from`, minutes before `to`. @throws InvalidError */
export function checkSeries(query: SeriesQuery): { from: number; to: number; step: number } {
  const { step } = query;
  const problems = new Problems();
  const stepOk = Number.isInteger(step) && step > 0 && step % MINUTE === 0;
  problems.add(stepOk, "step", step, `must be a positive multiple of ${MINUTE} ms`);
  problems.add(isInstant(query.from), "from", query.from, INSTANT_RULE);
  problems.add(isInstant(query.to), "to", query.to, INSTANT_RULE);
  problems.end("bad series");
  const from = query.from.getTime();
  return { from: from - (from % step), to: query.to.getTime() - (query.to.getTime() % MINUTE), step };
}
