/** What takes a transaction back: one step for each change, in reverse. Costs as much as the changes did. */
import type { Data } from "./data.ts";

export class Undo {
  readonly #steps: (() => void)[] = [];

  /** `step` takes back a change that has just been made; called when everything after it has been taken back. */
  add(step: () => void): void {
    this.#steps.push(step);
  }

  takeBack(data: Data): void {
    // What the steps change themselves is not to be taken back again.
    data.undo = null;
    for (const step of this.#steps.reverse()) step();
  }
}
