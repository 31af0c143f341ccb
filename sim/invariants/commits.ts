/** What commits say, in the words of the invariants. */
import type { FireRecurring, InsertedJob, JobId, JobState, NewJob } from "../../engine/store.ts";
import type { Change, Snapshot } from "../audit.ts";
import type { Commit } from "../history.ts";

/** Whole milliseconds since 1970, as the database's clock said it. */
export type Reading = number;

/** States in which a job neither waits nor runs. */
export const ENDS: ReadonlySet<JobState> = new Set(["succeeded", "failed", "deleted"]);

/** One job that a call was to insert, with what became of it. */
export interface Insertion {
  readonly job: NewJob;
  readonly inserted: InsertedJob;
}

const NONE: readonly Insertion[] = [];

/** What an insert, or the firing of a recurring job, has said of each job; none for other calls and for refused ones. */
export function insertions({ call, args, result, error }: Commit): readonly Insertion[] {
  if (error !== undefined) return NONE;
  if (call.op === "insert") return paired(args[0] as readonly NewJob[], result as readonly InsertedJob[]);
  if (call.op === "fireRecurring") return paired((args[0] as FireRecurring).jobs, result as readonly InsertedJob[]);
  return NONE;
}

function paired(jobs: readonly NewJob[], results: readonly InsertedJob[]): readonly Insertion[] {
  return results.map((inserted, index) => ({ job: jobs[index] as NewJob, inserted }));
}

export interface Taken {
  readonly id: JobId;
  readonly row: Snapshot;
}

/** Jobs that a claim has taken. */
export function taken({ call, changes }: Commit): readonly Taken[] {
  if (call.op !== "claim") return [];
  return changes.flatMap(({ id, before, after }) =>
    after?.state === "processing" && before?.state !== "processing" ? [{ id, row: after }] : [],
  );
}

/** The job has gone into `state` by this commit. */
export const enters = ({ before, after }: Change, state: JobState): boolean =>
  after?.state === state && before?.state !== state;

/** Queues that are paused, as the database has them. */
export class PausedQueues {
  readonly #paused = new Set<string>();

  see({ call, args, error }: Commit): void {
    if (error !== undefined) return;
    if (call.op === "pauseQueue") this.#paused.add(args[0] as string);
    if (call.op === "resumeQueue") this.#paused.delete(args[0] as string);
  }

  has(queue: string): boolean {
    return this.#paused.has(queue);
  }
}
