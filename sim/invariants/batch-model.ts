/** Batches as the commits tell them. */
import type { BatchId, JobId, JobState, NewBatch, NewJob } from "../../engine/store.ts";
import type { Commit } from "../run/history.ts";
import { insertions } from "./commits.ts";

export interface BatchState {
  readonly id: BatchId;
  readonly parent: BatchState | null;
  readonly nested: BatchState[];
  /** States of the members that are there. */
  readonly members: Map<JobId, JobState>;
  /** Jobs that have ever joined. */
  total: number;
  sealed: boolean;
  finished: boolean;
}

export class BatchModel {
  readonly batches = new Map<BatchId, BatchState>();
  readonly #batchOf = new Map<JobId, BatchState>();

  /** Takes in a commit. Returns batches that have finished by it, as the documents say it, and jobs that have joined one. */
  see(commit: Commit): { readonly finished: readonly BatchState[]; readonly joined: readonly NewJob[] } {
    const touched = new Set<BatchState>();
    for (const { op, args, result } of commit.parts) {
      if (op === "openBatch") this.#open(result as BatchId, args[0] as NewBatch);
      const sealed = op === "sealBatch" ? this.batches.get(args[0] as BatchId) : undefined;
      if (sealed === undefined) continue;
      sealed.sealed = true;
      touched.add(sealed);
    }
    const joined: NewJob[] = [];
    for (const { job, inserted } of insertions(commit)) {
      const batch = job.batch === null || inserted.duplicate ? undefined : this.batches.get(job.batch);
      if (batch === undefined) continue;
      batch.total += 1;
      this.#batchOf.set(inserted.id, batch);
      joined.push(job);
    }
    for (const { id, after } of commit.changes) {
      const batch = this.#batchOf.get(id);
      if (batch === undefined) continue;
      if (after === null) batch.members.delete(id);
      else batch.members.set(id, after.state);
      touched.add(batch);
    }
    return { finished: [...touched].flatMap(finish), joined };
  }

  #open(id: BatchId, { parent }: NewBatch): void {
    const around = parent === null ? null : (this.batches.get(parent) ?? null);
    const made = { id, parent: around, nested: [], members: new Map(), total: 0, sealed: false, finished: false };
    this.batches.set(id, made);
    around?.nested.push(made);
  }
}

/** Those that are done, from this one outwards. */
function finish(from: BatchState): BatchState[] {
  const finished: BatchState[] = [];
  for (let batch: BatchState | null = from; batch !== null && isDone(batch); batch = batch.parent) {
    batch.finished = true;
    finished.push(batch);
  }
  return finished;
}

function isDone({ sealed, finished, members, nested }: BatchState): boolean {
  const over = [...members.values()].every((state) => state === "succeeded" || state === "deleted");
  return sealed && !finished && over && nested.every((inner) => inner.finished);
}
