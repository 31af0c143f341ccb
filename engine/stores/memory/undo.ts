/** What takes a transaction back: one step for each change, in reverse. Costs as much as the changes did. */
import type { Data } from "./data.ts";

export class Undo {
  #steps: (() => void)[] = [];

  /** `step` takes back a change that has just been made; called when everything after it has been taken back. */
  add(step: () => void): void {
    this.#steps.push(step);
  }

  /** Calls `work`; if it throws, what it has changed is taken back. */
  attempt<T>(data: Data, work: () => T): T {
    const before = this.#steps.length;
    try {
      return work();
    } catch (error) {
      this.#takeBack(data, before);
      throw error;
    }
  }

  /** Takes everything back. */
  all(data: Data): void {
    this.#takeBack(data, 0);
  }

  #takeBack(data: Data, length: number): void {
    // What the steps change themselves is not to be taken back again.
    data.undo = null;
    for (const step of this.#steps.splice(length).reverse()) step();
    data.undo = this;
  }
}
