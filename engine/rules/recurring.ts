/** What every store has to agree on about recurring jobs. */
import { ConflictError, NotFoundError } from "../errors.ts";
import { Problems } from "../problems.ts";
import type {
  FireRecurring,
  JobFields,
  NewJob,
  PutRecurring,
  RecurringDefinition,
  RecurringTemplate,
} from "../store.ts";
import { checkNewJobs } from "./check.ts";
import { copyDate } from "./copy.ts";
import { RECURRING } from "./limits.ts";
import { type FiringOccurrence, MISFIRES } from "./misfire.ts";
import { CLEAN_RULE, INSTANT_RULE, isClean, isInstant, isName, RECURRING_RULE } from "./values.ts";

/** What jobs that are to be like `job` have in common with it. */
export function templateOf(job: NewJob): RecurringTemplate {
  const { delay: _delay, runAt: _runAt, deadline: _deadline, recurringId: _id, ...rest } = job;
  const { batch: _batch, afterBatch: _afterBatch, ...template } = rest;
  return template;
}

/** What templates lack that were stored before there was such a thing. */
const ADDED = { unique: null, parents: [], limit: null };

/** One job of a template. */
export function templateJob(template: RecurringTemplate, recurringId: string, runAt: Date | null): NewJob {
  return { ...ADDED, ...template, delay: 0, runAt, deadline: null, recurringId, batch: null, afterBatch: null };
}

const OCCURRENCE = "kiln.occurrence";
const SKIPPED = "kiln.skipped";

/** The run for an occurrence, which its meta tells: `kiln.occurrence` as ISO 8601 in UTC, and `kiln.skipped`. */
export function occurrenceJob({ id, template }: RecurringDefinition, { at, skipped }: FiringOccurrence): NewJob {
  const runAt = new Date(at);
  const job = templateJob(template, id, runAt);
  return { ...job, meta: { ...job.meta, [OCCURRENCE]: runAt.toISOString(), [SKIPPED]: String(skipped) } };
}

/** Which occurrence a job is the run for; null when it is none of a recurring job, or was triggered. */
export function occurrenceOf({ recurringId, meta }: Pick<JobFields, "recurringId" | "meta">): Occurrence | null {
  const at = Date.parse(meta[OCCURRENCE] ?? "");
  if (recurringId === null || Number.isNaN(at)) return null;
  return { at: new Date(at), skipped: Number(meta[SKIPPED]) || 0 };
}

export interface Occurrence {
  /** When it was due. */
  readonly at: Date;
  /** Occurrences before it that were missed and did not run; counted up to 1,000. */
  readonly skipped: number;
}

/**
 * A copy, to be used instead of what was given. Whether the cron expression and the time zone mean anything is for the
 * caller to know. @throws InvalidError
 */
export function checkPutRecurring(given: PutRecurring): PutRecurring {
  const { id, group, cron, timeZone, misfire, overlap, paused, version } = given;
  const template: RecurringTemplate & Partial<NewJob> = { ...given.template };
  const nextRunAt = copyDate(given.nextRunAt);
  const put: PutRecurring = { id, group, cron, timeZone, misfire, overlap, template, paused, nextRunAt, version };
  const problems = new Problems();
  const check = (ok: boolean, field: keyof PutRecurring, rule: string): void => {
    if (!ok) problems.add(field, put[field], rule);
  };
  check(isName(id, RECURRING), "id", RECURRING_RULE);
  check(group === null || isName(group, RECURRING), "group", RECURRING_RULE);
  check(isClean(cron) && cron !== "", "cron", CLEAN_RULE);
  check(isClean(timeZone) && timeZone !== "", "timeZone", CLEAN_RULE);
  check(MISFIRES.includes(misfire), "misfire", `must be one of ${MISFIRES.join(", ")}`);
  check(typeof overlap === "boolean", "overlap", "must be true or false");
  check(typeof paused === "boolean", "paused", "must be true or false");
  check(isInstant(nextRunAt), "nextRunAt", INSTANT_RULE);
  check(Number.isSafeInteger(version) && version >= 0, "version", "must be a whole number of at least 0");
  for (const field of ["batch", "afterBatch"] as const) {
    const value = template[field] ?? null;
    if (value !== null) problems.add(`template.${field}`, value, "must not be given: a run can't belong to a batch");
  }
  problems.end("can't set the recurring job");
  const [job] = checkNewJobs([templateJob(template, id, null)], "can't set the recurring job", () => "template");
  return { ...put, template: templateOf(job as NewJob) };
}

/** A copy, to be used instead of what was given. @throws InvalidError naming the position of each bad job */
export function checkFireRecurring(given: FireRecurring): FireRecurring {
  const { id, version, jobs } = given;
  const nextRunAt = copyDate(given.nextRunAt);
  const lastRunAt = copyDate(given.lastRunAt);
  const problems = new Problems();
  if (!isInstant(nextRunAt)) problems.add("nextRunAt", nextRunAt, INSTANT_RULE);
  if (!isInstant(lastRunAt)) problems.add("lastRunAt", lastRunAt, INSTANT_RULE);
  problems.end("can't fire the recurring job");
  return { id, version, nextRunAt, lastRunAt, jobs: checkNewJobs(jobs, "can't fire the recurring job") };
}

/** `actual` is the version of the row, 0 = there is none. @throws ConflictError */
export function assertVersion(id: string, expected: number, actual: number): void {
  if (actual !== expected) {
    throw new ConflictError(`recurring job ${id} has changed: its version is ${actual || "gone"}, not ${expected}`);
  }
}

export const noRecurring = (id: string): NotFoundError => new NotFoundError(`there is no recurring job ${id}`);
