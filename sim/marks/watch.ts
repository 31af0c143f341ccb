/** Watches a run for the marks that it reaches. */
import type { ClaimReply, FinishResult, InsertedJob, JobFilter, JobId } from "../../engine/store.ts";
import type { Checker, Commit, FaultEvent, HistoryEvent } from "../run/history.ts";
import { LimitMarks } from "./limits.ts";
import { LOST_REPLIES, type Mark } from "./list.ts";
import { RescueMarks } from "./rescues.ts";
import { StateMarks } from "./states.ts";

export type Reach = (mark: Mark) => void;

/** One kind of them. */
export interface Watcher {
  see(event: HistoryEvent): void;
}

export class MarkWatch implements Checker {
  readonly name = "marks";
  readonly #watchers: readonly Watcher[];

  constructor(reach: Reach) {
    this.#watchers = [new CallMarks(reach), new LimitMarks(reach), new RescueMarks(reach), new StateMarks(reach)];
  }

  see(event: HistoryEvent): void {
    for (const watcher of this.#watchers) watcher.see(event);
  }
}

/** Marks that one event shows, or a call and its answer. */
class CallMarks implements Watcher {
  readonly #reach: Reach;
  #stoppedAt: number | null = null;
  /** Servers whose last try to store results has failed. */
  readonly #failed = new Set<string>();
  readonly #lost: ReadonlySet<string> = new Set(LOST_REPLIES);
  readonly #pruned = new Set<JobId>();

  constructor(reach: Reach) {
    this.#reach = reach;
  }

  see(event: HistoryEvent): void {
    if (event.type === "commit" && event.error === undefined) this.#commit(event);
    if (event.type === "fault") this.#fault(event);
    if (event.type === "abort" && event.reason === "ShutdownError") this.#reach("shutdown timeout");
    if (event.type === "reply") this.#reply(event);
  }

  #commit({ call: { op }, args, result, changes }: Commit): void {
    if (op === "finish" && (result as FinishResult[]).some(({ status }) => status === "stale")) {
      this.#reach("late result rejected");
    }
    if (op === "claim" && !(result as ClaimReply).known) this.#reach("claim of a dead server");
    if (op === "insert" && (result as InsertedJob[]).some(({ duplicate }) => duplicate)) this.#reach("unique conflict");
    if (op === "prune") for (const { id, after } of changes) if (after === null) this.#pruned.add(id);
    const [filter] = args as readonly [JobFilter | undefined];
    if (op === "requeue" && filter?.ids?.some((id) => this.#pruned.has(id))) this.#reach("requeue after prune");
  }

  #fault({ fault, at }: FaultEvent): void {
    if (fault.type === "loseReply" && this.#lost.has(fault.op)) this.#reach(`reply lost: ${fault.op}` as Mark);
    if (fault.type === "databaseDown") this.#stoppedAt = at;
  }

  #reply({ call: { op, sentAt }, incarnation, ok }: Extract<HistoryEvent, { type: "reply" }>): void {
    if (!ok && this.#stoppedAt !== null && sentAt < this.#stoppedAt) this.#reach("database stops with calls under way");
    if (op !== "finish") return;
    if (!ok) this.#failed.add(incarnation);
    else if (this.#failed.delete(incarnation)) this.#reach("result stored by a second try");
  }
}
