/**
 * S3: what is written for a running job names its claim, and is refused when the job is no longer held by it; so are the jobs
 * that it adds; and what the store answers is what it did.
 */
import { ClaimLostError } from "../../engine/errors.ts";
import type { FinishResult, InsertOptions, JobId, JobRef, Outcome } from "../../engine/store.ts";
import type { Change } from "../cluster/audit.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
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
    else {
      this.#inserts(event);
      for (const change of event.changes) refuseEnd(op, change);
    }
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

  /** Of the calls in a transaction those that were refused are not known. */
  #inserts({ call, args, error, parts }: Commit): void {
    for (const part of parts) {
      const ref = part.op === "insert" ? claimOf(part.args) : null;
      if (ref !== null && !this.#holds(ref)) throw this.#late(ref, "insert");
    }
    if (call.op !== "insert" || !(error instanceof ClaimLostError)) return;
    const ref = claimOf(args);
    if (ref === null) throw new Violation("S3", "an insert that names no claim was refused for one");
    if (this.#holds(ref)) throw broken(ref.id, "an insert of the job's holder was refused");
  }

  #holds({ id, claim }: JobRef): boolean {
    const row = this.#view.rows.get(id);
    return row?.state === "processing" && row.claim === claim;
  }

  #write({ args, error, changes }: Commit, op: string): void {
    const ref = args[0] as JobRef;
    const holds = this.#holds(ref);
    if (changes.length > 0) throw broken(ref.id, `${op} moves a job`);
    if (error === undefined && !holds) throw this.#late(ref, op);
    if (error instanceof ClaimLostError && holds) throw broken(ref.id, `${op} of the job's holder was refused`);
  }

  #late({ id, claim }: JobRef, op: string): Violation {
    const row = shown(this.#view.rows.get(id));
    return broken(id, `a late ${op} was accepted: claim ${claim} of a job that is ${row}`);
  }
}

/** That of the running job which inserts; null when there is none. */
const claimOf = (args: readonly unknown[]): JobRef | null => (args[1] as InsertOptions | undefined)?.whileHeld ?? null;

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
