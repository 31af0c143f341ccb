/**
 * The virtual world: events in the order of their virtual time, and nothing else. After each event everything that follows
 * from it runs to its end before the next one happens. A run is a pure function of the seed and of what is put in.
 */
import { findDrain, fromLoop } from "./drain.ts";
import { hashText, mix } from "./random.ts";

/** Microseconds since the world began. */
export type Micros = number;

/** What an event belongs to: it happens only while its owner is the same, up and running. */
export interface Owner {
  /** False once this incarnation has ended: its events never happen. */
  readonly alive: boolean;
  /** Takes events that come up while its process is paused. */
  readonly paused: boolean;
  hold(event: Event): void;
}

/** Names a sequence of events, such as the replies to one server's claims. */
export interface Label {
  readonly text: string;
  readonly hash: number;
  count: number;
}

export interface Event {
  at: Micros;
  /** At one instant: 0 what a process catches up on after a pause, 1 all else, 2 what waits for everything else. */
  rank: 0 | 1 | 2;
  /** At one instant and rank: by hash of the name, so that order is explored and does not depend on unrelated events. */
  tie: number;
  readonly label: Label;
  readonly number: number;
  readonly owner: Owner | null;
  /** Timers of a process come before its other events when it catches up. */
  readonly timer: boolean;
  readonly fn: () => void;
  cancelled: boolean;
  /** Among those that are to come; -1 = it is not among them. */
  place: number;
}

/** `last`: what waits for everything else at its instant. */
export type Kind = "timer" | "last" | "other";

/** Something is wrong with the world itself, or nothing moves on any more. */
export class Stuck extends Error {
  override readonly name = "Stuck";
}

/** More events than this at one instant are a loop without end. */
const LIVELOCK = 20_000;
/** Events between two turns of the real event loop. */
const SLICE = 2_000;

export class World {
  readonly seed: number;
  /** Changes with every event: two runs are alike if it is. */
  digest = 0;
  events = 0;
  /** The first thing that an event has thrown. */
  failure: unknown;
  failed = false;
  /** Called for each event before it happens. */
  onEvent: ((event: Event) => void) | null = null;
  /** Called when all that followed from an event has run. */
  afterEvent: (() => void) | null = null;
  #now: Micros = 0;
  #heap: Event[] = [];
  readonly #labels = new Map<string, Label>();
  #atOnce = 0;
  #inEvent = false;

  constructor(seed: number) {
    this.seed = seed;
  }

  get now(): Micros {
    return this.#now;
  }

  /** Engine code is running. */
  get inEvent(): boolean {
    return this.#inEvent;
  }

  label(text: string): Label {
    const known = this.#labels.get(text);
    if (known) return known;
    const made = { text, hash: mix(this.seed >>> 0, hashText(text)), count: 0 };
    this.#labels.set(text, made);
    return made;
  }

  /** `fn` will be called at `at`, or now if that is past. */
  add(at: Micros, label: Label, owner: Owner | null, fn: () => void, kind: Kind = "other"): Event {
    label.count += 1;
    const event: Event = {
      at: Math.max(at, this.#now),
      rank: kind === "last" ? 2 : 1,
      tie: mix(label.hash, label.count),
      label,
      number: label.count,
      owner,
      timer: kind === "timer",
      fn,
      cancelled: false,
      place: -1,
    };
    this.#push(event);
    return event;
  }

  /** It will not happen. Most calls are answered before their deadline, so those are taken out and not waited for. */
  cancel(event: Event): void {
    event.cancelled = true;
    if (event.place >= 0) this.#remove(event.place);
  }

  /** Puts an event back that its owner has held, as number `place` of what it catches up on now. */
  release(event: Event, place: number): void {
    event.at = this.#now;
    event.rank = 0;
    event.tie = place;
    this.#push(event);
  }

  fail(reason: unknown): void {
    if (this.failed) return;
    this.failed = true;
    this.failure = reason;
  }

  /** Lets time pass until `until`, until `done()` or until something has failed. Resolves to whether it was done. */
  run(until: Micros, done: () => boolean): Promise<boolean> {
    return new Promise((resolve) => {
      fromLoop(() => {
        const drain = findDrain();
        const slice = (): void => {
          const end = drain === null ? this.#one(until, done) : this.#slice(until, done, drain);
          if (end !== null) resolve(end);
          else fromLoop(slice);
        };
        slice();
      });
    });
  }

  /** Null = there is more to do. */
  #slice(until: Micros, done: () => boolean, drain: () => void): boolean | null {
    for (let count = 0; count < SLICE; count++) {
      if (this.failed) return false;
      if (done()) return true;
      if (!this.#happen(until)) return false;
      drain();
      this.#ended();
    }
    return null;
  }

  /** The same for one event; what follows from it runs before this is called again. */
  #one(until: Micros, done: () => boolean): boolean | null {
    if (this.#inEvent) this.#ended();
    if (this.failed) return false;
    if (done()) return true;
    return this.#happen(until) ? null : false;
  }

  #ended(): void {
    this.#inEvent = false;
    this.#guarded(this.afterEvent);
  }

  #guarded(fn: (() => void) | null): void {
    try {
      fn?.();
    } catch (error) {
      this.fail(error);
    }
  }

  /** False when nothing happens until then. */
  #happen(until: Micros): boolean {
    for (;;) {
      const event = this.#heap[0];
      if (event === undefined || event.at > until) {
        this.#now = Math.max(this.#now, until);
        return false;
      }
      this.#remove(0);
      const { owner } = event;
      if (event.cancelled || owner?.alive === false) continue;
      if (owner?.paused) {
        owner.hold(event);
        continue;
      }
      this.#atOnce = event.at === this.#now ? this.#atOnce + 1 : 0;
      if (this.#atOnce > LIVELOCK) {
        this.fail(new Stuck(`time stands still at ${this.#now / 1e6} s: ${event.label.text}`));
        return true;
      }
      this.#now = event.at;
      this.events += 1;
      this.digest = mix(this.digest ^ event.label.hash, (event.at | 0) + event.number);
      this.onEvent?.(event);
      this.#inEvent = true;
      this.#guarded(event.fn);
      return true;
    }
  }

  #push(event: Event): void {
    this.#heap.push(event);
    this.#rise(event, this.#heap.length - 1);
  }

  #remove(place: number): void {
    const heap = this.#heap;
    (heap[place] as Event).place = -1;
    const last = heap.pop() as Event;
    if (place === heap.length) return;
    if (place > 0 && isBefore(last, heap[(place - 1) >> 1] as Event)) this.#rise(last, place);
    else this.#sink(last, place);
  }

  /** Finds the event its place, from a free one upwards. */
  #rise(event: Event, free: number): void {
    const heap = this.#heap;
    let place = free;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = heap[parent] as Event;
      if (!isBefore(event, above)) break;
      heap[place] = above;
      above.place = place;
      place = parent;
    }
    heap[place] = event;
    event.place = place;
  }

  #sink(event: Event, free: number): void {
    const heap = this.#heap;
    let place = free;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= heap.length) break;
      const right = heap[child + 1];
      if (right !== undefined && isBefore(right, heap[child] as Event)) child += 1;
      const below = heap[child] as Event;
      if (!isBefore(below, event)) break;
      heap[place] = below;
      below.place = place;
      place = child;
    }
    heap[place] = event;
    event.place = place;
  }
}

function isBefore(a: Event, b: Event): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.rank !== b.rank) return a.rank < b.rank;
  return a.tie < b.tie;
}
