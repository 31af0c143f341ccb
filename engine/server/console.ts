/**
 * What one attempt logs and how far it says it is, on its way to the store:
 *
 *     idle ──log, progress──→ waiting ──250 ms──→ writing ──→ idle, or waiting when there is more
 *     close: whatever is left is written, then nothing more
 *
 * One call of the store at a time. Lines that it does not take are dropped: they are not safe to send again, and a job
 * must not suffer from its log.
 */
import { withDeadline } from "../async.ts";
import { ClaimLostError } from "../errors.ts";
import { consoleLine, percentOf, TRUNCATED } from "../rules/console.ts";
import { CONSOLE } from "../rules/limits.ts";
import type { CancelTimer, Runtime } from "../runtime.ts";
import type { JobRef, Store } from "../store.ts";
import type { Faults } from "./faults.ts";

/** How long the first change waits for others, milliseconds. */
const DELAY = 250;
/** What one write gets, and all that is left to be done by `close`; milliseconds. */
export const CONSOLE_DEADLINE = 2_000;

export interface JobConsoleDeps {
  readonly runtime: Runtime;
  readonly store: Store;
  readonly faults: Faults;
}

export class JobConsole {
  readonly #deps: JobConsoleDeps;
  readonly #ref: JobRef;
  #lines: string[] = [];
  /** Lines so far, with those that were written and the one that says that more are missing. */
  #count = 0;
  #progress: number | null = null;
  /** The progress that the store has from this attempt; null = none, or not known. */
  #stored: number | null = null;
  /** Something has changed since the last write began. */
  #changed = false;
  #cancelTimer: CancelTimer | null = null;
  #writing: Promise<void> | null = null;
  #closed = false;

  constructor(deps: JobConsoleDeps, { id, claim }: JobRef) {
    this.#deps = deps;
    this.#ref = { id, claim };
  }

  /** Never throws, whatever the message is. */
  log(message: unknown): void {
    if (this.#closed || this.#count > CONSOLE.maxLines) return;
    this.#lines.push(this.#count < CONSOLE.maxLines ? consoleLine(message) : TRUNCATED);
    this.#count += 1;
    this.#change();
  }

  /** Ignores what is no number. */
  progress(value: unknown): void {
    const percent = percentOf(value);
    if (this.#closed || percent === null) return;
    this.#progress = percent;
    if (percent !== this.#stored) this.#change();
  }

  /** Takes nothing more, and resolves once what it has is written or given up, within `CONSOLE_DEADLINE`. */
  async close(): Promise<void> {
    const { runtime } = this.#deps;
    const started = runtime.monotonic();
    this.#closed = true;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    await this.#writing;
    await this.#write(Math.max(CONSOLE_DEADLINE - (runtime.monotonic() - started), 0));
  }

  #change(): void {
    this.#changed = true;
    if (this.#cancelTimer === null && this.#writing === null) this.#wait();
  }

  #wait(): void {
    this.#cancelTimer = this.#deps.runtime.timer(DELAY, () => {
      this.#cancelTimer = null;
      this.#writing = this.#write(CONSOLE_DEADLINE).then(() => {
        this.#writing = null;
        if (this.#changed && !this.#closed) this.#wait();
      });
    });
  }

  /** Never rejects. */
  async #write(ms: number): Promise<void> {
    const lines = this.#lines;
    const progress = this.#progress === this.#stored ? null : this.#progress;
    this.#lines = [];
    this.#changed = false;
    if (lines.length === 0 && progress === null) return;
    const { runtime, store, faults } = this.#deps;
    try {
      await withDeadline(runtime, "writeConsole", ms, () => store.writeConsole(this.#ref, { lines, progress }));
      if (progress !== null) this.#stored = progress;
    } catch (error) {
      // Stored or not, the next write says it again; unlike lines, it can be said twice.
      if (progress !== null) this.#stored = null;
      if (error instanceof ClaimLostError) this.#lose();
      else faults.report("writeConsole", error);
    }
  }

  /** Whatever the store is told from now on, it would refuse. */
  #lose(): void {
    this.#closed = true;
    this.#lines = [];
    this.#progress = this.#stored;
  }
}
