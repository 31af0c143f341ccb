/** Claims that hold their jobs: what a write for a running job names, and how it is refused. */
import { ClaimLostError } from "../errors.ts";
import { Problems } from "../problems.ts";
import type { InsertOptions, JobRef, NewJob } from "../store.ts";
import { Checker } from "../validate.ts";
import { checkNewJobs } from "./check.ts";

export const claimLost = ({ id, claim }: JobRef): ClaimLostError =>
  new ClaimLostError(`job ${id} is not held by claim ${claim}`);

const WHAT = "can't insert";

/** What `insert` was given, to be used instead of it. */
export interface Insertion {
  readonly jobs: readonly NewJob[];
  /** Null = whoever holds what. */
  readonly whileHeld: JobRef | null;
}

/** @throws InvalidError naming `jobs[position].field` of every problem, and `options.whileHeld` */
export function checkInsert(jobs: readonly NewJob[], options: InsertOptions | undefined): Insertion {
  const problems = new Problems();
  const whileHeld = options === undefined ? null : readOptions(options, problems);
  return { jobs: checkNewJobs(jobs, WHAT, undefined, problems), whileHeld };
}

function readOptions(options: InsertOptions, problems: Problems): JobRef | null {
  const check = new Checker(WHAT, options, ["whileHeld"], { path: "options", problems });
  if (!check.has("whileHeld")) return null;
  const ref = readRef(check.value("whileHeld"));
  if (ref === null) check.refuse("whileHeld", "must be the id and the claim of a job");
  return ref;
}

/** A copy, so that it is read once; null for what is none. */
function readRef(value: unknown): JobRef | null {
  try {
    const { id, claim } = Object(value) as Readonly<Record<keyof JobRef, unknown>>;
    return isWhole(id, 1) && isWhole(claim, 0) ? { id, claim } : null;
  } catch {
    return null;
  }
}

const isWhole = (value: unknown, min: number): value is number => Number.isSafeInteger(value) && Number(value) >= min;
