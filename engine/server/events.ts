/**
 * What the server tells the outside: one event for every transition that it drives. Publishing never waits: each
 * subscriber has a buffer, and one that is too slow loses events and is told how many.
 */
import type { JobId, JobState } from "../store.ts";

export interface TransitionEvent {
  readonly type: "transition";
  readonly id: JobId;
  readonly kind: string;
  readonly queue: string;
  readonly attempt: number;
  readonly from: JobState;
  readonly to: JobState;
  /** As in the job's history; null for a claim and a plain success. */
  readonly reason: string | null;
  /** Id of the server that drove it. */
  readonly server: string;
}

/** Stands where events were dropped because the subscriber's buffer was full. */
export interface DroppedEvent {
  readonly type: "dropped";
  readonly count: number;
}

export type ServerEvent = TransitionEvent | DroppedEvent;

/** Default size of a subscriber's buffer, events. */
export const EVENT_BUFFER = 1_000;

export class Events {
  readonly #subscriptions = new Set<Subscription>();
  #closed = false;

  publish(event: TransitionEvent): void {
    for (const subscription of this.#subscriptions) subscription.push(event);
  }

  /** Ends when the server has stopped, or when the loop over it is left. */
  subscribe(buffer: number): AsyncIterableIterator<ServerEvent> {
    const subscription = new Subscription(buffer, () => this.#subscriptions.delete(subscription));
    if (this.#closed) subscription.end();
    else this.#subscriptions.add(subscription);
    return subscription;
  }

  /** Lets subscribers read what they still have, then ends them. */
  close(): void {
    this.#closed = true;
    for (const subscription of this.#subscriptions) subscription.end();
    this.#subscriptions.clear();
  }
}

class Subscription implements AsyncIterableIterator<ServerEvent> {
  readonly #size: number;
  readonly #onEnd: () => void;
  /** At most `size` transitions; a gap takes one more place. */
  #buffer: ServerEvent[] = [];
  #ended = false;
  #readers: ((result: IteratorResult<ServerEvent>) => void)[] = [];

  constructor(size: number, onEnd: () => void) {
    this.#size = size;
    this.#onEnd = onEnd;
  }

  push(event: TransitionEvent): void {
    const reader = this.#readers.shift();
    if (reader) reader({ done: false, value: event });
    else if (this.#buffer.length < this.#size) this.#buffer.push(event);
    else this.#drop();
  }

  #drop(): void {
    const last = this.#buffer.at(-1);
    const count = last?.type === "dropped" ? last.count : 0;
    if (count > 0) this.#buffer.pop();
    this.#buffer.push({ type: "dropped", count: count + 1 });
  }

  end(): void {
    this.#ended = true;
    for (const reader of this.#readers.splice(0)) reader({ done: true, value: undefined });
  }

  next(): Promise<IteratorResult<ServerEvent>> {
    const event = this.#buffer.shift();
    if (event) return Promise.resolve({ done: false, value: event });
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.#readers.push(resolve));
  }

  return(): Promise<IteratorResult<ServerEvent>> {
    this.#buffer = [];
    this.end();
    this.#onEnd();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
