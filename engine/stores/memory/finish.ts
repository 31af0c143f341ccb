/** Writes for running jobs, each fenced by its claim. */
import { checkParams } from "../../rules/check.ts";
import { claimLost } from "../../rules/held.ts";
import { appendHistory } from "../../rules/history.ts";
import { refusal, settle } from "../../rules/outcome.ts";
import type { FinishResult, JobRef, JsonText, Outcome } from "../../store.ts";
import { change, type Data, type Row, tally } from "./data.ts";
import { endedOf, settle as settleOthers } from "./dependencies.ts";
import { nextInLine } from "./limits.ts";
import { releaseKey } from "./unique.ts";

export function finish(data: Data, server: string, outcomes: readonly Outcome[]): FinishResult[] {
  const now = data.runtime.now();
  const waiting: Row[] = [];
  const freed = new Set<string>();
  const results = outcomes.map((outcome): FinishResult => {
    const rule = refusal(outcome);
    if (rule !== null) return { status: "rejected", rule };
    const row = heldRow(data, outcome);
    if (!row) return { status: "stale" };
    apply(data, row, outcome, server, now);
    waiting.push(row);
    if (row.limit !== null) freed.add(row.limit.key);
    return { status: "applied", state: row.state };
  });
  const children = settleOthers(data, waiting, endedOf(waiting), now);
  const next = [...freed].flatMap((key) => nextInLine(data, key));
  data.wake.emitReady([...waiting, ...children, ...next], now);
  return results;
}

function apply(data: Data, row: Row, outcome: Outcome, server: string, now: number): void {
  const { attempt, cancelRequested, limit } = row;
  const running = { attempt, runAt: row.runAt, cancelRequested, limitKey: limit?.key ?? null };
  const { counter, entry, ...settled } = settle(running, outcome, server, now);
  const history = entry === null ? row.history : appendHistory(row.history, entry);
  change(data, row, { ...settled, history, cancelRequested: false });
  releaseKey(data, row);
  if (counter !== null) tally(data, counter, now);
}

/** The job if it is processing under this claim. */
export function heldRow(data: Data, ref: JobRef): Row | null {
  const row = data.jobs.get(ref.id);
  if (row?.state !== "processing") return null;
  return row.claim === ref.claim || data.runtime.buggify("store.no-claim-check") ? row : null;
}

/** As `heldRow`. @throws ClaimLostError */
export function requireHeld(data: Data, ref: JobRef): Row {
  const row = heldRow(data, ref);
  if (!row) throw claimLost(ref);
  return row;
}

export function setParams(data: Data, ref: JobRef, params: Readonly<Record<string, JsonText>>): void {
  checkParams(params);
  const row = requireHeld(data, ref);
  const before = row.params;
  row.params = Object.freeze({ ...before, ...params });
  data.undo?.add(() => {
    row.params = before;
  });
}
