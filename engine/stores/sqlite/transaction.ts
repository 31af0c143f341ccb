/**
 * Transactions of the application's: its own statements and the store's calls, committed together. 4 statements beside
 * those of the calls, which cost 2 more each than by themselves.
 */
import { DatabaseSync } from "node:sqlite";
import { ConflictError, StoreError } from "../../errors.ts";
import { invalid } from "../../problems.ts";
import type {
  BatchId,
  InsertedJob,
  InsertOptions,
  JobRef,
  JsonText,
  NewBatch,
  NewJob,
  TransactionWriter,
  Writer,
} from "../../store.ts";
import type { Turns } from "../turns.ts";
import * as batching from "./batches.ts";
import { Connection, type Durability } from "./connection.ts";
import { isStale } from "./failure.ts";
import { IN_MEMORY } from "./file.ts";
import * as finishing from "./finish.ts";
import { insert } from "./insert.ts";
import { JoinedConnection } from "./joined.ts";

/** An open transaction. */
export interface SqliteTransaction extends Writer {
  /**
   * For the application's own statements in the transaction. Neither end the transaction nor close the database, and use
   * it, and what was prepared with it, only until the transaction ends: it is one connection, on which one transaction is
   * open after the other. It enforces foreign keys.
   */
  readonly db: DatabaseSync;
}

/** The calls of a writer, each refused by `check` when it comes too late. */
class JoinedWriter implements Writer {
  readonly #connection: JoinedConnection;
  readonly #check: () => void;

  constructor(connection: JoinedConnection, check: () => void) {
    this.#connection = connection;
    this.#check = check;
  }

  async insert(jobs: readonly NewJob[], options?: InsertOptions): Promise<InsertedJob[]> {
    this.#check();
    return insert(this.#connection, jobs, options);
  }

  async openBatch(batch: NewBatch): Promise<BatchId> {
    this.#check();
    return batching.openBatch(this.#connection, batch);
  }

  async sealBatch(id: BatchId): Promise<void> {
    this.#check();
    return batching.sealBatch(this.#connection, id);
  }

  async setParams(ref: JobRef, params: Readonly<Record<string, JsonText>>): Promise<void> {
    this.#check();
    return finishing.setParams(this.#connection, ref, params);
  }
}

class OpenTransaction extends JoinedWriter implements SqliteTransaction {
  readonly db: DatabaseSync;

  constructor(connection: JoinedConnection, check: () => void) {
    super(connection, check);
    this.db = connection.database;
  }
}

class OwnTransactionWriter extends JoinedWriter implements TransactionWriter {
  readonly notify: () => void;

  constructor(connection: JoinedConnection, check: () => void, notify: () => void) {
    super(connection, check);
    this.notify = notify;
  }
}

/** Where transactions are open, one at a time. */
interface Place {
  readonly connection: Connection;
  readonly joined: JoinedConnection;
}

export class Transactions {
  readonly #store: Connection;
  readonly #turns: Turns;
  readonly #durability: Durability;
  readonly #joined = new WeakMap<DatabaseSync, JoinedConnection>();
  #place: Place | null = null;
  /** Gives up waiting for the application; null while no transaction is open. */
  #abandon: ((error: StoreError) => void) | null = null;

  /** `store` is the store's connection, and gets the events. */
  constructor(store: Connection, turns: Turns, durability: Durability) {
    this.#store = store;
    this.#turns = turns;
    this.#durability = durability;
  }

  async run<T>(work: (tx: SqliteTransaction) => T | Promise<T>): Promise<T> {
    if (typeof work !== "function") throw invalid("can't run a transaction", "work", work, "must be a function");
    const { place, end } = await this.#begin();
    let open = true;
    const transaction = new OpenTransaction(place.joined, () => {
      this.#store.assertOpen();
      if (!open) throw new ConflictError("the transaction has ended");
    });
    try {
      this.#store.assertOpen();
      place.connection.run("SAVEPOINT kiln_transaction");
      const result = await this.#resultOf(work, transaction);
      open = false;
      this.#commit(place);
      return result;
    } catch (error) {
      open = false;
      this.#rollBack(place);
      throw error;
    } finally {
      end();
    }
  }

  within(db: DatabaseSync): TransactionWriter {
    this.#store.assertOpen();
    const rule = unfit(db, this.#store.path);
    if (rule !== null) throw invalid("can't write within a transaction", "db", db, rule);
    let joined = this.#joined.get(db);
    if (!joined) {
      joined = new JoinedConnection(db, this.#store.runtime);
      this.#joined.set(db, joined);
    }
    const connection = joined;
    return new OwnTransactionWriter(
      connection,
      () => this.#store.assertOpen(),
      () => this.#store.onCommit(connection.takeEvents()),
    );
  }

  /** Rolls an open transaction back. Twice is fine. */
  close(): void {
    this.#abandon?.(new StoreError("store_closed", `SQLite store ${this.#store.path} is closed`));
    // SQLite rolls back what is open.
    this.#place?.connection.close();
    this.#place = null;
  }

  #begin(): Promise<{ readonly place: Place; readonly end: () => void }> {
    const started = this.#store.runtime.monotonic();
    return this.#turns.inTurn(async () => {
      const place = await this.#open();
      try {
        return { place, end: await place.connection.begin(started) };
      } catch (error) {
        if (!isStale(error)) throw error;
        // An earlier transaction has left something that it has not read to its end.
        place.connection.close();
        const fresh = await this.#open();
        return { place: fresh, end: await fresh.connection.begin(started) };
      }
    });
  }

  async #open(): Promise<Place> {
    this.#store.assertOpen();
    if (this.#place?.connection.database.isOpen) return this.#place;
    const connection = this.#store.path === IN_MEMORY ? this.#store : await this.#connect();
    this.#place = { connection, joined: new JoinedConnection(connection.database, connection.runtime) };
    return this.#place;
  }

  async #connect(): Promise<Connection> {
    const connection = new Connection(this.#store.path, this.#store.runtime, this.#turns);
    try {
      await connection.configure(this.#durability);
      this.#store.assertOpen();
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  #resultOf<T>(work: (tx: SqliteTransaction) => T | Promise<T>, transaction: SqliteTransaction): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#abandon = reject;
      const call = async (): Promise<T> => work(transaction);
      call().then(resolve, reject);
    });
  }

  #commit({ connection, joined }: Place): void {
    try {
      // Is there only if the transaction is still the one that was begun.
      connection.run("RELEASE kiln_transaction");
    } catch (error) {
      throw new ConflictError("the transaction was ended by its own work, or by a failure that the work has ignored", {
        cause: error,
      });
    }
    connection.commit();
    this.#store.onCommit(joined.takeEvents());
  }

  #rollBack({ connection, joined }: Place): void {
    joined.takeEvents();
    const { database } = connection;
    if (!database.isOpen || !database.isTransaction) return;
    try {
      connection.run("ROLLBACK");
    } catch {
      // It ends with its connection.
      connection.close();
    }
  }
}

/** The rule that `db` breaks, or null. */
function unfit(db: unknown, path: string): string | null {
  if (!(db instanceof DatabaseSync)) return "must be a DatabaseSync of node:sqlite";
  if (!db.isOpen) return "must be open";
  if (path === IN_MEMORY) return "can't reach the store, which is in memory";
  return db.location() === path ? null : `must be open on the store's file, ${path}`;
}
