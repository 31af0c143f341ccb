/** Events: this store's own at once, those of other connections and processes through `watch.ts`. */
import type { StoreEvent, StoreListener } from "../../store.ts";
import type { Connection, Transaction } from "./connection.ts";
import { IN_MEMORY } from "./file.ts";
import { Watch } from "./watch.ts";

/** Jobs that a transaction has made wait: one event for each queue, with the time until its first job is ready. */
export class Waiting {
  readonly #delays = new Map<string, number>();

  /** `delay` is in milliseconds; at most 0 = ready now. */
  add(queue: string, delay: number): void {
    const known = this.#delays.get(queue);
    if (known === undefined || delay < known) this.#delays.set(queue, Math.max(delay, 0));
  }

  /** Tells this process. */
  emit(tx: Transaction): void {
    for (const [queue, delay] of this.#delays) tx.emit({ type: "ready", queue, delay });
  }

  /** Tells this process and, by 1 statement, the others. */
  announce(db: Connection, tx: Transaction): void {
    if (this.#delays.size > 0) db.run("UPDATE kiln_sequences SET value = value + 1 WHERE name = 'ready'");
    this.emit(tx);
  }
}

interface Subscription {
  readonly listener: StoreListener;
  open: boolean;
}

export class Wake {
  readonly #subscriptions = new Set<Subscription>();
  /** Null for a database that no other connection can reach. */
  readonly #watch: Watch | null;

  constructor(db: Connection) {
    this.#watch = db.path === IN_MEMORY ? null : new Watch(db, (event) => this.#emit(event));
    db.onCommit = (events) => {
      for (const event of events) this.#emit(event);
    };
  }

  subscribe(listener: StoreListener): () => Promise<void> {
    const subscription: Subscription = { listener, open: true };
    this.#subscriptions.add(subscription);
    deliver(subscription, { type: "connected" });
    if (this.#watch?.isDown) deliver(subscription, { type: "disconnected" });
    // Watching begins before `connected` arrives, so that nothing is missed in between.
    else this.#watch?.start();
    return async () => {
      subscription.open = false;
      this.#subscriptions.delete(subscription);
      if (this.#subscriptions.size === 0) this.#watch?.stop();
    };
  }

  close(): void {
    for (const subscription of this.#subscriptions) subscription.open = false;
    this.#subscriptions.clear();
    this.#watch?.stop();
  }

  #emit(event: StoreEvent): void {
    for (const subscription of this.#subscriptions) deliver(subscription, event);
  }
}

/** Promises settle in order, so a listener gets its events in the order in which they were emitted. */
function deliver(subscription: Subscription, event: StoreEvent): void {
  void Promise.resolve().then(() => {
    if (!subscription.open) return;
    try {
      subscription.listener(event);
    } catch {
      // Listeners may not throw; one that does must not keep the others from their events.
    }
  });
}
