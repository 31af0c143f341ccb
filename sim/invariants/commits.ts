/** What commits say, in the words of the invariants. */
import type { FireRecurring, InsertedJob, JobId, JobState, NewJob } from "../../engine/store.ts";
import type { Change, Snapshot } from "../cluster/audit.ts";
import type { Commit } from "../run/history.ts";

/** Whole milliseconds since 1970, as the database's clock said it. */
export type Reading = number;

/** States in which a job neither waits nor runs. */
export const ENDS: ReadonlySet<JobState> = new Set(["succeeded", "failed", "deleted"]);

/** One job that a call was to insert, with what became of it. */
export interface Insertion {
  readonly job: NewJob;
  readonly inserted: InsertedJob;
}

/** What inserts, and the firing of recurring jobs, have said of each job, call by call. */
export function insertCalls({ parts }: Commit): readonly (readonly Insertion[])[] {
  return parts.flatMap(({ op, args, result }) => {
    const jobs = op === "insert" ? args[0] : op === "fireRecurring" ? (args[0] as FireRecurring).jobs : null;
    return jobs === null ? [] : [paired(jobs as readonly NewJob[], result as readonly InsertedJob[])];
  });
}

export const insertions = (commit: Commit): readonly Insertion[] => insertCalls(commit).flat();

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
