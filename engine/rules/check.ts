/** What every store refuses before it writes anything. The client has checked the same with a user's words. */
import { Problems, pathStep } from "../problems.ts";
import {
  type BatchQuery,
  JOB_STATES,
  type JobFilter,
  type JobQuery,
  type JsonText,
  type LimitQuery,
  type NewBatch,
  type NewJob,
  type SeriesQuery,
} from "../store.ts";
import { BATCH_RULE, checkBatches, isBatch } from "./batches.ts";
import { copyNewBatch, copyNewJob } from "./copy.ts";
import { checkParents, refuseCycle } from "./dependencies.ts";
import { checkLimit } from "./limit.ts";
import {
  ATTEMPTS,
  JSON_MAX_BYTES,
  KIND,
  LONGEST_DURATION,
  META,
  META_RESERVED,
  MINUTE,
  PAGE,
  PARAM_KEY_MAX_BYTES,
  PRIORITY,
  QUEUE,
  RECURRING,
  TAGS,
} from "./limits.ts";
import { isJson, minuteOf } from "./outcome.ts";
import { checkUnique } from "./unique.ts";
import {
  CLEAN_RULE,
  DURATION_RULE,
  INSTANT_RULE,
  isClean,
  isDuration,
  isInstant,
  isName,
  KIND_RULE,
  QUEUE_RULE,
  RECURRING_RULE,
} from "./values.ts";

const isInteger = (value: number, min: number, max: number): boolean =>
  Number.isInteger(value) && value >= min && value <= max;

const inCall = (index: number): string => `jobs[${index}]`;

/**
 * Copies of the jobs, to be used instead of what was given.
 * @throws InvalidError naming `jobs[position].field` of every problem, or what `place` says instead of `jobs[position]`, and
 * those in `problems`.
 */
export function checkNewJobs(
  jobs: readonly NewJob[],
  what = "can't insert",
  place = inCall,
  problems = new Problems(),
): NewJob[] {
  // Not map, which passes over holes.
  const copies = Array.from(jobs, (job, index) => {
    const check = (ok: boolean, field: string, value: unknown, rule: string): void => {
      if (!ok) problems.add(`${place(index)}.${field}`, value, rule);
    };
    const copy = copyNewJob(job, (field) => check(false, field, job, READABLE));
    checkFields(copy, check);
    checkParents(copy.parents, index, jobs.length, check);
    if (copy.unique !== null) checkUnique(copy.unique, check);
    if (copy.limit !== null) checkLimit(problems, `${place(index)}.limit`, copy.limit);
    return copy;
  });
  if (problems.count === 0) refuseCycle(copies, problems);
  problems.end(what);
  return copies;
}

function checkFields(job: NewJob, check: (ok: boolean, field: string, value: unknown, rule: string) => void): void {
  check(isName(job.kind, KIND), "kind", job.kind, KIND_RULE);
  check(isName(job.queue, QUEUE), "queue", job.queue, QUEUE_RULE);
  check(isInteger(job.priority, PRIORITY.min, PRIORITY.max), "priority", job.priority, range(PRIORITY));
  check(isInteger(job.maxAttempts, ATTEMPTS.min, ATTEMPTS.max), "maxAttempts", job.maxAttempts, range(ATTEMPTS));
  check(isJson(job.args), "args", job.args, "must be JSON");
  check(fits(job.args, JSON_MAX_BYTES), "args", job.args, `must be at most ${JSON_MAX_BYTES} bytes`);
  check(job.timeout === null || isDuration(job.timeout), "timeout", job.timeout, DURATION_RULE);
  check(typeof job.delay === "number" && job.delay <= LONGEST_DURATION, "delay", job.delay, DURATION_RULE);
  check(isInstant(job.runAt), "runAt", job.runAt, INSTANT_RULE);
  check(isInstant(job.deadline), "deadline", job.deadline, INSTANT_RULE);
  check(job.title === null || isClean(job.title), "title", job.title, CLEAN_RULE);
  check(areTags(job.tags), "tags", job.tags, TAGS_RULE);
  check(isMeta(job.meta), "meta", job.meta, META_RULE);
  check(isRecurringId(job.recurringId), "recurringId", job.recurringId, RECURRING_RULE);
  checkBatches(job, check);
}

/** A copy, to be used instead of what was given. @throws InvalidError */
export function checkNewBatch(given: NewBatch): NewBatch {
  const problems = new Problems();
  const batch = copyNewBatch(given, (field) => problems.add(field, given, READABLE));
  const { description, meta, parent } = batch;
  if (description !== null && !isClean(description)) problems.add("description", description, CLEAN_RULE);
  if (!isMeta(meta)) problems.add("meta", meta, META_RULE);
  if (parent !== null && !isBatch(parent)) problems.add("parent", parent, BATCH_RULE);
  problems.end("can't open the batch");
  return batch;
}

const isRecurringId = (id: unknown): boolean => id === null || isName(id, RECURRING);

const READABLE = "must be readable";
const TAGS_RULE = `must be at most ${TAGS.max} texts of 1 to ${TAGS.maxBytes} bytes without NUL and without lone surrogates`;
const META_RULE = `must have at most ${META.maxKeys} keys, none of them empty, and be at most ${META.maxBytes} bytes of text without NUL and without lone surrogates`;

const isTag = (tag: string): boolean => isClean(tag) && tag !== "" && fits(tag, TAGS.maxBytes);

const areTags = (tags: readonly string[]): boolean =>
  Array.isArray(tags) && tags.length <= TAGS.max && tags.every(isTag);

/** What kiln adds for itself has as much room again: it must not make a job too large that was not. */
function isMeta(meta: Readonly<Record<string, string>>): boolean {
  if (!isRecord(meta)) return false;
  const entries = Object.entries(meta);
  if (entries.length === 0) return true;
  if (!entries.every(([key, value]) => key !== "" && isClean(key) && isClean(value))) return false;
  const [own = [], given = []] = [true, false].map((is) =>
    entries.filter(([key]) => key.startsWith(META_RESERVED) === is),
  );
  return fitMeta(own) && fitMeta(given);
}

function fitMeta(entries: readonly (readonly [key: string, value: string])[]): boolean {
  const bytes = entries.reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value), 0);
  return entries.length <= META.maxKeys && bytes <= META.maxBytes;
}

const isRecord = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

const range = ({ min, max }: { min: number; max: number }): string => `must be an integer from ${min} to ${max}`;

const fits = (text: unknown, bytes: number): boolean => typeof text !== "string" || Buffer.byteLength(text) <= bytes;

/** @throws InvalidError naming `params.key` of every problem. */
export function checkParams(params: Readonly<Record<string, JsonText>>): void {
  const problems = new Problems();
  for (const [key, value] of Object.entries(params)) {
    const field = `params${pathStep(key)}`;
    if (!isClean(key)) problems.add(field, key, CLEAN_RULE);
    if (!fits(key, PARAM_KEY_MAX_BYTES)) problems.add(field, key, `must be at most ${PARAM_KEY_MAX_BYTES} bytes`);
    if (!isJson(value)) problems.add(field, value, "must be JSON");
    if (!fits(value, JSON_MAX_BYTES)) problems.add(field, value, `must be at most ${JSON_MAX_BYTES} bytes`);
  }
  problems.end("can't save");
}

/** @throws InvalidError */
export function checkFilter(filter: JobFilter): void {
  const problems = new Problems();
  if (filter.ids === undefined && filter.state === undefined)
    problems.add("filter", filter, "must have ids or a state");
  if (filter.state !== undefined) checkState(problems, filter.state);
  problems.end("bad filter");
}

function checkState(problems: Problems, state: unknown): void {
  if ((JOB_STATES as readonly unknown[]).includes(state)) return;
  problems.add("state", state, `must be one of ${JOB_STATES.join(", ")}`);
}

/** The page size to use. @throws InvalidError */
export function checkQuery(query: JobQuery): number {
  const problems = new Problems();
  checkState(problems, query.state);
  return checkPage(problems, query);
}

/** The page size to use. @throws InvalidError */
export const checkBatchQuery = (query: BatchQuery): number => checkPage(new Problems(), query);

/** The page size to use. @throws InvalidError */
export const checkLimitQuery = (query: LimitQuery): number => checkPage(new Problems(), query);

function checkPage(problems: Problems, query: { readonly limit?: number }): number {
  const limit = query.limit ?? PAGE.default;
  if (!(Number.isInteger(limit) && limit >= 0)) problems.add("limit", limit, "must be a whole number of at least 0");
  problems.end("bad query");
  return limit === 0 ? PAGE.default : Math.min(limit, PAGE.max);
}

/** The range in milliseconds since 1970: buckets that start at or after `from`, minutes before `to`. @throws InvalidError */
export function checkSeries(query: SeriesQuery): { from: number; to: number; step: number } {
  const { step } = query;
  const problems = new Problems();
  const stepFits = Number.isInteger(step) && step > 0 && step % MINUTE === 0;
  if (!stepFits) problems.add("step", step, `must be a positive multiple of ${MINUTE} ms`);
  if (!isInstant(query.from)) problems.add("from", query.from, INSTANT_RULE);
  if (!isInstant(query.to)) problems.add("to", query.to, INSTANT_RULE);
  problems.end("bad series");
  const from = query.from.getTime();
  return { from: from - (from % step), to: minuteOf(query.to.getTime()), step };
}
