/** From what a user enqueues to what the store inserts. */
import type { Duration } from "./duration.ts";
import { type AnyJobDefinition, JobDefinition, JobSpec, type ResolvedJobOptions } from "./job.ts";
import { tryEncodeJson } from "./json.ts";
import { LIMIT_OPTIONS, type LimitOptions, readLimit } from "./limit.ts";
import { readBatches, readParents } from "./parents.ts";
import { Problems, readText } from "./problems.ts";
import {
  ATTEMPTS,
  LONGEST_DURATION,
  META,
  META_RESERVED,
  PRIORITY,
  QUEUE,
  TAGS,
  TITLE_MAX_BYTES,
} from "./rules/limits.ts";
import { serializeError } from "./rules/serialize-error.ts";
import { cutText } from "./rules/text.ts";
import { QUEUE_RULE } from "./rules/values.ts";
import type { Runtime } from "./runtime.ts";
import { checkArgs } from "./schema.ts";
import type { BatchId, JobId, NewJob } from "./store.ts";
import { readUnique, type UniqueOptions } from "./unique.ts";
import { Checker } from "./validate.ts";

/** What may be said of one job; whatever is left out is as its definition says. */
export interface EnqueueOptions {
  readonly queue?: string;
  /** Higher runs first; an integer from -32768 to 32767. */
  readonly priority?: number;
  /** From now; negative counts as 0, at most a hundred years. Default 0. Not together with `runAt`. */
  readonly delay?: Duration;
  /** From 1970 to 9999; an instant that is past means now. */
  readonly runAt?: Date;
  /** An integer from 1 to 32767. */
  readonly maxAttempts?: number;
  /** For one attempt, at least 1ms; false = none. */
  readonly timeout?: Duration | false;
  /** An attempt that would start after this instant deletes the job instead. */
  readonly deadline?: Date;
  /** In place of the definition's. */
  readonly limit?: LimitOptions;
  /** What lists show instead of the kind; cut to 200 bytes. */
  readonly title?: string;
  /** At most 32 different ones, each of 1 to 64 bytes. */
  readonly tags?: readonly string[];
  /** At most 64 keys, none of which begins with `kiln.`; keys and values together at most 16 KiB. */
  readonly meta?: Readonly<Record<string, string>>;
  /** At most one such job at a time, told apart by its args (true) or as the options say. Default: any number. */
  readonly unique?: true | UniqueOptions;
  /**
   * Waits until these jobs have succeeded; deleted when one of them is. While one has failed it goes on waiting, because
   * that may be requeued. `delay` counts from the enqueueing.
   */
  readonly after?: JobId | readonly JobId[];
  /** Waits until these jobs have ended in whatever way: succeeded, failed or deleted. */
  readonly afterFinished?: JobId | readonly JobId[];
  /** Joins this batch, which must not have finished. A duplicate does not join. */
  readonly batch?: BatchId;
  /** Waits until this batch has finished, which must not be the one that it joins. `delay` counts from the enqueueing. */
  readonly afterBatch?: BatchId;
}

/** What may be said of one job among several. */
export interface SpecOptions extends EnqueueOptions {
  /** Positions in the same call, as `Flow.add` returns them, before or after this one; the same as `after`. */
  readonly needs?: readonly number[];
}

const ENQUEUE_OPTIONS = [
  "queue",
  "priority",
  "delay",
  "runAt",
  "maxAttempts",
  "timeout",
  "deadline",
  "limit",
  "title",
  "tags",
  "meta",
  "unique",
  "after",
  "afterFinished",
  "batch",
  "afterBatch",
] as const satisfies readonly (keyof EnqueueOptions)[];
const SPEC_OPTIONS = [...ENQUEUE_OPTIONS, "needs"] as const satisfies readonly (keyof SpecOptions)[];

export type OptionsChecker = Checker<keyof SpecOptions>;

/** The event loop is given free after this many jobs or characters of args. */
const SLICE = { jobs: 1_000, characters: 1_000_000 } as const;

/** @throws InvalidError naming everything that is wrong, for example `delay` */
export async function newJob(
  what: string,
  definition: AnyJobDefinition,
  args: unknown,
  options: EnqueueOptions | undefined,
): Promise<NewJob> {
  const place: Place = { what, path: "", problems: new Problems() };
  if (!JobDefinition.is(definition)) place.problems.add("definition", definition, "must be what defineJob returned");
  place.problems.end(what);
  const { job, pending } = prepare(place, definition, args, options);
  await pending;
  place.problems.end(what);
  return job;
}

/** @throws InvalidError naming everything that is wrong with all jobs, for example `jobs[3].delay` */
export async function newJobs(what: string, specs: readonly unknown[], runtime: Runtime): Promise<NewJob[]> {
  const problems = new Problems();
  const jobs = await prepareAll({ what, path: "jobs", problems }, specs, runtime);
  problems.end(what);
  return jobs;
}

/** The jobs of an array that stands at `path`, to be used only if no problem was added. */
export async function prepareAll(
  { path: list, ...place }: Place,
  specs: readonly unknown[],
  runtime: Runtime,
): Promise<NewJob[]> {
  const jobs: NewJob[] = [];
  let pending: (Promise<void> | undefined)[] = [];
  let characters = 0;
  for (const [index, spec] of specs.entries()) {
    const path = `${list}[${index}]`;
    if (JobSpec.is(spec)) {
      const prepared = prepare(
        { ...place, path, call: { index, count: specs.length } },
        spec.definition,
        spec.args,
        spec.options,
      );
      jobs.push(prepared.job);
      pending.push(prepared.pending);
      characters += prepared.job.args.length;
    } else place.problems.add(path, spec, "must be made by the spec method of a job definition");
    if (index % SLICE.jobs < SLICE.jobs - 1 && characters < SLICE.characters) continue;
    await Promise.all(pending);
    await runtime.turn();
    pending = [];
    characters = 0;
  }
  await Promise.all(pending);
  return jobs;
}

/** Which job is being prepared, and where its problems go. */
export interface Place {
  readonly what: string;
  /** For example `jobs[3]`; empty when there is only one job. */
  readonly path: string;
  readonly problems: Problems;
  /** Where the job stands among several. */
  readonly call?: { readonly index: number; readonly count: number };
  /** Options that are not for the job to say, because a `Batch` says them. */
  readonly decided?: readonly ("batch" | "afterBatch")[];
}

/** The job, to be used only if no problem was added; `pending` is an asynchronous schema at work, which may add some. */
export function prepare(
  place: Place,
  definition: AnyJobDefinition,
  args: unknown,
  options: SpecOptions | undefined,
): { readonly job: NewJob; readonly pending: Promise<void> | undefined } {
  const { problems } = place;
  const { kind, schema, options: general } = definition;
  const { queue, priority, maxAttempts } = general;
  const check = options === undefined ? null : optionsChecker(place, options);
  const field = fieldOf(place, "args");
  const { json, problem } = tryEncodeJson(args, field);
  if (problem !== null) problems.push(problem);
  const title = readTitle(place, check, definition, args);
  const job: NewJob = {
    ...{ kind, queue, priority, maxAttempts, args: json ?? "", title },
    ...{ timeout: null, delay: 0, runAt: null, deadline: null, tags: [], meta: {}, recurringId: null },
    ...{ unique: null, parents: [], limit: general.limit, batch: null, afterBatch: null },
  };
  const pending = json !== null && schema !== null ? checkArgs(problems, field, schema, json) : undefined;
  const complete =
    check === null
      ? job
      : {
          ...job,
          ...readOptions(check, kind, general),
          ...readKey(check, job),
          parents: readParents(check, place.call),
          ...readBatches(check, place.decided),
        };
  return { job: complete, pending: pending ?? undefined };
}

function optionsChecker(place: Place, options: SpecOptions): OptionsChecker {
  return new Checker(place.what, options, place.call === undefined ? ENQUEUE_OPTIONS : SPEC_OPTIONS, place);
}

/** What the options say; what they leave out is as in `general`. */
function readOptions(
  check: OptionsChecker,
  kind: string,
  general: ResolvedJobOptions,
): Omit<NewJob, "kind" | "args" | "title" | "recurringId" | "unique" | "parents" | "batch" | "afterBatch"> {
  if (check.has("delay") && check.has("runAt")) check.refuse("runAt", "can't be given together with delay");
  return {
    queue: check.name("queue", QUEUE, QUEUE_RULE, { default: general.queue }),
    priority: check.integer("priority", { ...PRIORITY, default: general.priority }),
    maxAttempts: check.integer("maxAttempts", { ...ATTEMPTS, default: general.maxAttempts }),
    timeout: check.duration("timeout", { min: 1, max: LONGEST_DURATION, off: 0, default: null }),
    delay: Math.max(check.duration("delay", { min: Number.NEGATIVE_INFINITY, max: LONGEST_DURATION, default: 0 }), 0),
    runAt: check.date("runAt") ?? null,
    deadline: check.date("deadline") ?? null,
    tags: readTags(check),
    meta: readMeta(check),
    limit: readLimit(check.record("limit", LIMIT_OPTIONS), kind) ?? general.limit,
  };
}

/** Nothing for a job that is not unique. */
function readKey(check: OptionsChecker, { kind, args }: NewJob): Partial<Pick<NewJob, "unique" | "delay">> {
  const read = readUnique(check, kind, args);
  if (read === null) return {};
  return read.delay === null ? { unique: read.unique } : { unique: read.unique, delay: read.delay };
}

/** Shown only, so a long one is cut and an empty one is none. */
function readTitle(
  place: Place,
  check: OptionsChecker | null,
  definition: AnyJobDefinition,
  args: unknown,
): string | null {
  const title = check?.has("title") ? check.value("title") : makeTitle(place, definition.options.title, args);
  if (title === null || title === undefined) return null;
  if (typeof title === "string") return cutText(title, TITLE_MAX_BYTES) || null;
  place.problems.add(fieldOf(place, "title"), title, "must be a string");
  return null;
}

function makeTitle(place: Place, title: ResolvedJobOptions["title"], args: unknown): unknown {
  if (typeof title !== "function") return title;
  try {
    const made: unknown = title(args as never);
    // An async function makes no title; its rejection must not end the process on top of that.
    if (made instanceof Promise) made.catch(() => {});
    return made;
  } catch (error) {
    const { error: text } = serializeError(error);
    place.problems.add(fieldOf(place, "args"), args, `must be such that a title can be made of it (${text})`);
    return null;
  }
}

export function fieldOf({ path }: Place, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

function readTags(check: OptionsChecker): string[] {
  const given = check.array("tags") ?? [];
  const tags = new Set<string>();
  for (const [index, value] of given.entries()) {
    const field = `${check.field("tags")}[${index}]`;
    const tag = readText(check.problems, field, value, { maxBytes: TAGS.maxBytes });
    if (tag !== undefined) tags.add(tag);
  }
  if (tags.size > TAGS.max) check.refuse("tags", `must be at most ${TAGS.max} different ones`);
  return [...tags];
}

/** Of jobs and of batches. */
export function readMeta<Field extends string>(check: Checker<Field | "meta">): Record<string, string> {
  const given = check.record("meta");
  if (given === undefined) return {};
  if (given.keys.length > META.maxKeys) check.refuse("meta", `must have at most ${META.maxKeys} keys`);
  const entries = given.keys.slice(0, META.maxKeys).map((key) => {
    const field = `a key of ${check.field("meta")}`;
    readText(check.problems, field, key);
    if (key.startsWith(META_RESERVED)) check.problems.add(field, key, `must not begin with "${META_RESERVED}"`);
    return [key, given.text(key, { empty: true, default: "" })] as const;
  });
  const bytes = entries.reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value), 0);
  if (bytes > META.maxBytes) check.refuse("meta", `must be at most ${META.maxBytes} bytes, keys and values together`);
  // Defines each key as the object's own, whatever its name.
  return Object.fromEntries(entries);
}
