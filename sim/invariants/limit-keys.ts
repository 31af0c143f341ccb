/** Keys of limits as the commits tell them: the rule that counts, and which jobs of a key wait and run. */

import type { JobId, Limit } from "../../engine/store.ts";
import type { Snapshot } from "../cluster/audit.ts";
import type { Commit } from "../run/history.ts";
import { ENDS, insertions, type Reading } from "./commits.ts";
import { LIMIT_FORGOTTEN } from "./promises.ts";

export interface LimitKey {
  readonly name: string;
  limit: Limit;
  /** Grows each time that another rate begins to count. */
  epoch: number;
  /** The newest job that the rule was taken from. */
  ruleOf: JobId;
  /** Which rule counts can't be told any more: the database may have forgotten the key, and other numbers come back. */
  doubtful: boolean;
  readonly waiting: Map<JobId, Snapshot>;
  readonly running: Set<JobId>;
  usedAt: Reading;
}

export class LimitKeys {
  readonly keys = new Map<string, LimitKey>();
  /** Numbers that each job was inserted with. */
  readonly #limits = new Map<JobId, Limit>();
  /** Latest reading of the clock so far. */
  #latest: Reading = 0;

  /** Takes in what a commit has changed. */
  see(commit: Commit): void {
    this.#latest = Math.max(this.#latest, commit.clock);
    for (const { job, inserted } of insertions(commit)) {
      if (job.limit !== null && !inserted.duplicate) this.#limits.set(inserted.id, job.limit);
    }
    for (const { id, before, after } of commit.changes) {
      const name = (after ?? before)?.limitKey ?? null;
      if (name === null) continue;
      if (after !== null) this.#useRule(name, id, after);
      const key = this.keys.get(name);
      if (key === undefined) continue;
      key.usedAt = commit.clock;
      if (after?.state === "throttled") key.waiting.set(id, after);
      else key.waiting.delete(id);
      if (after?.state === "processing") key.running.add(id);
      else key.running.delete(id);
    }
  }

  #useRule(name: string, id: JobId, { state }: Snapshot): void {
    const limit = this.#limits.get(id);
    // A job that was born deleted, or has ended, does not count.
    if (ENDS.has(state) || limit === undefined) return;
    const key = this.keys.get(name);
    if (key === undefined) {
      const [waiting, running] = [new Map<JobId, Snapshot>(), new Set<JobId>()];
      const made = { name, limit, epoch: 0, ruleOf: id, doubtful: false, waiting, running, usedAt: this.#latest };
      this.keys.set(name, made);
      return;
    }
    const same = sameRate(limit, key.limit);
    if (id > key.ruleOf) {
      key.ruleOf = id;
      key.doubtful = false;
      if (!same) key.epoch += 1;
      key.limit = limit;
    } else if ((!same || limit.max !== key.limit.max) && this.#mayBeForgotten(key)) {
      key.doubtful = true;
      key.epoch += 1;
    }
  }

  #mayBeForgotten({ waiting, running, usedAt }: LimitKey): boolean {
    return waiting.size === 0 && running.size === 0 && this.#latest - usedAt >= LIMIT_FORGOTTEN;
  }
}

function sameRate(a: Limit, b: Limit): boolean {
  return a.rate === b.rate && a.per === b.per && a.burst === b.burst;
}
