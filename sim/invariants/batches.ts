/**
 * S14: nobody joins a batch that has finished, and whoever asks is told what is so: how many jobs are in which state, and that
 * it has finished exactly when all was done (L9). What waits for a batch is checked with all other dependencies.
 */
import type { BatchId, BatchPage, BatchRecord, NewBatch } from "../../engine/store.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import { BatchModel, type BatchState } from "./batch-model.ts";

export class Batches implements Checker {
  readonly name = "batches";
  readonly #model = new BatchModel();
  readonly #over = new Set<BatchId>();

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    const { finished, joined } = this.#model.see(event);
    for (const { batch } of joined) this.#checkOpen(batch, "a job");
    for (const { op, args } of event.parts) {
      if (op === "openBatch") this.#checkOpen((args[0] as NewBatch).parent, "a batch");
    }
    for (const { id } of finished) this.#over.add(id);
    this.#checkReads(event);
  }

  #checkOpen(batch: BatchId | null, what: string): void {
    if (batch === null || !this.#over.has(batch)) return;
    throw new Violation("S14", `${what} has joined batch ${batch}, which had finished before`);
  }

  #checkReads({ parts }: Commit): void {
    for (const { op, result } of parts) {
      if (op === "batch" && result !== null) this.#check(result as BatchRecord);
      if (op === "batches") for (const record of (result as BatchPage).batches) this.#check(record);
    }
  }

  #check(record: BatchRecord): void {
    const { id, finishedAt } = record;
    const batch = this.#model.batches.get(id);
    if (batch === undefined) throw new Violation("S14", `there is a batch ${id} that nobody has made`);
    if (batch.finished !== (finishedAt !== null)) {
      const [invariant, not] = batch.finished ? (["L9", "not "] as const) : (["S14", ""] as const);
      throw new Violation(invariant, `batch ${id} is said to have ${not}finished`);
    }
    const [said, is] = [shown(record), shown(recordOf(batch))];
    if (said !== is) throw new Violation("S14", `batch ${id} is ${is}, but said to be ${said}`);
  }
}

type Shown = Pick<BatchRecord, "total" | "sealed" | "counts" | "nested" | "nestedFinished">;

function recordOf({ members, nested, ...batch }: BatchState): Shown {
  const counts: Record<string, number> = {};
  for (const state of members.values()) counts[state] = (counts[state] ?? 0) + 1;
  const nestedFinished = nested.filter(({ finished }) => finished).length;
  return { ...batch, counts: counts as Shown["counts"], nested: nested.length, nestedFinished };
}

function shown({ total, sealed, counts, nested, nestedFinished }: Shown): string {
  const states = Object.entries(counts).filter(([, count]) => count > 0);
  return [
    `${total} jobs (${states.sort().map(([state, count]) => `${count} ${state}`)})`,
    ...[sealed ? "sealed" : "open", `${nestedFinished} of ${nested} nested`],
  ].join(", ");
}
