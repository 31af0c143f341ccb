/**
 * S12: at most one live job holds a unique key, an insert adds nothing exactly while somebody holds its key, and it says who.
 * A key without a window is held until its job ends, one with a window for that time by the database's clock.
 */
import type { JobId, NewJob } from "../../engine/store.ts";
import type { Change, Snapshot } from "../cluster/audit.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import { ENDS, type Insertion, insertCalls, type Reading } from "./commits.ts";

interface Held {
  readonly by: JobId;
  /** Null = until its job ends. */
  readonly until: Reading | null;
}

/** States in which a holder takes over what a duplicate that replaces it brings. */
const REPLACEABLE: ReadonlySet<string> = new Set(["awaiting", "scheduled", "enqueued", "throttled"]);

export class UniqueKeys implements Checker {
  readonly name = "unique keys";
  readonly #held = new Map<string, Held>();
  readonly #rows = new Map<JobId, Snapshot>();
  /** Live jobs by the key that they hold until they end. */
  readonly #live = new Map<string, Set<JobId>>();
  /** Latest reading of the clock so far. */
  #latest: Reading = 0;

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    const changes = new Map(event.changes.map((change) => [change.id, change]));
    for (const call of insertCalls(event)) this.#insert(call, event, changes);
    this.#latest = Math.max(this.#latest, event.clock);
    for (const change of event.changes) this.#change(event, change);
    for (const { after } of event.changes) this.#checkLive(after);
  }

  #insert(call: readonly Insertion[], commit: Commit, changes: ReadonlyMap<JobId, Change>): void {
    const inCall = new Set<string>();
    for (const insertion of call) {
      const { job, inserted } = insertion;
      if (job.unique === null) {
        if (inserted.duplicate) throw violation("a job without a unique key is said to be a duplicate", inserted.id);
        continue;
      }
      const { key, window } = job.unique;
      if (inserted.duplicate) this.#checkHolder(insertion, commit, inCall.has(key), changes.get(inserted.id));
      else {
        this.#checkFree(key, inserted.id, commit);
        const until = window === null ? null : commit.clock + Math.ceil(window);
        // One that was born deleted, because of its parents, never takes the key.
        if (changes.get(inserted.id)?.after?.state !== "deleted") this.#held.set(key, { by: inserted.id, until });
      }
      inCall.add(key);
    }
  }

  #checkFree(key: string, id: JobId, { clock }: Commit): void {
    const held = this.#held.get(key);
    // Once a window was over its key may have been forgotten, and a clock that stepped back does not bring it back.
    if (held === undefined || (held.until !== null && held.until <= Math.max(this.#latest, clock))) return;
    throw violation(`it was added although job ${held.by} holds its unique key`, id);
  }

  #checkHolder({ job, inserted }: Insertion, { clock }: Commit, repeated: boolean, change: Change | undefined): void {
    const { id, replaced } = inserted;
    const held = this.#held.get(job.unique?.key ?? "");
    if (held?.by !== id) throw violation("a duplicate names a job that does not hold its unique key", id);
    if (held.until !== null && held.until <= clock) throw violation("it holds a unique key longer than its window", id);
    const before = change?.before ?? this.#rows.get(id);
    const replaces = !repeated && job.unique?.onConflict === "replace" && REPLACEABLE.has(before?.state ?? "");
    if (replaced !== replaces) throw violation(`a duplicate is said to ${replaced ? "" : "not "}replace it`, id);
    if (change !== undefined && change.before !== null)
      checkReplacement(job, id, replaced, change.before, change.after);
  }

  #change({ call }: Commit, { id, before, after }: Change): void {
    if (after === null) this.#rows.delete(id);
    else this.#rows.set(id, after);
    const key = (after ?? before)?.uniqueKey ?? null;
    if (key === null) return;
    const isLive = after !== null && !ENDS.has(after.state);
    const wasLive = before !== null && !ENDS.has(before.state);
    if (isLive && !wasLive && call.op === "requeue") this.#retake(key, id);
    const held = this.#held.get(key);
    if (!isLive && held?.by === id && held.until === null) this.#held.delete(key);
    const live = this.#live.get(key) ?? new Set();
    this.#live.set(key, live);
    if (isLive) live.add(id);
    else live.delete(id);
  }

  #retake(key: string, id: JobId): void {
    const held = this.#held.get(key);
    const isHeld = held !== undefined && held.by !== id && (held.until === null || held.until > this.#latest);
    if (isHeld) throw violation(`it was requeued although job ${held.by} holds its unique key`, id);
    this.#held.set(key, { by: id, until: null });
  }

  #checkLive(row: Snapshot | null): void {
    const live = row?.uniqueKey == null ? undefined : this.#live.get(row.uniqueKey);
    if (live === undefined || live.size <= 1) return;
    throw violation(`${live.size} live jobs hold one unique key: ${[...live].join(", ")}`, [...live].at(-1) ?? null);
  }
}

/** What stands after a duplicate came: its payload if it replaces the holder, else nothing has changed. */
function checkReplacement(job: NewJob, id: JobId, replaced: boolean, before: Snapshot, after: Snapshot | null): void {
  const { args, priority } = replaced ? job : before;
  if (after !== null && after.args === args && after.priority === priority) return;
  throw violation(`it does not have the args and priority of ${replaced ? "what replaced it" : "its own insert"}`, id);
}

const violation = (what: string, job: JobId | null): Violation => new Violation("S12", what, job);
