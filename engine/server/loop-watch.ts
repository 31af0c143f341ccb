/**
 * Notices when a handler blocks the event loop: nothing else runs meanwhile, no heartbeat either, and a server that is
 * blocked for long enough is taken for dead while it works.
 */
import { sleep } from "../async.ts";
import type { Runtime } from "../runtime.ts";
import type { Attempts } from "./attempts.ts";
import type { Faults } from "./faults.ts";

/** Looks in one heartbeat interval: a block that is half as long again as the interval is seen wherever it begins. */
const LOOKS = 2;

export class LoopWatch {
  readonly #runtime: Runtime;
  readonly #faults: Faults;
  readonly #attempts: Attempts;
  readonly #interval: number;
  #blocks = 0;

  /** `interval` is the heartbeat's, milliseconds. */
  constructor(runtime: Runtime, faults: Faults, attempts: Attempts, interval: number) {
    this.#runtime = runtime;
    this.#faults = faults;
    this.#attempts = attempts;
    this.#interval = interval;
  }

  /** How often the loop was blocked for longer than an interval. */
  get blocks(): number {
    return this.#blocks;
  }

  async run(signal: AbortSignal): Promise<void> {
    const pause = this.#interval / LOOKS;
    while (!signal.aborted) {
      const due = this.#runtime.monotonic() + pause;
      await sleep(this.#runtime, pause, signal);
      // What ran since the last look: the handler that blocked has often returned by the time that this is seen.
      const kinds = this.#attempts.takeKinds();
      const late = this.#runtime.monotonic() - due;
      if (late > this.#interval) this.#blocked(late, kinds);
    }
  }

  #blocked(ms: number, kinds: readonly string[]): void {
    this.#blocks += 1;
    const what = "the event loop was blocked for longer than a heartbeat";
    this.#faults.log("error", what, { ms: Math.round(ms), kinds });
  }
}
