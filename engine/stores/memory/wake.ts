/** Events of the memory store: each listener gets each one, after the call that caused it. */
import type { StoreEvent, StoreListener } from "../../store.ts";
import type { Row } from "./data.ts";

interface Subscription {
  readonly listener: StoreListener;
  open: boolean;
}

export class Wake {
  readonly #subscriptions = new Set<Subscription>();
  /** What an open transaction has to tell; null while none is open. */
  #held: ((now: number) => void)[] | null = null;

  /** Keeps what there is to tell from now on, until `release`. */
  hold(): void {
    this.#held = [];
  }

  /** Tells what was kept, at `now`; null = forgets it. */
  release(now: number | null): void {
    const held = this.#held ?? [];
    this.#held = null;
    if (now !== null) for (const tell of held) tell(now);
  }

  subscribe(listener: StoreListener): () => Promise<void> {
    const subscription: Subscription = { listener, open: true };
    this.#subscriptions.add(subscription);
    deliver(subscription, { type: "connected" });
    return async () => {
      subscription.open = false;
      this.#subscriptions.delete(subscription);
    };
  }

  emit(event: StoreEvent): void {
    for (const subscription of this.#subscriptions) deliver(subscription, event);
  }

  /** Tells of jobs that now wait, once per queue: when the first of them is ready. */
  emitReady(rows: readonly Row[], now: number): void {
    if (this.#held !== null) {
      this.#held.push((later) => this.emitReady(rows, later));
      return;
    }
    if (this.#subscriptions.size === 0) return;
    const delays = new Map<string, number>();
    for (const { state, queue, runAt, lane } of rows) {
      const at = state === "scheduled" ? runAt : state === "enqueued" ? now : (lane?.openAt ?? null);
      const delay = at === null ? null : Math.max(at - now, 0);
      if (delay !== null) delays.set(queue, Math.min(delay, delays.get(queue) ?? delay));
    }
    for (const [queue, delay] of delays) this.emit({ type: "ready", queue, delay });
  }

  close(): void {
    for (const subscription of this.#subscriptions) subscription.open = false;
    this.#subscriptions.clear();
  }
}

/** Promises settle in order, so a listener gets its events in the order in which they were emitted. */
function deliver(subscription: Subscription, event: StoreEvent): void {
  void Promise.resolve().then(() => {
    if (subscription.open) subscription.listener(event);
  });
}
