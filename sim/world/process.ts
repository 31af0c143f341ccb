/** Simulated processes: each has its own clocks, randomness and timers, and can be paused, killed and started again. */
import type { CancelTimer, Host, Runtime, StopSignal } from "../../engine/runtime.ts";
import { VERSION } from "../../engine/version.ts";
import { Stream } from "./random.ts";
import type { Event, Label, Micros, Owner, World } from "./world.ts";

/** 2026-01-01T00:00:00Z: where all clocks begin that are right; milliseconds since 1970. */
export const START = Date.UTC(2026, 0, 1);

export interface ClockOptions {
  /** Milliseconds that the wall clock is ahead. Default 0. */
  readonly skew?: number;
  /** Parts per million that the clocks run too fast. Default 0. */
  readonly drift?: number;
}

/** What the engine tells the simulator about itself. */
export interface Observer {
  mark(name: string): void;
  broken(name: string): void;
  /** Whether something unlikely is to happen at this place of the engine. */
  buggify(site: string): boolean;
  /** A process stands still from now on, or goes on. */
  stands(incarnation: string, still: boolean): void;
}

/** A machine's process, through all its starts. */
export class SimProcess {
  readonly name: string;
  readonly #world: World;
  readonly #observer: Observer;
  readonly #drift: number;
  /** Milliseconds that the wall clock is ahead, with what it was stepped by. */
  #ahead: number;
  #starts = 0;
  #current: Incarnation | null = null;
  #paused = false;
  #held: Event[] = [];

  constructor(world: World, name: string, observer: Observer, { skew = 0, drift = 0 }: ClockOptions = {}) {
    this.#world = world;
    this.name = name;
    this.#observer = observer;
    this.#ahead = skew;
    this.#drift = 1 + drift / 1e6;
  }

  /** Null while it is down. */
  get current(): Incarnation | null {
    return this.#current;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Starts it; it must be down. */
  start(): Incarnation {
    if (this.#current !== null) throw new Error(`${this.name} is up`);
    this.#starts += 1;
    this.#current = new Incarnation(this.#world, this, this.#starts, this.#observer);
    return this.#current;
  }

  /** As by SIGKILL: nothing of it runs any more, not even what stands in `finally`. */
  kill(): void {
    this.#current?.end();
    this.#current = null;
    this.#held = [];
    this.#paused = false;
  }

  /** As by SIGSTOP, or a virtual machine that is moved. */
  pause(): void {
    if (this.#current === null || this.#paused) return;
    this.#paused = true;
    this.#observer.stands(this.#current.name, true);
  }

  /** It catches up as Node does: first with its timers in the order in which they were due, then with what has arrived. */
  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    if (this.#current !== null) this.#observer.stands(this.#current.name, false);
    const held = this.#held;
    this.#held = [];
    const timers = held.filter(({ timer }) => timer);
    const others = held.filter(({ timer }) => !timer);
    for (const [place, event] of [...timers, ...others].entries()) this.#world.release(event, place);
  }

  /** Its event loop is kept busy for `ms` milliseconds. */
  block(ms: number): void {
    const blocked = this.#current;
    this.pause();
    this.#world.add(this.#world.now + ms * 1e3, this.#world.label(`${this.name}/blocked`), null, () => {
      if (this.#current === blocked) this.resume();
    });
  }

  hold(event: Event): void {
    this.#held.push(event);
  }

  stepWallClock(ms: number): void {
    this.#ahead += ms;
  }

  /** Milliseconds since 1970. */
  get wallClock(): number {
    return Math.floor(START + this.monotonic + this.#ahead);
  }

  get monotonic(): number {
    return (this.#world.now / 1e3) * this.#drift;
  }

  /** When a timer of this process that was set now for `ms` milliseconds is due. */
  due(ms: number): Micros {
    return this.#world.now + Math.ceil((Math.max(ms, 0) * 1e3) / this.#drift);
  }
}

/** One run of a process, from its start to its end: the environment that the engine gets. */
export class Incarnation implements Runtime, Owner {
  readonly process: SimProcess;
  /** From 1. */
  readonly number: number;
  /** For example `n0.2`. */
  readonly name: string;
  readonly host: Host;
  /** For what is not the engine's own, such as handlers: their timers are not among those that are `armed`. */
  readonly outside: Runtime;
  readonly #world: World;
  readonly #observer: Observer;
  readonly #random: Stream;
  readonly #timers: Label;
  readonly #turns: Label;
  readonly #signals = new Map<StopSignal, Set<(signal: StopSignal) => void>>();
  #alive = true;
  #armed = 0;

  constructor(world: World, process: SimProcess, number: number, observer: Observer) {
    this.#world = world;
    this.process = process;
    this.number = number;
    this.name = `${process.name}.${number}`;
    this.#observer = observer;
    this.host = { hostname: process.name, pid: number, version: VERSION };
    this.outside = outsideOf(this, (ms, fn) => this.#timer(ms, fn));
    this.#random = new Stream(world.seed, `${this.name}/random`);
    this.#timers = world.label(`${this.name}/timer`);
    this.#turns = world.label(`${this.name}/turn`);
  }

  get alive(): boolean {
    return this.#alive;
  }

  get paused(): boolean {
    return this.process.paused;
  }

  hold(event: Event): void {
    this.process.hold(event);
  }

  end(): void {
    this.#alive = false;
  }

  /** Timers that are armed. */
  get armed(): number {
    return this.#armed;
  }

  now(): number {
    return this.process.wallClock;
  }

  monotonic(): number {
    return this.process.monotonic;
  }

  timer(ms: number, fn: () => void): CancelTimer {
    this.#armed += 1;
    let done = false;
    const end = (): boolean => {
      if (done) return false;
      done = true;
      this.#armed -= 1;
      return true;
    };
    const cancel = this.#timer(ms, () => {
      end();
      fn();
    });
    return () => {
      if (end()) cancel();
    };
  }

  #timer(ms: number, fn: () => void): CancelTimer {
    const event = this.#world.add(this.process.due(ms), this.#timers, this, fn, "timer");
    return () => {
      this.#world.cancel(event);
    };
  }

  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#world.add(this.#world.now, this.#turns, this, resolve, "last");
    });
  }

  random(): number {
    return this.#random.unit();
  }

  randomHex(bytes: number): string {
    return this.#random.hex(bytes);
  }

  onSignal(signals: readonly StopSignal[], fn: (signal: StopSignal) => void): () => void {
    for (const signal of signals) this.#signals.set(signal, (this.#signals.get(signal) ?? new Set()).add(fn));
    return () => {
      for (const signal of signals) this.#signals.get(signal)?.delete(fn);
    };
  }

  /** Sends it a signal, which it gets when it is not paused. */
  signal(signal: StopSignal): void {
    this.#world.add(this.#world.now, this.#world.label(`${this.name}/${signal}`), this, () => {
      for (const fn of [...(this.#signals.get(signal) ?? [])]) fn(signal);
    });
  }

  buggify(site: string): boolean {
    return this.#observer.buggify(site);
  }

  mark(name: string): void {
    this.#observer.mark(name);
  }

  invariant(ok: boolean, name: string): void {
    if (!ok) this.#observer.broken(name);
  }
}

function outsideOf(inner: Runtime, timer: Runtime["timer"]): Runtime {
  return {
    timer,
    host: inner.host,
    now: () => inner.now(),
    monotonic: () => inner.monotonic(),
    turn: () => inner.turn(),
    random: () => inner.random(),
    randomHex: (bytes) => inner.randomHex(bytes),
    onSignal: (signals, fn) => inner.onSignal(signals, fn),
    buggify: (site) => inner.buggify(site),
    mark: (name) => inner.mark(name),
    invariant: (ok, name) => inner.invariant(ok, name),
  };
}
