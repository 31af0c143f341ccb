/** Batches as users make them, and how they are written. */
import { type Place, prepareAll, readMeta } from "./enqueue.ts";
import type { JobSpec } from "./job.ts";
import { IDS, invalid, Problems } from "./problems.ts";
import { refuseCycle } from "./rules/dependencies.ts";
import { DESCRIPTION_MAX_BYTES } from "./rules/limits.ts";
import { cutText } from "./rules/text.ts";
import type { Runtime } from "./runtime.ts";
import type { BatchId, NewBatch, NewJob, Writer } from "./store.ts";
import { Checker } from "./validate.ts";

export interface BatchOptions {
  /** What lists show; cut to 1 KiB. */
  readonly description?: string;
  /** At most 64 keys, none of which begins with `kiln.`; keys and values together at most 16 KiB. */
  readonly meta?: Readonly<Record<string, string>>;
  /** A batch that is there and has not finished: this one is nested in it. Not for what goes into `nest`. */
  readonly parent?: BatchId;
}

/**
 * Jobs that are one piece of work, and what is to run when all of them are done. Only collects; `Client.startBatch` checks and
 * writes it, as often as it is called.
 *
 *     const batch = new Batch({ description: "invoices of November" });
 *     for (const order of orders) batch.add(invoice.spec({ order }));
 *     batch.continueWith(report.spec({}));
 *     await client.startBatch(batch);
 */
export class Batch {
  readonly #options: BatchOptions | undefined;
  readonly #jobs: JobSpec[] = [];
  readonly #nested: Batch[] = [];
  readonly #continuations: JobSpec[] = [];

  constructor(options?: BatchOptions) {
    this.#options = options;
  }

  /** Adds a job to the batch. Returns its position, for `needs` of others of the batch. */
  add(spec: JobSpec): number {
    return this.#jobs.push(spec) - 1;
  }

  /** Adds a batch that has to finish before this one does. Its own continuations become jobs of this batch. */
  nest(batch: Batch): void {
    this.#nested.push(batch);
  }

  /** Adds a job that waits until the batch has finished. Returns its position, for `needs` of other continuations. */
  continueWith(spec: JobSpec): number {
    return this.#continuations.push(spec) - 1;
  }

  static is(value: unknown): value is Batch {
    return typeof value === "object" && value !== null && #nested in value;
  }

  /** What was collected so far. */
  static contentOf(batch: Batch): BatchContent {
    const [jobs, nested, continuations] = [[...batch.#jobs], [...batch.#nested], [...batch.#continuations]];
    return { options: batch.#options, jobs, nested, continuations };
  }
}

interface BatchContent {
  readonly options: BatchOptions | undefined;
  readonly jobs: readonly JobSpec[];
  readonly nested: readonly Batch[];
  readonly continuations: readonly JobSpec[];
}

/** A batch that was checked. `parent` is that of the options. */
export interface PreparedBatch extends NewBatch {
  readonly jobs: readonly NewJob[];
  readonly nested: readonly PreparedBatch[];
  readonly continuations: readonly NewJob[];
}

/** Levels of nesting in one call. */
const MAX_DEPTH = 100;
const OPTIONS = ["description", "meta", "parent"] as const satisfies readonly (keyof BatchOptions)[];

/** @throws InvalidError naming everything that is wrong, for example `batch.nested[1].jobs[3].delay` */
export async function prepareBatch(what: string, batch: unknown, runtime: Runtime): Promise<PreparedBatch> {
  if (!Batch.is(batch)) throw invalid(what, "batch", batch, "must be a Batch");
  const problems = new Problems();
  const prepared = await prepare({ what, path: "batch", problems }, batch, {
    runtime,
    seen: new Set([batch]),
    depth: 1,
  });
  problems.end(what);
  return prepared;
}

interface Walk {
  readonly runtime: Runtime;
  /** Batches that were met. */
  readonly seen: Set<Batch>;
  /** Of the batch that is looked at. */
  readonly depth: number;
}

async function prepare(place: Place, batch: Batch, walk: Walk): Promise<PreparedBatch> {
  const content = Batch.contentOf(batch);
  const options = readOptions(place, content.options, walk.depth > 1);
  const jobs = await prepareJobs(place, "jobs", content.jobs, walk.runtime);
  const nested: PreparedBatch[] = [];
  for (const [index, inner] of content.nested.entries()) {
    const path = `${place.path}.nested[${index}]`;
    const refusal = refusalOf(inner, walk);
    if (refusal !== null) place.problems.add(path, inner, refusal);
    else nested.push(await prepare({ ...place, path }, inner, { ...walk, depth: walk.depth + 1 }));
  }
  const continuations = await prepareJobs(place, "continuations", content.continuations, walk.runtime);
  return { ...options, jobs, nested, continuations };
}

/** Why a batch can't be nested, or null. It counts as met then. */
function refusalOf(inner: unknown, { seen, depth }: Walk): string | null {
  if (!Batch.is(inner)) return "must be a Batch";
  if (seen.has(inner)) return "must not be in the call twice, nor within itself";
  if (depth === MAX_DEPTH) return `must not be more than ${MAX_DEPTH} levels deep`;
  seen.add(inner);
  return null;
}

function readOptions(place: Place, options: unknown, isNested: boolean): NewBatch {
  const check = new Checker(place.what, options, OPTIONS, place);
  const description = check.value("description") ?? "";
  if (typeof description !== "string") check.refuse("description", "must be a string");
  const parent = check.integer("parent", { ...IDS, default: null });
  if (isNested && check.has("parent")) check.refuse("parent", "must not be given: it is the batch around it");
  // Shown only, so a long one is cut and an empty one is none.
  const shown = typeof description === "string" ? cutText(description, DESCRIPTION_MAX_BYTES) : "";
  return { description: shown || null, meta: readMeta(check), parent };
}

async function prepareJobs(
  { what, path, problems }: Place,
  list: "jobs" | "continuations",
  specs: readonly JobSpec[],
  runtime: Runtime,
): Promise<NewJob[]> {
  const before = problems.count;
  const decided = list === "jobs" ? (["batch"] as const) : (["batch", "afterBatch"] as const);
  const jobs = await prepareAll({ what, path: `${path}.${list}`, problems, decided }, specs, runtime);
  if (problems.count === before) refuseCycle(jobs, problems, `${path}.${list}`);
  return jobs;
}

/** What batches are written with. */
export type BatchWriter = Pick<Writer, "insert" | "openBatch" | "sealBatch">;

/** In the order: batch, members, nested batches, continuations, seal. Returns the batch's id. */
export async function writeBatch(writer: BatchWriter, batch: PreparedBatch, seal: boolean): Promise<BatchId> {
  const { description, meta, parent } = batch;
  const id = await writer.openBatch({ description, meta, parent });
  await insert(writer, batch.jobs, { batch: id });
  for (const inner of batch.nested) await writeBatch(writer, { ...inner, parent: id }, true);
  await insert(writer, batch.continuations, { batch: parent, afterBatch: id });
  if (seal) await writer.sealBatch(id);
  return id;
}

async function insert(writer: BatchWriter, jobs: readonly NewJob[], to: Partial<NewJob>): Promise<void> {
  if (jobs.length > 0) await writer.insert(jobs.map((job) => ({ ...job, ...to })));
}
