/** What takes a transaction back: one step for each change, in reverse. Costs as much as the changes did. */
import type { Data } from "./data.ts";

/** Changes fields that no index depends on; `change` of `data.ts` is for those of jobs that one does. */
export function set<T extends object>(data: Data, target: T, to: Partial<T>): void {
  if (data.undo !== null) {
    const before = valuesOf(target, to);
    data.undo.add(() => Object.assign(target, before));
  }
  Object.assign(target, to);
}

/** What `from` has in the fields of `like`. */
export function valuesOf<T extends object>(from: T, like: Partial<T>): Partial<T> {
  return Object.fromEntries(Object.keys(like).map((field) => [field, from[field as keyof T]])) as Partial<T>;
}

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
