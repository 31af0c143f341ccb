/** Turns the store's events into wake-ups. Events are hints: nothing here is believed, only looked up sooner. */
import type { Store, StoreEvent } from "../store.ts";
import type { Attempts } from "./attempts.ts";
import type { Claimer } from "./claimer.ts";
import type { Heartbeat } from "./heartbeat.ts";
import type { Leader } from "./leader.ts";

export class Listener {
  readonly #store: Store;
  readonly #claimers: readonly Claimer[];
  readonly #attempts: Attempts;
  readonly #heartbeat: Heartbeat;
  readonly #leader: Leader;
  #listening = false;
  #unsubscribe: () => Promise<void> = () => Promise.resolve();

  constructor(store: Store, claimers: readonly Claimer[], attempts: Attempts, heartbeat: Heartbeat, leader: Leader) {
    this.#store = store;
    this.#claimers = claimers;
    this.#attempts = attempts;
    this.#heartbeat = heartbeat;
    this.#leader = leader;
  }

  /** The store's events reach this server. */
  get listening(): boolean {
    return this.#listening;
  }

  start(): void {
    this.#unsubscribe = this.#store.subscribe((event) => this.#on(event));
  }

  async stop(): Promise<void> {
    await this.#unsubscribe();
    this.#listening = false;
  }

  #on(event: StoreEvent): void {
    switch (event.type) {
      case "connected":
        this.#listening = true;
        this.#wake(null, 0);
        this.#leader.recurringSet();
        if (this.#attempts.size > 0) this.#heartbeat.request();
        break;
      case "disconnected":
        this.#listening = false;
        break;
      case "ready":
        this.#wake(event.queue, event.delay);
        break;
      case "recurring":
        this.#leader.recurringSet();
        break;
      case "queue":
        this.#wake(event.queue, 0);
        break;
      case "cancel":
        // An old event must not stop a newer run of the job: the beat brings what is true now.
        if (this.#attempts.has(event.id)) this.#heartbeat.request();
        break;
    }
  }

  #wake(queue: string | null, delay: number): void {
    for (const claimer of this.#claimers) {
      if (queue === null || claimer.pool.queues.includes(queue)) claimer.wake(delay);
    }
  }
}
