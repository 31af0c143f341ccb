/**
 * S9: a job is never lost: it leaves only through `prune`, and only when it has ended and retention has outlived it.
 * S17: what a leader repeats does no harm: `sweep` moves only what is overdue, and leaves nothing of it.
 */
import type { JobId } from "../../engine/store.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { insertions } from "./commits.ts";

export class Conservation implements Checker {
  readonly name = "S9 conservation";
  readonly #retention: number | null;

  constructor({ config }: Scenario) {
    this.#retention = config.retention;
  }

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    this.#inserted(event);
    for (const { id, before, after } of event.changes) {
      if (before !== null && after === null) this.#vanished(event, id, before.state, before.finalizedAt);
    }
  }

  /** Servers of the simulator keep failed jobs for ever, and all others for `retention`. */
  #vanished({ call, clock }: Commit, id: JobId, state: string, finalizedAt: number | null): void {
    const kept = state === "succeeded" || state === "deleted" ? this.#retention : null;
    if (call.op !== "prune") throw new Violation("S9", `${call.op} removes a job that is ${state}`, id);
    if (kept === null || finalizedAt === null) throw new Violation("S9", `a job that is ${state} was removed`, id);
    const age = clock - finalizedAt;
    if (age < kept) throw new Violation("S9", `a job was removed ${age} ms after its end, not ${kept}`, id);
  }

  /** Each job that was taken is there, unless another holds its unique key, and no other. */
  #inserted(commit: Commit): void {
    const added = commit.changes.filter(({ before }) => before === null).map(({ id }) => id);
    const told = insertions(commit).flatMap(({ inserted }) => (inserted.duplicate ? [] : [inserted]));
    const ids = new Set(told.map(({ id }) => id));
    const odd = added.find((id) => !ids.has(id));
    if (odd !== undefined) throw new Violation("S9", "a job is there that was not taken", odd);
    if (added.length !== ids.size || ids.size !== told.length)
      throw new Violation("S9", "a job that was taken is not there");
  }
}

export class Maintenance implements Checker {
  readonly name = "S17 maintenance";
  /** When jobs are due that wait for their time, by the store's clock. */
  readonly #scheduled = new Map<JobId, number>();

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    for (const { id, after } of event.changes) {
      if (after?.state === "scheduled") this.#scheduled.set(id, after.runAt);
      else this.#scheduled.delete(id);
    }
    if (event.error !== undefined) return;
    if (event.call.op === "sweep") this.#swept(event);
    if (event.call.op === "prune") this.#counted(event);
  }

  /** Repeating a sweep that has reached its end finds nothing: none is overdue any more. */
  #swept(commit: Commit): void {
    const moved = this.#counted(commit);
    if (moved >= (commit.args[0] as number)) return;
    for (const [id, runAt] of this.#scheduled) {
      if (runAt <= commit.clock) throw new Violation("S17", "sweep leaves a job that is overdue", id);
    }
  }

  /** Zero says that all is well, so nothing may have changed. */
  #counted({ call, result, changes }: Commit): number {
    const count = result as number;
    if (count === 0 && changes.length > 0)
      throw new Violation("S17", `${call.op} says nothing of its work`, changes[0]?.id);
    return count;
  }
}
