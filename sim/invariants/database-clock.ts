/** Steps of the database's clock, as its commits show them. */
import type { Commit } from "../run/history.ts";
import { START } from "../world/process.ts";
import type { Micros } from "../world/world.ts";

/** Microseconds of the database's clock since the world began, if it had made only its steps forward. */
export type Forward = number;

export class DatabaseClock {
  /** Milliseconds that it is ahead. */
  #ahead = 0;
  /** Milliseconds of all steps so far, in either direction. */
  #forward = 0;
  #backward = 0;
  readonly #steps: { readonly at: Micros; readonly by: number }[] = [];
  /** When it was last seen to have stepped back. */
  steppedBackAt: Micros | null = null;

  /** To be called for each commit before anything else looks at it. */
  see({ at, clock }: Commit): void {
    const ahead = clock - Math.floor(START + at / 1e3);
    const by = ahead - this.#ahead;
    if (by === 0) return;
    this.#ahead = ahead;
    if (by > 0) this.#forward += by;
    else this.#backward -= by;
    if (by < 0) this.steppedBackAt = at;
    if (by > 0) this.#steps.push({ at, by });
  }

  /**
   * What the clock would read if it had never stepped back, whole milliseconds as microseconds. A step back makes a key wait
   * and never admits more, so that every bound holds by this clock exactly.
   */
  reading({ clock }: Commit): Forward {
    return (clock + this.#backward - START) * 1_000;
  }

  /** Microseconds of all steps forward so far. */
  get forward(): number {
    return this.#forward * 1_000;
  }

  /** Microseconds of the steps forward that were seen at `from` or later. */
  forwardSince(from: Micros): number {
    let sum = 0;
    for (let place = this.#steps.length - 1; place >= 0; place--) {
      const step = this.#steps[place];
      if (step === undefined || step.at < from) break;
      sum += step.by * 1_000;
    }
    return sum;
  }
}
