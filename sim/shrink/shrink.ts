/**
 * Makes a failing scenario as small as it gets while it fails in the same way: what happened after the failure goes first,
 * then whole parts, then what makes the rest special, then length and number of everything.
 */

import type { Failure } from "../run/run.ts";
import { checkScenario } from "../scenario/check-scenario.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { keep, PARTS, type Part } from "./reduce.ts";
import { numbersIn, simplerNumbers, smallerNumbers, withNumber } from "./shrink-number.ts";
import { plainer } from "./shrink-plain.ts";

export interface ShrinkOptions {
  /** Null = it does not fail. */
  readonly run: (scenario: Scenario) => Promise<Failure | null>;
  /** Most runs that may be spent. */
  readonly runs: number;
  /** Whether the time for it is over. */
  readonly expired: () => boolean;
}

export interface Shrunk {
  readonly scenario: Scenario;
  readonly failure: Failure;
  /** How many were spent. */
  readonly runs: number;
}

/** `failure` is what the scenario fails with. */
export async function shrink(scenario: Scenario, failure: Failure, options: ShrinkOptions): Promise<Shrunk> {
  return new Shrinker(scenario, failure, options).shrink();
}

const SECOND = 1_000;

class Shrinker {
  readonly #options: ShrinkOptions;
  readonly #tried = new Set<string>();
  #best: Scenario;
  #failure: Failure;
  #runs = 0;

  constructor(scenario: Scenario, failure: Failure, options: ShrinkOptions) {
    this.#best = scenario;
    this.#failure = failure;
    this.#options = options;
  }

  async shrink(): Promise<Shrunk> {
    let before: Scenario;
    do {
      before = this.#best;
      await this.#truncate();
      for (const part of PARTS) await this.#minimize(part);
      await this.#simplify();
      await this.#shorten();
    } while (this.#best !== before && !this.#over);
    return { scenario: this.#best, failure: this.#failure, runs: this.#runs };
  }

  get #over(): boolean {
    return this.#runs >= this.#options.runs || this.#options.expired();
  }

  /** Whether the candidate fails in the same way; then it is the best from now on. */
  async #try(candidate: Scenario): Promise<boolean> {
    if (this.#over) return false;
    const text = JSON.stringify(candidate);
    if (this.#tried.has(text) || text === JSON.stringify(this.#best)) return false;
    this.#tried.add(text);
    if (!isValid(candidate)) return false;
    this.#runs += 1;
    const failure = await this.#options.run(candidate);
    if (failure?.signature !== this.#failure.signature) return false;
    this.#best = candidate;
    this.#failure = failure;
    return true;
  }

  /** Leaves out what comes after the failure. */
  async #truncate(): Promise<void> {
    const { at } = this.#failure;
    const end = Math.ceil((at + 1) / SECOND) * SECOND;
    const past = (of: { readonly at: number }): boolean => of.at <= at;
    for (const part of ["faults", "actions", "jobs"] as const) {
      const indexes = this.#best[part].flatMap((of, index) => (past(of) ? [index] : []));
      await this.#keep(part, indexes);
    }
    if (end < this.#best.duration) await this.#try({ ...this.#best, duration: end });
  }

  async #keep(part: Part, indexes: readonly number[]): Promise<boolean> {
    if (indexes.length === this.#best[part].length) return false;
    const candidate = keep(this.#best, part, indexes);
    return candidate !== null && (await this.#try(candidate));
  }

  /** Delta debugging: leaves out halves, then quarters, down to single entries. */
  async #minimize(part: Part): Promise<void> {
    if (await this.#keep(part, [])) return;
    let size = Math.ceil(this.#best[part].length / 2);
    while (size >= 1 && !this.#over) {
      let removed = false;
      // From the end: later entries refer to earlier ones.
      for (let end = this.#best[part].length; end > 0; end -= size) {
        const indexes = [...this.#best[part].keys()].filter((index) => index < end - size || index >= end);
        removed = (await this.#keep(part, indexes)) || removed;
      }
      if (!removed && size === 1) return;
      size = removed ? Math.min(size, Math.ceil(this.#best[part].length / 2)) : Math.floor(size / 2);
    }
  }

  async #simplify(): Promise<void> {
    // What was replaced may be replaced further, so the candidates are made anew each time.
    for (let place = 0; ; place++) {
      const candidate = [...plainer(this.#best)][place];
      if (candidate === undefined || this.#over) return;
      await this.#try(candidate);
    }
  }

  async #shorten(): Promise<void> {
    for (const path of numbersIn(this.#best)) {
      const smaller = smallerNumbers(this.#best, path);
      // As if it failed with all that are larger, too; where that is wrong, a number stays larger than it had to be.
      let low = 0;
      let high = smaller.length;
      while (low < high && !this.#over) {
        const middle = (low + high) >> 1;
        if (await this.#try(withNumber(this.#best, path, smaller[middle] as number))) high = middle;
        else low = middle + 1;
      }
      for (const simpler of simplerNumbers(this.#best, path)) {
        if (await this.#try(withNumber(this.#best, path, simpler))) break;
      }
    }
  }
}

function isValid(scenario: Scenario): boolean {
  try {
    checkScenario(scenario);
    return true;
  } catch {
    return false;
  }
}
