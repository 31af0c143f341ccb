import type { FireRecurring, LeadQuery, LeadReply, Orphan, Outcome } from "../../engine/store.ts";
import type { Commit, HistoryEvent } from "../run/history.ts";
import { START } from "../world/process.ts";
import type { Reach, Watcher } from "./watch.ts";

/** Marks of leaders and what they do. */
export class RescueMarks implements Watcher {
  readonly #reach: Reach;
  /** Processes that have found orphans and not yet rescued them. */
  readonly #rescuing = new Set<string>();
  #holder: string | null = null;
  /** Until when the lease was held before the one that is held now, and when that began; milliseconds since 1970. */
  #gapFrom = START;
  #gapTo = START;
  #expiresAt = START;

  constructor(reach: Reach) {
    this.#reach = reach;
  }

  see(event: HistoryEvent): void {
    if (event.type === "commit" && event.error === undefined) this.#commit(event);
  }

  #commit(commit: Commit): void {
    const { call, args, result, changes, clock } = commit;
    const from = call.from.name;
    if (call.op === "orphans") {
      if ((result as readonly Orphan[]).length > 0) this.#rescuing.add(from);
    } else if (call.op === "finish") {
      const outcomes = args[1] as readonly Outcome[];
      const again = outcomes.some(({ reason, state }) => reason === "orphaned" && state === "scheduled");
      if (again && changes.length > 0) this.#reach("job rescued twice");
      if (outcomes.some(({ reason }) => reason === "orphaned")) this.#rescuing.delete(from);
    } else if (call.op === "lead") {
      this.#lead(args[0] as LeadQuery, result as LeadReply, from, clock);
    } else if (call.op === "resign") {
      if ((args[0] as LeadQuery).holder === this.#holder) this.#expiresAt = Math.min(this.#expiresAt, clock);
    } else if (call.op === "fireRecurring") {
      const at = (args[0] as FireRecurring).lastRunAt?.getTime() ?? 0;
      if (at > this.#gapFrom && at < this.#gapTo) this.#reach("occurrence while nobody leads");
    }
  }

  #lead({ holder, ttl }: LeadQuery, { held }: LeadReply, from: string, clock: number): void {
    if (!held) return;
    if (holder !== this.#holder) {
      if ([...this.#rescuing].some((other) => other !== from)) this.#reach("leader change while rescuing");
      this.#rescuing.clear();
      this.#gapFrom = this.#expiresAt;
      this.#gapTo = clock;
      this.#holder = holder;
    }
    this.#expiresAt = clock + ttl;
  }
}
