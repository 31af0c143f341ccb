/**
 * Time that passes only when a test says so. Any number of runtimes share one clock, each for a simulated process of its
 * own, so several servers can be run in one test and every timing asserted to the millisecond.
 */
import { type CancelTimer, type Host, type Runtime, type StopSignal, systemRuntime } from "../runtime.ts";

interface Timer {
  readonly at: number;
  /** Timers of one instant fire in the order in which they were set. */
  readonly order: number;
  readonly fn: () => void;
}

/** 2026-01-01T00:00:00Z: a fixed start keeps runs alike. */
const START = Date.UTC(2026, 0, 1);
/** More timers or turns than this at one instant are a loop without end. */
const LIVELOCK = 100_000;

export interface VirtualTimeOptions {
  /** Where the clock begins, milliseconds since 1970. Default: the first of January 2026, so that runs are alike. */
  readonly start?: number;
}

export class VirtualTime {
  readonly #start: number;
  #now: number;
  #order = 0;
  #timers: Timer[] = [];
  #processes = 0;
  /** Turns under way. */
  #turns = 0;
  #holds = 0;
  /** Who waits until nothing holds the clock any more. */
  readonly #waiters: (() => void)[] = [];

  constructor({ start = START }: VirtualTimeOptions = {}) {
    this.#start = start;
    this.#now = start;
  }

  /** Milliseconds since 1970. */
  get now(): number {
    return this.#now;
  }

  /** Milliseconds that have passed. */
  get elapsed(): number {
    return this.#now - this.#start;
  }

  /** Timers that are armed: a stopped server has none. */
  get armed(): number {
    return this.#timers.length;
  }

  /** A runtime for one more simulated process. */
  runtime(options: VirtualRuntimeOptions = {}): VirtualRuntime {
    this.#processes += 1;
    return new VirtualRuntime(this, this.#processes, options);
  }

  /** Lets `ms` milliseconds pass, firing each timer at its own instant and letting all that follows from it run. */
  async advance(ms: number): Promise<void> {
    await this.#run(this.#now + ms, () => false);
  }

  /**
   * Lets time pass until `done()`, checked after each timer.
   * @throws Error when that takes longer than `limit` milliseconds of virtual time.
   */
  async until(done: () => boolean, limit: number): Promise<void> {
    if (!(await this.reaches(done, limit))) throw new Error(`not reached within ${limit} ms: ${done}`);
  }

  /** The same, but says whether it came to it: false when `limit` milliseconds of virtual time have passed. */
  reaches(done: () => boolean, limit: number): Promise<boolean> {
    return this.#run(this.#now + limit, done);
  }

  /** What `promise` becomes, letting time pass meanwhile. @throws Error when that takes longer than `limit` milliseconds. */
  async settled<T>(promise: Promise<T>, limit: number): Promise<T> {
    let open = true;
    const end = (): void => {
      open = false;
    };
    promise.then(end, end);
    await this.until(() => !open, limit);
    return promise;
  }

  /**
   * Time stands still until the returned function is called: for what happens in real time, such as reading a file. Who
   * advances the clock waits meanwhile. Calling the function again does nothing.
   */
  hold(): () => void {
    this.#holds += 1;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#holds -= 1;
      if (this.#holds > 0) return;
      for (const resolve of this.#waiters.splice(0)) resolve();
    };
  }

  /** For runtimes of this clock. */
  setTimer(ms: number, fn: () => void): CancelTimer {
    this.#order += 1;
    const timer: Timer = { at: this.#now + Math.max(ms, 0), order: this.#order, fn };
    // Most timers are set for later than those already there, so the place is looked for from the end.
    let place = this.#timers.length;
    while (place > 0 && (this.#timers[place - 1] as Timer).at > timer.at) place -= 1;
    this.#timers.splice(place, 0, timer);
    return () => {
      const at = this.#timers.lastIndexOf(timer);
      if (at >= 0) this.#timers.splice(at, 1);
    };
  }

  /** For runtimes of this clock: a turn takes no time, and none passes before it has ended. */
  async turn(): Promise<void> {
    this.#turns += 1;
    await systemRuntime.turn();
    this.#turns -= 1;
  }

  /** Lets all that follows from the last timer run. */
  async #settle(): Promise<void> {
    for (let turns = 0; turns === 0 || this.#turns > 0 || this.#holds > 0; turns += 1) {
      if (turns > LIVELOCK) throw new Error(`turns without end at ${this.#now}`);
      if (this.#holds > 0) await this.#released();
      await systemRuntime.turn();
    }
  }

  #released(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }

  async #run(end: number, done: () => boolean): Promise<boolean> {
    let atOnce = 0;
    await this.#settle();
    while (!done()) {
      const timer = this.#timers[0];
      if (!timer || timer.at > end) {
        this.#now = Math.max(this.#now, end);
        return false;
      }
      this.#timers.shift();
      atOnce = timer.at === this.#now ? atOnce + 1 : 0;
      if (atOnce > LIVELOCK) throw new Error(`time stands still at ${this.#now}`);
      this.#now = Math.max(this.#now, timer.at);
      timer.fn();
      await this.#settle();
    }
    return true;
  }
}

export interface VirtualRuntimeOptions {
  readonly hostname?: string;
  /** Draws for `random()`; the default is a fixed sequence that differs by process. */
  readonly random?: () => number;
  /** Sites at which `buggify` answers true, for example to take one line of defence away. */
  readonly buggify?: readonly string[];
}

/** One simulated process on a `VirtualTime`. */
export class VirtualRuntime implements Runtime {
  readonly host: Host;
  /** Names that `mark` was called with. */
  readonly marks = new Set<string>();
  readonly #time: VirtualTime;
  readonly #random: () => number;
  readonly #buggify: ReadonlySet<string>;
  readonly #signals = new Map<StopSignal, Set<(signal: StopSignal) => void>>();

  constructor(time: VirtualTime, process: number, options: VirtualRuntimeOptions) {
    this.#time = time;
    this.#random = options.random ?? sequence(process);
    this.#buggify = new Set(options.buggify);
    this.host = { hostname: options.hostname ?? `host${process}`, pid: process, version: systemRuntime.host.version };
  }

  now(): number {
    return Math.floor(this.#time.now);
  }

  monotonic(): number {
    return this.#time.elapsed;
  }

  timer(ms: number, fn: () => void): CancelTimer {
    return this.#time.setTimer(ms, fn);
  }

  turn(): Promise<void> {
    return this.#time.turn();
  }

  random(): number {
    return this.#random();
  }

  randomHex(bytes: number): string {
    let hex = "";
    for (let i = 0; i < bytes; i++)
      hex += Math.floor(this.#random() * 256)
        .toString(16)
        .padStart(2, "0");
    return hex;
  }

  onSignal(signals: readonly StopSignal[], fn: (signal: StopSignal) => void): () => void {
    for (const signal of signals) {
      const listeners = this.#signals.get(signal) ?? new Set();
      this.#signals.set(signal, listeners.add(fn));
    }
    return () => {
      for (const signal of signals) this.#signals.get(signal)?.delete(fn);
    };
  }

  /** Signal listeners that are registered. */
  get listeners(): number {
    return [...this.#signals.values()].reduce((sum, listeners) => sum + listeners.size, 0);
  }

  /** Sends this process a signal. */
  signal(signal: StopSignal): void {
    for (const fn of [...(this.#signals.get(signal) ?? [])]) fn(signal);
  }

  buggify(site: string): boolean {
    return this.#buggify.has(site);
  }

  mark(name: string): void {
    this.marks.add(name);
  }

  invariant(ok: boolean, name: string): void {
    if (!ok) throw new Error(`invariant broken: ${name}`);
  }
}

/** A small generator (mulberry32); its quality is enough for jitter in tests. */
function sequence(seed: number): () => number {
  let state = seed * 0x9e37_79b9;
  return () => {
    state = (state + 0x6d2b_79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
