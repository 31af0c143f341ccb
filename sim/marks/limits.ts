import type { JobId, Limit, NewJob } from "../../engine/store.ts";
import type { Commit, HistoryEvent } from "../run/history.ts";
import type { Reach, Watcher } from "./watch.ts";

/** Marks of jobs that wait for their limits. */
export class LimitMarks implements Watcher {
  readonly #reach: Reach;
  /** The rule of each key as it was seen last. */
  readonly #rules = new Map<string, Limit>();
  /** Jobs by key. */
  readonly #waiting = new Map<string, Set<JobId>>();
  readonly #running = new Map<string, Set<JobId>>();
  readonly #denied = new Set<JobId>();

  constructor(reach: Reach) {
    this.#reach = reach;
  }

  see(event: HistoryEvent): void {
    if (event.type === "commit" && event.error === undefined) this.#commit(event);
    const back = event.type === "fault" && event.fault.type === "databaseClock" && event.fault.by < 0;
    if (back && this.#rateHolds()) this.#reach("clock steps back while a key is closed");
  }

  #commit(commit: Commit): void {
    const { call, args, changes } = commit;
    if (call.op === "insert") for (const { limit } of args[0] as readonly NewJob[]) this.#learn(limit);
    const taken = new Map<string, number>();
    for (const { id, after, before } of changes) {
      const key = (after ?? before)?.limitKey ?? null;
      if (key === null) continue;
      set(this.#waiting, key, id, after?.state === "throttled");
      set(this.#running, key, id, after?.state === "processing");
      if (call.op !== "claim" || after?.state !== "processing") continue;
      taken.set(key, (taken.get(key) ?? 0) + 1);
      if (this.#denied.has(id)) this.#reach("admission denied, then granted");
    }
    if (call.op === "claim") for (const ids of this.#waiting.values()) for (const id of ids) this.#denied.add(id);
    for (const [key, { max, rate, burst }] of this.#rules) {
      if (rate > 0 && burst > 1 && (taken.get(key) ?? 0) >= burst) this.#reach("burst used up");
      const full = max > 0 && (this.#running.get(key)?.size ?? 0) >= max;
      if (full && (this.#waiting.get(key)?.size ?? 0) > 0) this.#reach("full key with a waiter");
    }
  }

  #learn(limit: Limit | null): void {
    if (limit !== null) this.#rules.set(limit.key, limit);
  }

  #rateHolds(): boolean {
    return [...this.#rules].some(([key, { rate }]) => rate > 0 && (this.#waiting.get(key)?.size ?? 0) > 0);
  }
}

function set(sets: Map<string, Set<JobId>>, key: string, id: JobId, there: boolean): void {
  const ids = sets.get(key) ?? new Set();
  sets.set(key, ids);
  if (there) ids.add(id);
  else ids.delete(id);
}
