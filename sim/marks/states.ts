import type { InsertedJob, JobId, JobState, NewJob } from "../../engine/store.ts";
import type { Commit, HistoryEvent } from "../run/history.ts";
import type { Reach, Watcher } from "./watch.ts";

const WAITING: ReadonlySet<JobState> = new Set(["scheduled", "enqueued", "throttled"]);
const ENDED: ReadonlySet<JobState> = new Set(["succeeded", "failed", "deleted"]);

/** Marks of jobs' states, all together. */
export class StateMarks implements Watcher {
  readonly #reach: Reach;
  readonly #waiting = new Set<JobId>();
  readonly #open = new Set<JobId>();
  readonly #up = new Set<string>();
  readonly #parents = new Map<JobId, readonly JobId[]>();

  constructor(reach: Reach) {
    this.#reach = reach;
  }

  see(event: HistoryEvent): void {
    if (event.type === "commit") this.#commit(event);
    if (event.type === "told" && event.event.type === "ready" && this.#waiting.size === 0) {
      this.#reach("event when all has ended");
    }
    if (event.type === "up" && !event.incarnation.startsWith("client")) this.#up.add(event.incarnation);
    if (event.type !== "down" || event.how === "stopping" || !this.#up.delete(event.incarnation)) return;
    if (this.#up.size === 0 && this.#open.size > 0) this.#reach("all servers down");
  }

  #commit({ call, args, result, error, changes }: Commit): void {
    if (call.op === "insert" && error === undefined) {
      (result as readonly InsertedJob[]).forEach(({ id }, position) => {
        const { parents } = (args[0] as readonly NewJob[])[position] as NewJob;
        const ids = parents.flatMap((parent) => ("id" in parent ? [parent.id] : []));
        if (ids.length > 1) this.#parents.set(id, ids);
      });
    }
    const ended = new Set<JobId>();
    for (const { id, after } of changes) {
      const state = after?.state;
      put(this.#waiting, id, state !== undefined && WAITING.has(state));
      put(this.#open, id, state !== undefined && !ENDED.has(state));
      if (state !== undefined && ENDED.has(state)) ended.add(id);
    }
    if (ended.size < 2) return;
    for (const { id, before, after } of changes) {
      const released = before?.state === "awaiting" && after !== null && WAITING.has(after.state);
      const last = this.#parents.get(id)?.filter((parent) => ended.has(parent)).length ?? 0;
      if (released && last > 1) this.#reach("last parents in one commit");
    }
  }
}

function put(ids: Set<JobId>, id: JobId, there: boolean): void {
  if (there) ids.add(id);
  else ids.delete(id);
}
