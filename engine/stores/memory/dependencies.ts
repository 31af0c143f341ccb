/** What jobs wait for, and what the end of a job does to those that wait for it. */
import {
  asParent,
  type Birth,
  isParentState,
  type ParentEnd,
  parentReason,
  released,
  verdict,
} from "../../rules/dependencies.ts";
import { appendHistory, historyEntry } from "../../rules/history.ts";
import { CHILDREN_SHOWN } from "../../rules/limits.ts";
import type { JobId } from "../../store.ts";
import { change, type Data, getOrAdd, type Row, tally } from "./data.ts";
import { batchesOf, finishBatches } from "./members.ts";
import { set } from "./undo.ts";
import { releaseKey } from "./unique.ts";

export interface LinkRow {
  readonly mask: number;
  open: boolean;
}

/** For a new job. */
export function addLinks(data: Data, row: Row, { links }: Birth): void {
  for (const { parent, mask, open } of links) {
    getOrAdd(data.links, parent, () => new Map<JobId, LinkRow>()).set(row.id, { mask, open });
  }
  data.undo?.add(() => removeLinks(data, row));
}

interface Ended {
  /** Of a job, or of a batch by `asParent`. */
  readonly id: number;
  readonly end: ParentEnd;
}

/** Those of the jobs that have ended, as `settleChildren` takes them. */
export function endedOf(rows: readonly Row[]): Ended[] {
  return rows.flatMap(({ id, state }) => (isParentState(state) ? [{ id, end: state }] : []));
}

/**
 * Finishes the batches of jobs that have ended or were removed, then deals with all that waits for those jobs and batches, to
 * any depth. Returns the jobs that go on.
 */
export function settle(data: Data, rows: readonly Row[], ended: readonly Ended[], now: number): Row[] {
  return settleChildren(data, [...ended, ...finishBatches(data, batchesOf(data, rows), now)], now);
}

/** Deals with the children of jobs and batches that have ended, and with theirs, to any depth. Returns those that go on. */
export function settleChildren(data: Data, ended: readonly Ended[], now: number): Row[] {
  const going: Row[] = [];
  const queue = [...ended];
  for (let next = queue[0], place = 0; next !== undefined; place += 1, next = queue[place]) {
    for (const [child, link] of data.links.get(next.id) ?? []) {
      const row = data.jobs.get(child);
      if (!link.open || !row) continue;
      const decided = verdict(link.mask, next.end);
      if (decided === "met") {
        set(data, link, { open: false });
        if (countDown(data, row, now)) going.push(row);
      } else if (decided === "doomed") {
        doom(data, row, parentReason(next.id, next.end), now);
        queue.push({ id: child, end: "deleted" }, ...finishBatches(data, batchesOf(data, [row]), now));
      }
    }
  }
  return going;
}

/** True when that was the last parent. */
function countDown(data: Data, row: Row, now: number): boolean {
  if (row.pendingParents > 1) {
    set(data, row, { pendingParents: row.pendingParents - 1 });
    return false;
  }
  change(data, row, { ...released(row.runAt, now, row.limit !== null), pendingParents: 0 });
  return true;
}

function doom(data: Data, row: Row, reason: string, now: number): void {
  closeLinks(data, row);
  const history = appendHistory(row.history, historyEntry({ reason }, "deleted", row.attempt, null, now));
  change(data, row, { state: "deleted", finalizedAt: now, history });
  releaseKey(data, row);
  tally(data, "deleted", now);
}

/** For a job that waits no longer, whatever its parents do. */
export function closeLinks(data: Data, row: Row): void {
  row.pendingParents = 0;
  for (const parent of awaited(row)) {
    const link = data.links.get(parent)?.get(row.id);
    if (link) link.open = false;
  }
}

/** For a job that is removed. */
export function removeLinks(data: Data, row: Row): void {
  for (const parent of awaited(row)) {
    const children = data.links.get(parent);
    children?.delete(row.id);
    if (children?.size === 0) data.links.delete(parent);
  }
}

/** What a job waits, or has waited, for. */
const awaited = ({ parents, afterBatch }: Row): readonly number[] =>
  afterBatch === null ? parents : [...parents, asParent(afterBatch)];

/** By id. */
export function childrenOf(data: Data, parent: JobId): JobId[] {
  return [...(data.links.get(parent)?.keys() ?? [])].sort((a, b) => a - b).slice(0, CHILDREN_SHOWN);
}
