/** S2: a job that is processing has one holder, and each claim of it a number one higher than the last. */
import type { JobId } from "../../engine/store.ts";
import type { Change } from "../cluster/audit.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import { beatOf, claimQuery, claimReply } from "./calls.ts";
import type { View } from "./view.ts";

export class Claims implements Checker {
  readonly name = "S2 claims";
  readonly #view: View;
  #newest: JobId = 0;

  constructor(view: View) {
    this.#view = view;
  }

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    for (const change of event.changes) this.#check(event.call.op, change);
    if (event.call.op === "claim") this.#answered(event);
    if (event.call.op === "heartbeat") this.#leases(event);
  }

  #check(op: string, { id, before, after }: Change): void {
    if (after === null) return;
    if (before === null) {
      if (id <= this.#newest) throw broken(id, "an id is given twice, or is not higher than all before");
      if (after.claim !== 0) throw broken(id, `a new job has claim ${after.claim}`);
      this.#newest = id;
      return;
    }
    const claimed = op === "claim" && after.state === "processing";
    if (after.claim !== before.claim + (claimed ? 1 : 0)) {
      throw broken(id, `${op} takes the claim from ${before.claim} to ${after.claim}`);
    }
    const holds = before.state === "processing" && after.state === "processing";
    if (holds && before.server !== after.server) throw broken(id, `${op} gives a running job to another server`);
  }

  /** Only a server that is registered and was not declared dead can claim; what it is told is what it has. */
  #answered(commit: Commit): void {
    const { server, limit } = claimQuery(commit);
    const reply = claimReply(commit);
    const taken = commit.changes.filter(({ after }) => after?.state === "processing");
    if (reply === null) {
      if (taken.length > 0) throw broken(taken[0]?.id ?? null, "a claim that was refused has taken jobs");
      return;
    }
    const living = this.#view.isLiving(server);
    if (reply.known !== living)
      throw broken(null, `a claim by a server that is ${living ? "" : "not "}alive: known is ${reply.known}`);
    if (reply.jobs.length > limit) throw broken(null, "a claim takes more jobs than it asked for");
    const told = new Map(reply.jobs.map((job) => [job.id, job]));
    if (told.size !== reply.jobs.length) throw broken(null, "a claim names a job twice");
    for (const { id, after } of taken) {
      const job = told.get(id);
      if (after?.server !== server) throw broken(id, "a claim gives a job to another server");
      if (job?.claim !== after.claim || job.attempt !== after.attempt)
        throw broken(id, "a claim's answer differs from the job");
      told.delete(id);
    }
    for (const id of told.keys()) throw broken(id, "a claim's answer names a job that it has not taken");
  }

  /** A heartbeat learns what the store believes that the server runs. */
  #leases(commit: Commit): void {
    if (commit.error !== undefined) return;
    const { server } = beatOf(commit);
    const { known, leases } = commit.result as { known: boolean; leases: readonly { id: JobId; claim: number }[] };
    const living = this.#view.isLiving(server);
    if (known !== living)
      throw broken(null, `a beat of a server that is ${living ? "" : "not "}alive: known is ${known}`);
    const held = known ? this.#view.heldBy(server) : 0;
    if (leases.length !== held) throw broken(null, `a beat tells of ${leases.length} jobs of ${held}`);
    for (const { id, claim } of leases) {
      const row = this.#view.rows.get(id);
      if (row?.state !== "processing" || row.server !== server || row.claim !== claim) {
        throw broken(id, "a beat tells of a job that its server does not hold");
      }
    }
  }
}

const broken = (id: JobId | null, message: string): Violation => new Violation("S2", message, id);
