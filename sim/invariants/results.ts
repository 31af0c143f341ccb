/**
 * S3: what is written for a running job names its claim, and is refused when the job is no longer held by it; and what the
 * store answers is what it did.
 */
import { ClaimLostError } from "../../engine/errors.ts";
import type { FinishResult, JobId, JobRef, Outcome } from "../../engine/store.ts";
import type { Change } from "../audit.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../history.ts";
import { finished } from "./calls.ts";
import type { View } from "./view.ts";

export class Results implements Checker {
  readonly name = "S3 results";
  readonly #view: View;

  constructor(view: View) {
    this.#view = view;
  }

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    const { op } = event.call;
    if (op === "finish") this.#finish(event);
    else if (op === "setParams" || op === "writeConsole") this.#write(event, op);
    else for (const change of event.changes) refuseEnd(op, change);
  }

  #finish(commit: Commit): void {
    const changes = new Map(commit.changes.map((change) => [change.id, change]));
    const applied = new Set<JobId>();
    for (const { outcome, result } of finished(commit)) {
      const { id, claim } = outcome;
      const row = this.#view.rows.get(id);
      const holds = row?.state === "processing" && row.claim === claim && !applied.has(id);
      if (result.status === "applied") {
        if (!holds) throw broken(id, `a late result was accepted: claim ${claim} of a job that is ${shown(row)}`);
        checkApplied(outcome, result, row.cancelRequested, changes.get(id));
        applied.add(id);
      } else if (result.status === "stale" && holds) throw broken(id, "a result of the job's holder was refused");
    }
    for (const { id, before } of commit.changes) {
      if (before?.state === "processing" && !applied.has(id))
        throw broken(id, "a result that was not accepted has ended a run");
    }
  }

  #write({ args, error, changes }: Commit, op: string): void {
    const { id, claim } = args[0] as JobRef;
    const row = this.#view.rows.get(id);
    const holds = row?.state === "processing" && row.claim === claim;
    if (changes.length > 0) throw broken(id, `${op} moves a job`);
    if (error === undefined && !holds)
      throw broken(id, `a late ${op} was accepted: claim ${claim} of a job that is ${shown(row)}`);
    if (error instanceof ClaimLostError && holds) throw broken(id, `${op} of the job's holder was refused`);
  }
}

/** The job is where the outcome, or a request to stop, sends it, and where the answer says. */
function checkApplied(
  outcome: Outcome,
  result: Extract<FinishResult, { status: "applied" }>,
  cancelRequested: boolean,
  change: Change | undefined,
): void {
  const { id } = outcome;
  const state = change?.after?.state;
  if (state !== result.state) throw broken(id, `finish says ${result.state}, the job is ${state}`);
  const asked = outcome.state === "scheduled" && !(outcome.delay > 0) ? "enqueued" : outcome.state;
  const ready = asked === "enqueued" && change?.before?.limitKey !== null ? "throttled" : asked;
  const due = cancelRequested && outcome.state !== "succeeded" ? "deleted" : ready;
  if (state !== due) throw broken(id, `a job that was to be ${due} is ${state}`);
}

/** Only its holder, or the leader in its place, ends a run. */
function refuseEnd(op: string, { id, before, after }: Change): void {
  if (before?.state === "processing" && after?.state !== "processing") throw broken(id, `${op} ends a run`);
}

const shown = (row: { readonly state: string; readonly claim: number } | undefined): string =>
  row === undefined ? "gone" : `${row.state} under claim ${row.claim}`;

const broken = (id: JobId, message: string): Violation => new Violation("S3", message, id);
