/**
 * The one place that reads a clock, sets a timer, draws a random number or asks the host anything. All else in the
 * engine gets a `Runtime`, so that a simulator can run the real engine with a clock, timers and randomness of its own.
 */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { VERSION } from "./version.ts";

/** Cancels a timer; calling it again, or after the timer has fired, does nothing. */
export type CancelTimer = () => void;

export interface Host {
  readonly hostname: string;
  readonly pid: number;
  /** The version of kiln, for example `0.1.0`. */
  readonly version: string;
}

export interface Runtime {
  /** Wall clock: whole milliseconds since 1970. May step in either direction. */
  now(): number;
  /** Milliseconds since some fixed moment, with fractions. Never steps. */
  monotonic(): number;
  /** Calls `fn` once after at least `ms` milliseconds. Any length is allowed; negative counts as 0. */
  timer(ms: number, fn: () => void): CancelTimer;
  /** Resolves once everything that is runnable now has run. */
  turn(): Promise<void>;
  /** Uniform in [0, 1). */
  random(): number;
  /** `bytes` random bytes as lowercase hexadecimal. */
  randomHex(bytes: number): string;
  readonly host: Host;
  /** Calls `fn` when the process is asked to stop; returns a function that stops listening. */
  onSignal(signals: readonly StopSignal[], fn: (signal: StopSignal) => void): () => void;

  /** A place where a simulator may make something unlikely happen. Always false in production. */
  buggify(site: string): boolean;
  /** Tells a simulator that something rare was reached. Does nothing in production. */
  mark(name: string): void;
  /** Tells a simulator about a broken promise of the engine's own. Does nothing in production. */
  invariant(ok: boolean, name: string): void;
}

export type StopSignal = "SIGTERM" | "SIGINT";

/** Node's `setTimeout` fires at once beyond this. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Node counts timers in whole milliseconds and may fire up to two early by the clock that `monotonic` reads. */
function timer(ms: number, fn: () => void): CancelTimer {
  const due = performance.now() + ms;
  let handle: NodeJS.Timeout;
  const fire = (): void => {
    const left = due - performance.now();
    if (left > 0) arm(left);
    else fn();
  };
  const arm = (left: number): void => {
    handle = setTimeout(fire, Math.min(Math.ceil(left), LONGEST_TIMER));
  };
  arm(Math.max(ms, 0));
  return () => clearTimeout(handle);
}

/** The real clock, timers, randomness and host. */
export const systemRuntime: Runtime = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  timer,
  turn: () => new Promise((resolve) => setImmediate(resolve)),
  random: () => Math.random(),
  randomHex: (bytes) => randomBytes(bytes).toString("hex"),
  host: { hostname: hostname() || "localhost", pid: process.pid, version: VERSION },
  onSignal(signals, fn) {
    const off = (): void => {
      for (const signal of signals) process.off(signal, fn);
    };
    for (const signal of signals) process.on(signal, fn);
    return off;
  },
  buggify: () => false,
  mark: () => {},
  invariant: () => {},
};
