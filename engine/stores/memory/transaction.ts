/** Transactions of the application's. They see what they have written; all other calls wait until they have ended. */
import { ConflictError, StoreError } from "../../errors.ts";
import { invalid } from "../../problems.ts";
import type { BatchId, InsertedJob, InsertOptions, JobRef, JsonText, NewBatch, NewJob, Writer } from "../../store.ts";
import { BUSY_LIMIT, Turns } from "../turns.ts";
import { openBatch, sealBatch } from "./batches.ts";
import type { Data } from "./data.ts";
import { setParams } from "./finish.ts";
import { insert } from "./insert.ts";
import { Undo } from "./undo.ts";

export const closed = (): StoreError => new StoreError("store_closed", "the store is closed");

/** Its calls check everything before they change anything, so that one that throws leaves nothing. */
class OpenTransaction implements Writer {
  /** Null while it is open. */
  ended: ConflictError | StoreError | null = null;
  readonly #data: Data;

  constructor(data: Data) {
    this.#data = data;
  }

  async insert(jobs: readonly NewJob[], options?: InsertOptions): Promise<InsertedJob[]> {
    return insert(this.#opened, jobs, options);
  }

  async openBatch(batch: NewBatch): Promise<BatchId> {
    return openBatch(this.#opened, batch);
  }

  async sealBatch(id: BatchId): Promise<void> {
    sealBatch(this.#opened, id);
  }

  async setParams(ref: JobRef, params: Readonly<Record<string, JsonText>>): Promise<void> {
    setParams(this.#opened, ref, params);
  }

  get #opened(): Data {
    if (this.ended !== null) throw this.ended;
    return this.#data;
  }
}

export class Transactions {
  readonly #data: Data;
  readonly #turns = new Turns();
  #open: OpenTransaction | null = null;
  /** Gives up waiting for the application. */
  #abandon: (error: StoreError) => void = () => {};
  #isClosed = false;

  constructor(data: Data) {
    this.#data = data;
  }

  /** False while other calls have to wait. */
  get isFree(): boolean {
    return !this.#turns.hasTransaction && !this.#turns.isTaken;
  }

  /** For when it is not free. @throws StoreError `store_busy` */
  async after<T>(work: () => T): Promise<T> {
    const started = this.#data.runtime.monotonic();
    return this.#turns.inTurn(async () => {
      await this.#transactionEnds(started);
      return work();
    });
  }

  async run<T>(work: (writer: Writer) => T | Promise<T>): Promise<T> {
    if (typeof work !== "function") throw invalid("can't run a transaction", "work", work, "must be a function");
    const { end, undo, transaction } = await this.#begin();
    try {
      const result = await this.#resultOf(work, transaction);
      transaction.ended ??= new ConflictError("the transaction has ended");
      this.#data.wake.release(this.#data.runtime.now());
      return result;
    } catch (error) {
      transaction.ended ??= new ConflictError("the transaction has ended");
      undo.takeBack(this.#data);
      this.#data.wake.release(null);
      throw error;
    } finally {
      this.#data.undo = null;
      this.#open = null;
      end();
    }
  }

  /** Ends an open transaction. Twice is fine. */
  close(): void {
    this.#isClosed = true;
    if (this.#open) this.#open.ended = closed();
    this.#abandon(closed());
  }

  #begin(): Promise<{ readonly end: () => void; readonly undo: Undo; readonly transaction: OpenTransaction }> {
    const started = this.#data.runtime.monotonic();
    return this.#turns.inTurn(async () => {
      if (this.#turns.hasTransaction) await this.#transactionEnds(started);
      if (this.#isClosed) throw closed();
      const undo = new Undo();
      const transaction = new OpenTransaction(this.#data);
      this.#data.undo = undo;
      this.#data.wake.hold();
      this.#open = transaction;
      return { end: this.#turns.open(), undo, transaction };
    });
  }

  async #transactionEnds(started: number): Promise<void> {
    const { runtime } = this.#data;
    const left = BUSY_LIMIT - (runtime.monotonic() - started);
    if (await this.#turns.transactionEnds(runtime, left)) return;
    throw new StoreError("store_busy", "a transaction of the store has been open for too long");
  }

  #resultOf<T>(work: (writer: Writer) => T | Promise<T>, transaction: Writer): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#abandon = reject;
      const call = async (): Promise<T> => work(transaction);
      call().then(resolve, reject);
    });
  }
}
