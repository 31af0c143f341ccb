/** The few ways in which the engine waits. All end by time or by signal and leave nothing behind. */
import { DeadlineError } from "./errors.ts";
import type { Runtime } from "./runtime.ts";

/** Waits `ms` milliseconds, or until the signal aborts. Never rejects. */
export function sleep(runtime: Runtime, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = (): void => {
      cancel();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const cancel = runtime.timer(ms, end);
    signal.addEventListener("abort", end);
  });
}

export interface DeadlineOptions<T> {
  /** Gets what the call returns after it was given up. */
  readonly late?: (value: T) => void;
  /** Gives the call up before its time. */
  readonly signal?: AbortSignal;
}

/**
 * The result of `call`, or a `DeadlineError` after `ms` milliseconds; `name` says in the error what did not answer. The
 * call itself goes on.
 */
export function withDeadline<T>(
  runtime: Runtime,
  name: string,
  ms: number,
  call: () => Promise<T>,
  { late, signal }: DeadlineOptions<T> = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    let open = true;
    const settle = (fn: () => void): boolean => {
      const first = open;
      open = false;
      cancel();
      signal?.removeEventListener("abort", giveUp);
      if (first) fn();
      return first;
    };
    const started = runtime.monotonic();
    const giveUp = (): void => {
      const waited = Math.round(runtime.monotonic() - started);
      settle(() => reject(new DeadlineError(`${name} did not answer within ${waited} ms`)));
    };
    const cancel = runtime.timer(ms, giveUp);
    signal?.addEventListener("abort", giveUp);
    // A call that throws before it returns a promise must not leave the timer behind.
    const answer = async (): Promise<T> => call();
    answer().then(
      (value) => settle(() => resolve(value)) || late?.(value),
      (error: unknown) => settle(() => reject(error)),
    );
  });
}

/** True when `promise` settles within `ms` milliseconds. */
export function settlesWithin(runtime: Runtime, ms: number, promise: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = runtime.timer(ms, () => resolve(false));
    const settled = (): void => {
      cancel();
      resolve(true);
    };
    promise.then(settled, settled);
  });
}

/** Calls a user's function that nobody waits for: `onError` gets what it throws, or what its promise is rejected with. */
export function callUser(fn: () => unknown, onError: (error: unknown) => void): void {
  const call = async (): Promise<unknown> => fn();
  call().catch(onError);
}

/** A sleeper that can be woken. A wake-up that comes while it is awake is kept for its next wait. */
export class Wakeup {
  readonly #runtime: Runtime;
  #pending = false;
  #waiter: (() => void) | null = null;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  wake(): void {
    if (this.#waiter) this.#waiter();
    else this.#pending = true;
  }

  /** Waits until woken, or for `ms` milliseconds (null = without end). One waiter at a time. */
  wait(ms: number | null): Promise<void> {
    if (this.#pending) {
      this.#pending = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const end = (): void => {
        cancel?.();
        this.#waiter = null;
        resolve();
      };
      const cancel = ms === null ? null : this.#runtime.timer(ms, end);
      this.#waiter = end;
    });
  }
}

/** Loops and calls that nobody awaits: this owns their errors and their end. */
export class Background {
  readonly #running = new Set<Promise<void>>();
  readonly #onError: (name: string, error: unknown) => void;

  constructor(onError: (name: string, error: unknown) => void) {
    this.#onError = onError;
  }

  start(name: string, fn: () => Promise<void>): void {
    // Also what `fn` throws before it returns a promise is a failure of the work, not of whoever started it.
    const call = async (): Promise<void> => fn();
    const run = call().catch((error: unknown) => this.#onError(name, error));
    this.#running.add(run);
    void run.finally(() => this.#running.delete(run));
  }

  /** Resolves when nothing started here is running any more. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
