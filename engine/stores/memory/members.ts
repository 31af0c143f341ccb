/** What jobs do to their batches. How many members are in which state is counted in `data.ts`, with the other indexes. */
import type { BatchState } from "../../rules/batches.ts";
import { asParent, type ParentEnd } from "../../rules/dependencies.ts";
import { ARCHIVED_STATES, type BatchId, JOB_STATES, type JobState } from "../../store.ts";
import type { Data, Row } from "./data.ts";
import { set } from "./undo.ts";

export interface BatchRow {
  readonly id: BatchId;
  readonly description: string | null;
  /** Frozen. */
  readonly meta: Readonly<Record<string, string>>;
  readonly parent: BatchRow | null;
  readonly createdAt: number;
  finishedAt: number | null;
  sealed: boolean;
  total: number;
  /** Members that are there, by state. */
  readonly counts: Record<JobState, number>;
  nested: number;
  /** Nested batches that have not finished. */
  openNested: number;
  /** Nested batches that are there. */
  nestedRows: number;
}

/** A new job has joined. */
export function join(data: Data, batch: BatchId | null): void {
  const row = batch === null ? undefined : data.batches.get(batch);
  if (row) set(data, row, { total: row.total + 1 });
}

/** For `rules/batches.ts`. */
export function batchOf({ batches }: Data, id: BatchId): BatchState | undefined {
  const row = batches.get(id);
  return row && { finished: row.finishedAt !== null, parent: row.parent?.id ?? null };
}

/** The batches of members that have ended, or were removed, each once. */
export function batchesOf({ batches }: Data, rows: readonly Row[]): BatchRow[] {
  const ids = new Set(rows.flatMap(({ batch }) => (batch === null ? [] : [batch])));
  return [...ids].flatMap((id) => batches.get(id) ?? []);
}

/** Finishes those that are done, and those that they are nested in. Returns them as parents that have ended. */
export function finishBatches(data: Data, rows: readonly BatchRow[], now: number): { id: number; end: ParentEnd }[] {
  const finished: { id: number; end: ParentEnd }[] = [];
  for (const row of rows) {
    for (let at: BatchRow | null = row; at !== null && isDone(at); at = at.parent) {
      set(data, at, { finishedAt: now });
      if (at.parent !== null) set(data, at.parent, { openNested: at.parent.openNested - 1 });
      finished.push({ id: asParent(at.id), end: "succeeded" });
    }
  }
  return finished;
}

function isDone({ sealed, finishedAt, openNested, counts }: BatchRow): boolean {
  return sealed && finishedAt === null && openNested === 0 && LIVE.every((state) => counts[state] === 0);
}

const LIVE = JOB_STATES.filter((state) => !(ARCHIVED_STATES as readonly string[]).includes(state));
