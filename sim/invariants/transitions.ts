/** S1: jobs move as the documents say, and only then. */
import type { JobState } from "../../engine/store.ts";
import type { Change, Snapshot } from "../cluster/audit.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";

/** Where a job waits once it is due: `throttled` if it has a limit. */
const READY = ["enqueued", "throttled"] as const;
/** What becomes of jobs that wait for others when those end. */
const RELEASED: readonly Edge[] = edges("awaiting", "scheduled", ...READY, "deleted");
const DUE: readonly Edge[] = edges("scheduled", ...READY);
const INSERTED: readonly Edge[] = [
  ...edges("new", "awaiting", "scheduled", ...READY, "deleted"),
  // A later unique job may give the holder of its key another time while that waits.
  ...edges("scheduled", ...READY),
  ...edges("enqueued", "scheduled", "throttled"),
  ...edges("throttled", "scheduled", "enqueued"),
];

type Edge = `${JobState | "new"} ${JobState | "gone"}`;

function edges(from: JobState | "new", ...to: readonly (JobState | "gone")[]): Edge[] {
  return to.map((state): Edge => `${from} ${state}`);
}

/** What each call may do, besides leaving jobs in their state. `records.ts` draws the same. */
const ALLOWED: Readonly<Record<string, ReadonlySet<Edge>>> = {
  insert: new Set(INSERTED),
  fireRecurring: new Set(INSERTED),
  sealBatch: new Set(RELEASED),
  transaction: new Set([...INSERTED, ...RELEASED]),
  // What is due is promoted and, when there is room, claimed in the same call.
  claim: new Set([
    ...DUE,
    ...edges("scheduled", "processing"),
    ...READY.flatMap((ready) => edges(ready, "processing")),
  ]),
  finish: new Set([...edges("processing", "succeeded", "failed", "deleted", "scheduled", ...READY), ...RELEASED]),
  sweep: new Set([...DUE, ...RELEASED]),
  delete: new Set([
    ...(["awaiting", "scheduled", "failed", ...READY] as const).flatMap((state) => edges(state, "deleted")),
    ...RELEASED,
  ]),
  requeue: new Set((["failed", "scheduled", "succeeded", "deleted"] as const).flatMap((from) => edges(from, ...READY))),
  prune: new Set([
    ...(["succeeded", "failed", "deleted"] as const).flatMap((state) => edges(state, "gone")),
    ...RELEASED,
  ]),
};

const INSERTS: ReadonlySet<string> = new Set(["insert", "fireRecurring", "transaction"]);
const ENDED: ReadonlySet<JobState> = new Set(["succeeded", "failed", "deleted"]);

export class Transitions implements Checker {
  readonly name = "S1 transitions";

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    for (const change of event.changes) this.#check(event, change);
  }

  #check(commit: Commit, change: Change): void {
    const { id, before, after } = change;
    const { op } = commit.call;
    const [from, to] = [before?.state ?? "new", after?.state ?? "gone"];
    if (from !== to && !ALLOWED[op]?.has(`${from} ${to}` as Edge))
      throw broken(id, `${op} moves a job ${from} → ${to}`);
    if (from === to && !mayStay(op, from)) throw broken(id, `${op} changes a job that is ${from}`);
    if (after !== null) checkShape(id, after);
    const due = before?.state === "scheduled" && (op === "claim" || op === "sweep");
    if (due && before.runAt > commit.clock) throw broken(id, `${op} takes a job before it is due`);
    if (before !== null && after !== null) checkFixed(id, op, before, after);
  }
}

/** A running job may be marked for deletion, and a waiting one replaced by a later one that has its unique key. */
function mayStay(op: string, state: string): boolean {
  if (op === "delete") return state === "processing";
  if (INSERTS.has(op)) {
    return state === "awaiting" || state === "scheduled" || state === "enqueued" || state === "throttled";
  }
  // A child that waits for one parent, or batch, less.
  return state === "awaiting" && (op === "finish" || op === "sweep" || op === "prune" || op === "sealBatch");
}

/** What is so in a state whatever led to it. */
function checkShape(id: number, { state, limitKey, finalizedAt, cancelRequested, server, claim }: Snapshot): void {
  if (state === "enqueued" && limitKey !== null) throw broken(id, "a job with a limit is enqueued, not throttled");
  if (state === "throttled" && limitKey === null) throw broken(id, "a job without a limit is throttled");
  if (ENDED.has(state) !== (finalizedAt !== null))
    throw broken(id, `a job is ${state} with finalizedAt ${finalizedAt}`);
  if (cancelRequested && state !== "processing") throw broken(id, `a job that is ${state} is asked to stop`);
  if (state === "processing" && (server === null || claim < 1)) throw broken(id, "a job is processing under nobody");
}

/** What stays as it is for as long as the job exists. */
function checkFixed(id: number, op: string, before: Snapshot, after: Snapshot): void {
  if (before.kind !== after.kind) throw broken(id, `${op} changes a job's kind`);
  if (before.recurringId !== after.recurringId) throw broken(id, `${op} changes what a job is a run of`);
  const replaces = INSERTS.has(op);
  if (!replaces && (before.args !== after.args || before.queue !== after.queue)) {
    throw broken(id, `${op} changes a job's args or queue`);
  }
}

const broken = (id: number, message: string): Violation => new Violation("S1", message, id);
