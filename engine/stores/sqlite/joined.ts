/** Writing inside a transaction that somebody else has opened. Each call costs 2 statements more than by itself. */
import { ConflictError } from "../../errors.ts";
import type { StoreEvent } from "../../store.ts";
import { Connection, type Transaction } from "./connection.ts";
import { toKilnError } from "./failure.ts";

interface Pending {
  readonly event: StoreEvent;
  /** When it was emitted, by the monotonic clock. */
  readonly at: number;
}

/**
 * A database in which a transaction is open that is not this call's own: each `write` is a savepoint of it, made at once
 * and without waiting, and its events are kept until `takeEvents`.
 */
export class JoinedConnection extends Connection {
  /** One for each queue and type, so that it stays small when nobody ever asks for them. */
  readonly #events = new Map<string, Pending>();

  /** @throws ConflictError */
  override assertOpen(): void {
    if (this.database.isOpen && this.database.isTransaction) return;
    const what = this.database.isOpen ? "no transaction is open on the database" : "the database was closed";
    throw new ConflictError(`SQLite store ${this.path}: ${what}`);
  }

  override async read<T>(work: () => T): Promise<T> {
    return this.checked(work);
  }

  override async write<T>(work: (tx: Transaction) => T): Promise<T> {
    return this.checked(() => {
      const events: StoreEvent[] = [];
      this.run("SAVEPOINT kiln_call");
      try {
        const result = work({ now: this.runtime.now(), emit: (event) => events.push(event) });
        this.run("RELEASE kiln_call");
        for (const event of events) this.#keep(event);
        return result;
      } catch (error) {
        this.#undo(error);
        throw error;
      }
    });
  }

  /** What the calls since the last time have to tell, with the delays that are left now. */
  takeEvents(): StoreEvent[] {
    const now = this.runtime.monotonic();
    const events = [...this.#events.values()].map(({ event, at }) =>
      event.type === "ready" ? { ...event, delay: Math.max(at + event.delay - now, 0) } : event,
    );
    this.#events.clear();
    return events;
  }

  #keep(event: StoreEvent): void {
    const at = this.runtime.monotonic();
    const key = event.type === "ready" ? `ready ${event.queue}` : JSON.stringify(event);
    const known = this.#events.get(key);
    const isLater =
      known?.event.type === "ready" && event.type === "ready" && known.at + known.event.delay <= at + event.delay;
    if (!isLater) this.#events.set(key, { event, at });
  }

  #undo(reason: unknown): void {
    // SQLite has rolled back everything by itself after some errors, such as a full disk.
    if (!this.database.isTransaction) return;
    try {
      this.run("ROLLBACK TO kiln_call");
      this.run("RELEASE kiln_call");
    } catch {
      // The file can't be read or written at all; whoever has the transaction open can't commit it either.
      throw toKilnError(reason, this.path);
    }
  }
}
