/**
 * S13, S14: a job that waits for others, or for a batch, goes on in the commit in which the last of them has ended as was
 * asked, never before, and is deleted, for the reason that names it, in the commit in which one has ended otherwise for good.
 */
import type { BatchId, JobId, JobState, NewJob, ParentState } from "../../engine/store.ts";
import type { Change, Snapshot } from "../cluster/audit.ts";
import { type Checker, type HistoryEvent, Violation } from "../run/history.ts";
import { BatchModel } from "./batch-model.ts";
import { insertCalls } from "./commits.ts";

const PARENT_STATES: readonly string[] = ["succeeded", "failed", "deleted"] satisfies ParentState[];

interface Child {
  /** For each parent the states that are asked for, until it has reached one. */
  readonly open: Map<JobId, ReadonlySet<ParentState>>;
  /** Why it must be deleted, by parents of which each would be reason enough. */
  readonly doomedBy: Set<string>;
  /** The batch that has to finish first, until it has. */
  afterBatch: BatchId | null;
}

export class Dependencies implements Checker {
  readonly name = "dependencies";
  readonly #states = new Map<JobId, JobState>();
  /** Those that still wait. */
  readonly #children = new Map<JobId, Child>();
  readonly #childrenOf = new Map<JobId, Set<JobId>>();
  readonly #batches = new BatchModel();

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    const touched = new Set<JobId>();
    for (const call of insertCalls(event)) {
      const ids = call.map(({ inserted }) => inserted.id);
      for (const { job, inserted } of call) {
        if (inserted.duplicate || (job.parents.length === 0 && job.afterBatch === null)) continue;
        this.#add(inserted.id, job, ids);
        touched.add(inserted.id);
      }
    }
    this.#batches.see(event);
    for (const [id, child] of this.#children) {
      if (child.afterBatch === null || this.#batches.batches.get(child.afterBatch)?.finished !== true) continue;
      child.afterBatch = null;
      touched.add(id);
    }
    for (const change of event.changes) this.#change(change, touched);
    for (const id of touched) this.#check(id, event.changes);
    for (const { id, after } of event.changes) this.#checkRun(id, after);
  }

  #add(id: JobId, { parents, afterBatch }: NewJob, ids: readonly JobId[]): void {
    const child: Child = { open: new Map(), doomedBy: new Set(), afterBatch };
    this.#children.set(id, child);
    for (const parent of parents) {
      const of = "id" in parent ? parent.id : (ids[parent.index] ?? 0);
      const before = child.open.get(of);
      child.open.set(of, new Set(parent.on.filter((state) => before === undefined || before.has(state))));
      const siblings = this.#childrenOf.get(of) ?? new Set();
      this.#childrenOf.set(of, siblings.add(id));
    }
    for (const of of [...child.open.keys()]) {
      const state = this.#states.get(of);
      if (state !== undefined) settle(child, of, state);
    }
  }

  #change({ id, before, after }: Change, touched: Set<JobId>): void {
    if (after === null) this.#states.delete(id);
    else this.#states.set(id, after.state);
    if (after === null || PARENT_STATES.includes(after.state)) {
      for (const childId of this.#childrenOf.get(id) ?? []) {
        const child = this.#children.get(childId);
        if (child === undefined) continue;
        // Whatever has happened to it in between: it has ended so at least at the commit's end.
        settle(child, id, after === null ? "pruned" : after.state);
        touched.add(childId);
      }
    }
    if (before?.state === "awaiting" && after?.state !== "awaiting") touched.add(id);
  }

  /** That a child did what its parents' ends ask for, no less and no more. */
  #check(id: JobId, changes: readonly Change[]): void {
    const child = this.#children.get(id);
    if (child === undefined) return;
    const change = changes.find((one) => one.id === id);
    const row = change?.after ?? null;
    const state = this.#states.get(id);
    if (state === "awaiting") {
      if (child.doomedBy.size > 0) throw violation(`it still waits although ${reasons(child)}`, id);
      if (isFree(child)) throw violation("it still waits although all its parents have ended as was asked", id);
      return;
    }
    this.#children.delete(id);
    if (state === undefined) throw violation("it was removed while it waited for other jobs", id);
    if (state === "deleted") checkDeletion(id, child, row);
    else if (child.doomedBy.size > 0) throw violation(`it is ${state} although ${reasons(child)}`, id);
    else if (!isFree(child)) throw violation(`it is ${state} although ${waitsFor(child)}`, id);
  }

  /** Defence in depth: nothing that still waits is ever run. */
  #checkRun(id: JobId, row: Snapshot | null): void {
    if (row?.state === "processing" && this.#children.has(id))
      throw violation("it runs while it waits for other jobs", id);
  }
}

function settle({ open, doomedBy }: Child, parent: JobId, end: JobState | "pruned"): void {
  const state = end === "pruned" ? "deleted" : end;
  const asked = open.get(parent);
  if (asked === undefined || !PARENT_STATES.includes(state)) return;
  if (asked.has(state as ParentState)) open.delete(parent);
  // A failed parent may be requeued.
  else if (state !== "failed") doomedBy.add(`parent ${parent} ${end}`);
}

function checkDeletion(id: JobId, child: Child, row: Snapshot | null): void {
  const reason = row?.reason ?? "";
  if (reason === "deleted" || child.doomedBy.has(reason)) return;
  throw violation(`it was deleted for the reason "${reason}", but ${reasons(child)}`, id);
}

const reasons = ({ doomedBy }: Child): string => [...doomedBy].join(", ") || "no parent has ended otherwise than asked";

const isFree = ({ open, afterBatch }: Child): boolean => open.size === 0 && afterBatch === null;

function waitsFor({ open, afterBatch }: Child): string {
  const [first] = open.keys();
  return first === undefined ? `batch ${afterBatch} has not finished` : `job ${first} has not ended as was asked`;
}

const violation = (what: string, job: JobId): Violation => new Violation("S13", what, job);
