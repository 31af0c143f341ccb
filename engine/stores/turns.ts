/** The order in which the calls of one store get their turn, and the transaction of the application's that they wait for. */
import { settlesWithin } from "../async.ts";
import type { Runtime } from "../runtime.ts";

/** How long a call waits for others before it throws `store_busy`, milliseconds. */
export const BUSY_LIMIT = 10_000;

const NOTHING = (): void => {};

export class Turns {
  /** Ends when the attempt that came last has ended; null when none is under way. */
  #last: Promise<void> | null = null;
  /** Ends with the open transaction; null when none is open. */
  #transaction: Promise<void> | null = null;

  /** True while an attempt is under way or waits. */
  get isTaken(): boolean {
    return this.#last !== null;
  }

  get hasTransaction(): boolean {
    return this.#transaction !== null;
  }

  /** Makes the attempt once those that came before have ended theirs; at once when there are none. */
  async inTurn<T>(attempt: () => Promise<T>): Promise<T> {
    const attempted = this.#last ? this.#last.then(attempt) : attempt();
    const ended = attempted.then(NOTHING, NOTHING);
    this.#last = ended;
    try {
      return await attempted;
    } finally {
      if (this.#last === ended) this.#last = null;
    }
  }

  /** A transaction is open from now on, until what is returned is called. */
  open(): () => void {
    let end = NOTHING;
    this.#transaction = new Promise((resolve) => {
      end = () => {
        this.#transaction = null;
        resolve();
      };
    });
    return end;
  }

  /** Waits for the end of the open transaction. False when that has taken `ms` milliseconds. */
  async transactionEnds(runtime: Runtime, ms: number): Promise<boolean> {
    return this.#transaction === null || (ms > 0 && (await settlesWithin(runtime, ms, this.#transaction)));
  }
}
