/** Recurring jobs as users set and see them. What fires them is `server/recurring.ts`. */
import { isDeepStrictEqual } from "node:util";
import { isTimeZone, makeSchedule, parseCron, type Schedule, TIME_ZONE_RULE } from "./cron.ts";
import { type EnqueueOptions, fieldOf, type Place, prepare } from "./enqueue.ts";
import { ConflictError, NotFoundError } from "./errors.ts";
import { type AnyJobDefinition, JobDefinition, RecurringSpec } from "./job.ts";
import { Problems, readName } from "./problems.ts";
import { RECURRING } from "./rules/limits.ts";
import { MISFIRES, type Misfire } from "./rules/misfire.ts";
import { noRecurring, templateJob, templateOf } from "./rules/recurring.ts";
import { RECURRING_RULE } from "./rules/values.ts";
import type { InsertedJob, JobId, NewJob, RecurringDefinition, RecurringRecord, Store } from "./store.ts";
import { Checker, copyArray } from "./validate.ts";

const TEMPLATE_OPTIONS = [
  "queue",
  "priority",
  "maxAttempts",
  "timeout",
  "limit",
  "title",
  "tags",
  "meta",
] as const satisfies readonly (keyof EnqueueOptions)[];

/** When a recurring job runs, and what may be said of its jobs as of any other. */
export interface RecurringOptions extends Pick<EnqueueOptions, (typeof TEMPLATE_OPTIONS)[number]> {
  /**
   * When, for example `0 3 * * MON-FRI`: 5 fields (minute, hour, day of month, month, day of week) or 6 (second first), with
   * names, ranges, lists, steps, `L`, `LW`, `15W`, `FRIL` and `MON#2`; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`; or
   * `@every 90s`.
   */
  readonly cron: string;
  /** Where the clock that the cron expression means hangs, for example `Europe/London`. Default `UTC`. */
  readonly timeZone?: string;
  /**
   * What becomes of occurrences that were missed, for example because no server was up. `once` (default): the latest
   * runs; `all`: each runs, a hundred at a time; `skip`: the latest runs if it is at most a minute late.
   */
  readonly misfire?: Misfire;
  /**
   * False: an occurrence is passed over while the job of an earlier one waits or runs; `all` is then the same as `once`.
   * Default true.
   */
  readonly overlap?: boolean;
}

const OPTIONS = [
  "cron",
  "timeZone",
  "misfire",
  "overlap",
  ...TEMPLATE_OPTIONS,
] as const satisfies readonly (keyof RecurringOptions)[];

/** What `setRecurring` was given. */
interface Given {
  readonly id: unknown;
  readonly definition: AnyJobDefinition;
  readonly args: unknown;
  readonly options: unknown;
}

/** A definition that was checked, and when it fires. */
interface Prepared {
  readonly definition: RecurringDefinition;
  readonly schedule: Schedule;
}

/** @throws InvalidError, ConflictError */
export async function setRecurring(store: Store, given: Given): Promise<void> {
  const what = "can't set the recurring job";
  const place: Place = { what, path: "", problems: new Problems() };
  const read = readRecurring(place, given, null);
  await read.pending;
  place.problems.end(what);
  const prepared = read.finish();
  await checkThatItFires(store, place.problems, [{ prepared, field: "cron" }]);
  place.problems.end(what);
  await put(store, prepared);
}

/** @throws InvalidError, ConflictError */
export async function syncRecurring(store: Store, group: unknown, specs: unknown): Promise<void> {
  const what = "can't set the recurring jobs";
  const problems = new Problems();
  readName(problems, "group", group, RECURRING, RECURRING_RULE);
  const list = copyArray(specs);
  if (list === null) problems.add("recurring", specs, "must be an array");
  const reads = (list ?? []).flatMap((spec, index) => {
    const place: Place = { what, path: `recurring[${index}]`, problems };
    if (RecurringSpec.is(spec)) return [{ read: readRecurring(place, spec, group as string), place, id: spec.id }];
    problems.add(place.path, spec, "must be made by the recurring method of a job definition");
    return [];
  });
  const ids = new Set<string>();
  for (const { id, place } of reads) {
    if (ids.has(id)) problems.add(fieldOf(place, "id"), id, "must not be given twice");
    ids.add(id);
  }
  await Promise.all(reads.map(({ read }) => read.pending));
  problems.end(what);
  const all = reads.map(({ read, place }) => ({ prepared: read.finish(), field: fieldOf(place, "cron") }));
  await checkThatItFires(store, problems, all);
  problems.end(what);
  for (const { prepared } of all) await put(store, prepared);
  for (const row of await store.recurring()) {
    if (row.group === group && !ids.has(row.id)) await removeIfThere(store, row.id);
  }
}

async function removeIfThere(store: Store, id: string): Promise<void> {
  try {
    await store.removeRecurring(id);
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
  }
}

/** `finish` is for when no problem was added; `pending` is an asynchronous schema at work, which may add some. */
interface Read {
  readonly pending: Promise<void> | undefined;
  readonly finish: () => Prepared;
}

function readRecurring(place: Place, given: Given, group: string | null): Read {
  const { problems } = place;
  const id = readName(problems, fieldOf(place, "id"), given.id, RECURRING, RECURRING_RULE) ?? "";
  const check = new Checker(place.what, given.options ?? null, OPTIONS, place);
  check.required("cron");
  const cron = readCron(check);
  const timeZone = check.has("timeZone") ? check.value("timeZone") : "UTC";
  if (!isTimeZone(timeZone)) check.refuse("timeZone", TIME_ZONE_RULE);
  const misfire = check.oneOf("misfire", MISFIRES) ?? "once";
  const overlap = check.boolean("overlap", { default: true });
  const job = readTemplate(place, given, check);
  return {
    pending: job?.pending,
    finish: () => {
      const schedule = makeSchedule(cron, timeZone as string);
      const template = templateOf((job as PreparedJob).job);
      const when = { cron: schedule.cron, timeZone: timeZone as string, misfire, overlap };
      return { schedule, definition: { id, group, ...when, template } };
    },
  };
}

type OptionsChecker = Checker<(typeof OPTIONS)[number]>;

function readCron(check: OptionsChecker): string {
  if (!check.has("cron")) return "";
  const parsed = parseCron(check.value("cron"));
  if (!("problem" in parsed)) return parsed.cron;
  check.refuse("cron", parsed.problem);
  return "";
}

type PreparedJob = ReturnType<typeof prepare>;

function readTemplate(place: Place, given: Given, check: OptionsChecker): PreparedJob | null {
  if (!JobDefinition.is(given.definition)) {
    place.problems.add(fieldOf(place, "definition"), given.definition, "must be what defineJob returned");
    return null;
  }
  const options = TEMPLATE_OPTIONS.filter((name) => check.has(name)).map((name) => [name, check.value(name)] as const);
  return prepare(place, given.definition, given.args, Object.fromEntries(options) as EnqueueOptions);
}

async function checkThatItFires(
  store: Store,
  problems: Problems,
  all: readonly { readonly prepared: Prepared; readonly field: string }[],
): Promise<void> {
  const now = (await store.now()).getTime();
  for (const { prepared, field } of all) {
    const { cron } = prepared.definition;
    if (prepared.schedule.nextAfter(now) === null) problems.add(field, cron, "must fire some day");
  }
}

/** Writes the definition, unless the row is already like that. */
function put(store: Store, { definition, schedule }: Prepared): Promise<void> {
  return trying(async () => {
    const row = await store.recurringJob(definition.id);
    const stays =
      row !== null && row.nextRunAt !== null && row.cron === definition.cron && row.timeZone === definition.timeZone;
    if (stays && isDeepStrictEqual(definitionOf(row), definition)) return;
    const nextRunAt = stays ? row.nextRunAt : await nextRun(store, schedule, row);
    const { version = 0, paused = false } = row ?? {};
    await store.putRecurring({ ...definition, version, paused, nextRunAt });
  });
}

function definitionOf(row: RecurringRecord): RecurringDefinition {
  const { id, group, cron, timeZone, misfire, overlap, template } = row;
  return { id, group, cron, timeZone, misfire, overlap, template };
}

/** After the last run too, so that a clock that was put back repeats nothing. */
async function nextRun(store: Store, schedule: Schedule, row: RecurringRecord | null): Promise<Date | null> {
  const now = (await store.now()).getTime();
  const next = schedule.nextAfter(Math.max(now, row?.lastRunAt?.getTime() ?? 0));
  return next === null ? null : new Date(next);
}

const TRIES = 3;

/** Repeats what found that the row had been changed meanwhile. */
async function trying<T>(work: () => Promise<T>): Promise<T> {
  for (let left = TRIES - 1; ; left--) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ConflictError) || left === 0) throw error;
    }
  }
}

/** @throws InvalidError */
export function checkId(what: string, id: unknown): void {
  const problems = new Problems();
  readName(problems, "id", id, RECURRING, RECURRING_RULE);
  problems.end(what);
}

async function existing(store: Store, id: string): Promise<RecurringRecord> {
  const row = await store.recurringJob(id);
  if (row === null) throw noRecurring(id);
  return row;
}

export async function pauseRecurring(store: Store, id: string): Promise<void> {
  checkId("can't pause the recurring job", id);
  await trying(async () => {
    const row = await existing(store, id);
    if (!row.paused) await store.putRecurring({ ...row, paused: true });
  });
}

export async function resumeRecurring(store: Store, id: string): Promise<void> {
  checkId("can't resume the recurring job", id);
  await trying(async () => {
    const row = await existing(store, id);
    if (!row.paused) return;
    const nextRunAt = await nextRun(store, makeSchedule(row.cron, row.timeZone), row);
    await store.putRecurring({ ...row, paused: false, nextRunAt });
  });
}

type Insert = (jobs: readonly NewJob[]) => Promise<InsertedJob[]>;

/** `intercepted` puts a client's interceptors around an insert. */
export async function triggerRecurring(
  store: Store,
  id: string,
  intercepted: (insert: Insert) => Insert,
): Promise<JobId> {
  checkId("can't trigger the recurring job", id);
  const { template } = await existing(store, id);
  const insert = intercepted((jobs) => trying(async () => fireNow(store, await existing(store, id), jobs)));
  const [job] = await insert([templateJob(template, id, null)]);
  return (job as InsertedJob).id;
}

/** The job added, or that which stands in its way. */
async function fireNow(store: Store, row: RecurringRecord, jobs: readonly NewJob[]): Promise<InsertedJob[]> {
  const { id, version, nextRunAt, lastRunAt, lastJobId } = row;
  const inserted = await store.fireRecurring({ id, version, nextRunAt, lastRunAt, jobs });
  if (inserted.length > 0 || lastJobId === null) return inserted;
  const last = await store.job(lastJobId);
  return [{ id: lastJobId, state: last?.state ?? "deleted", duplicate: true, replaced: false }];
}
