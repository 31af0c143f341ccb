/**
 * Copies of what a store is given, so that what it checks is what it uses: an object of a caller may have getters or be a
 * proxy, and say something else each time, or be changed while the store waits for its turn. Each field is read once.
 */
import { isDate } from "node:util/types";
import type { Limit, NewBatch, NewJob, Parent, UniqueKey } from "../store.ts";
import { TAGS } from "./limits.ts";

/** Stands for what can't be read. Nothing is wrong with it, so that no other field is complained of. */
const BLANK: NewJob = {
  ...{ kind: "k", queue: "q", args: "null", priority: 0, maxAttempts: 1, timeout: null, delay: 0, runAt: null },
  ...{ deadline: null, title: null, tags: [], meta: {}, recurringId: null, unique: null, parents: [], limit: null },
  ...{ batch: null, afterBatch: null },
};

/** What is not of the right type is left as it is, for the check to refuse. `unreadable` is told of fields that throw. */
export const copyNewJob = (job: NewJob, unreadable: (field: keyof NewJob) => void): NewJob =>
  copyWith(copyJob, BLANK, job, unreadable);

function copyWith<T extends object>(
  copy: (given: T) => T,
  blank: T,
  given: T,
  unreadable: (field: keyof T) => void,
): T {
  try {
    return copy(given);
  } catch {
    return copyReadable(copy, blank, given, unreadable);
  }
}

function copyReadable<T extends object>(
  copy: (given: T) => T,
  blank: T,
  given: T,
  unreadable: (field: keyof T) => void,
): T {
  const readable: T = { ...blank };
  for (const field of Object.keys(blank) as (keyof T)[]) {
    try {
      const alone: T = { ...blank, [field]: given[field] };
      Object.assign(readable, { [field]: copy(alone)[field] });
    } catch {
      unreadable(field);
    }
  }
  return readable;
}

// Written out, because a loop over the fields takes several times as long, and this is done for every job.
function copyJob(job: NewJob): NewJob {
  return {
    kind: job.kind,
    queue: job.queue,
    args: job.args,
    priority: job.priority,
    maxAttempts: job.maxAttempts,
    timeout: job.timeout,
    delay: job.delay,
    runAt: copyDate(job.runAt),
    deadline: copyDate(job.deadline),
    title: job.title,
    tags: copyTags(job.tags),
    meta: copyTexts(job.meta),
    recurringId: job.recurringId,
    unique: copyUnique(job.unique),
    parents: copyParents(job.parents),
    limit: copyLimit(job.limit),
    batch: job.batch,
    afterBatch: job.afterBatch,
  };
}

const BLANK_BATCH: NewBatch = { description: null, meta: {}, parent: null };

/** As `copyNewJob`. */
export const copyNewBatch = (batch: NewBatch, unreadable: (field: keyof NewBatch) => void): NewBatch =>
  copyWith(copyBatch, BLANK_BATCH, batch, unreadable);

const copyBatch = ({ description, meta, parent }: NewBatch): NewBatch => ({
  description,
  meta: copyTexts(meta),
  parent,
});

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;

/** As the date is, whatever methods of its own it has. */
export const copyDate = <T>(value: T): T | Date =>
  isDate(value) ? new Date(Date.prototype.getTime.call(value)) : value;

/** No more than it takes to see that they are too many. */
function copyTags(tags: NewJob["tags"]): NewJob["tags"] {
  if (!Array.isArray(tags)) return tags;
  const copies: string[] = [];
  const count = Math.min(tags.length, TAGS.max + 1);
  while (copies.length < count) copies.push(tags[copies.length]);
  return copies;
}

function copyTexts(texts: NewJob["meta"]): NewJob["meta"] {
  if (!isObject(texts) || Array.isArray(texts)) return texts;
  const entries = Object.entries(texts);
  // Defines each key as the object's own, whatever its name.
  return entries.length === 0 ? {} : Object.fromEntries(entries);
}

function copyUnique(unique: UniqueKey | null): UniqueKey | null {
  if (unique === null) return null;
  const { key, window, onConflict } = asObject<UniqueKey>(unique);
  return { key, window, onConflict };
}

function copyParents(parents: NewJob["parents"]): NewJob["parents"] {
  if (!Array.isArray(parents)) return parents;
  const given: readonly Parent[] = parents;
  return given.length === 0 ? [] : Array.from(given, copyParent);
}

function copyParent(parent: Parent): Parent {
  const { id, index, on: given } = asObject<Record<"id" | "index", number> & Pick<Parent, "on">>(parent);
  const on = Array.isArray(given) ? Array.from(given as Parent["on"]) : given;
  return id === undefined ? { index, on } : { id, on };
}

function copyLimit(limit: Limit | null): Limit | null {
  if (limit === null) return null;
  const { key, max, rate, per, burst } = asObject<Limit>(limit);
  return { key, max, rate, per, burst };
}

/** What is no object has none of the fields. */
const asObject = <T>(value: unknown): T => Object(value) as T;
