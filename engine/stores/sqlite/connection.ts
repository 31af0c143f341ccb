/** A connection of a store: opening, transactions, waiting for locks, cached statements. */
import { resolve } from "node:path";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { sleep } from "../../async.ts";
import { StoreError } from "../../errors.ts";
import type { Runtime } from "../../runtime.ts";
import type { StoreEvent } from "../../store.ts";
import { BUSY_LIMIT, Turns } from "../turns.ts";
import { isBusy, toKilnError } from "./failure.ts";
import { IN_MEMORY } from "./file.ts";

/** What a row is read as: its columns in the order of the statement. */
export type SqlRow = readonly (string | number | null)[];

/** What a write can use while it holds the lock. */
export interface Transaction {
  /** The store's clock, read once the lock was held; milliseconds since 1970. */
  readonly now: number;
  /** Sends the event once the transaction is committed, and never if it is not. */
  emit(event: StoreEvent): void;
}

export type Durability = "full" | "normal";

/**
 * Waits between tries for a lock: 1 ms, doubling up to this. Short, because another process that writes without pause lets
 * go of the lock only for moments; only one call of a connection tries at a time, so that waiting costs next to nothing.
 */
const LONGEST_WAIT = 4;

/**
 * Node 22.18 and 24.0 to 24.6 take no numbered parameters such as `?1` (nodejs/node#59350). So each becomes a `?` of its
 * own, and a value is given as often as it stands in the text. A statement has either numbered parameters or plain ones.
 */
const NUMBERED = /\?(\d+)/g;

interface Statement {
  readonly prepared: StatementSync;
  /** Which value goes to each numbered parameter; empty when there are none. */
  readonly order: readonly number[];
}

function bindings(params: SQLInputValue[], order: readonly number[]): SQLInputValue[] {
  return order.length === 0 ? params : order.map((index) => params[index] ?? null);
}

export class Connection {
  readonly runtime: Runtime;
  /** Absolute and without symbolic links, or `:memory:`. */
  readonly path: string;
  /** Gets the events of each transaction, in order, after its commit. */
  onCommit: (events: readonly StoreEvent[]) => void = () => {};
  readonly database: DatabaseSync;
  readonly #turns: Turns;
  readonly #statements = new Map<string, Statement>();
  readonly #closed = new AbortController();

  /**
   * `source` is a path that has been through `checkFile`, or a database that is open. Connections with the same `turns`
   * write in the order in which they are called. @throws StoreError
   */
  constructor(source: string | DatabaseSync, runtime: Runtime, turns: Turns = new Turns()) {
    this.database = typeof source === "string" ? openDatabase(source) : source;
    this.runtime = runtime;
    this.path = this.database.location() ?? IN_MEMORY;
    this.#turns = turns;
  }

  /** Says how the file is kept. Changes the file to write-ahead logging. @throws StoreError */
  async configure(durability: Durability): Promise<void> {
    const [mode] = await this.#retry(
      this.runtime.monotonic(),
      () => this.get<[string]>("PRAGMA journal_mode = WAL") ?? [""],
    );
    if (mode !== "wal" && this.path !== IN_MEMORY) {
      throw new StoreError("store_failed", `SQLite store ${this.path}: write-ahead logging is not possible here`);
    }
    const level = durability === "full" ? "FULL" : "NORMAL";
    await this.#retry(this.runtime.monotonic(), () =>
      this.exec(`PRAGMA synchronous = ${level}; PRAGMA cache_size = -16000;
      PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 67108864`),
    );
  }

  /** @throws StoreError `store_closed` */
  assertOpen(): void {
    if (this.#closed.signal.aborted) throw new StoreError("store_closed", `SQLite store ${this.path} is closed`);
  }

  /** The store's clock; milliseconds since 1970. @throws StoreError `store_closed` */
  now(): number {
    this.assertOpen();
    return this.runtime.now();
  }

  /** The first row. For use inside `read` and `write`, like `all` and `run`. */
  get<Row extends SqlRow>(sql: string, ...params: SQLInputValue[]): Row | undefined {
    const { prepared, order } = this.#statement(sql);
    return prepared.get(...bindings(params, order)) as unknown as Row | undefined;
  }

  all<Row extends SqlRow>(sql: string, ...params: SQLInputValue[]): Row[] {
    const { prepared, order } = this.#statement(sql);
    return prepared.all(...bindings(params, order)) as unknown as Row[];
  }

  /** Returns how many rows were changed. */
  run(sql: string, ...params: SQLInputValue[]): number {
    const { prepared, order } = this.#statement(sql);
    return Number(prepared.run(...bindings(params, order)).changes);
  }

  /** Runs statements that are used once. */
  exec(sql: string): void {
    this.database.exec(sql);
  }

  /** Grows when another connection has committed something. @throws StoreError */
  dataVersion(): number {
    return this.checked(() => this.get<[number]>("PRAGMA data_version")?.[0] ?? 0);
  }

  /** `work` sees one state of the database. Takes no lock that others would notice. @throws StoreError */
  async read<T>(work: () => T): Promise<T> {
    // What a transaction on this connection has written is not for others to see.
    const shared = this.path === IN_MEMORY;
    return this.#retry(this.runtime.monotonic(), () => this.#transact("BEGIN", work), shared);
  }

  /** The same without waiting for a lock. @throws StoreError, `store_busy` at once */
  readNow<T>(work: () => T): T {
    return this.checked(() => this.#transact("BEGIN", work));
  }

  /**
   * `work` may write, alone; it happens wholly or not at all. It is repeated when the commit is refused, so it may have
   * no effects outside the database. Calls take effect in the order in which they are made. @throws StoreError
   */
  async write<T>(work: (tx: Transaction) => T): Promise<T> {
    const started = this.runtime.monotonic();
    return this.#turns.inTurn(() => this.#write(started, work));
  }

  /**
   * Takes the write lock and keeps it: a transaction is open on `database` until the caller has ended it and says so by
   * calling what is returned. Writes of all connections with the same `turns` wait for that. To be called when it is one's
   * turn; `started` is when the waiting began. @throws StoreError
   */
  begin(started: number): Promise<() => void> {
    return this.#retry(started, () => {
      this.run("BEGIN IMMEDIATE");
      return this.#turns.open();
    });
  }

  /** Ends what `begin` has begun. @throws StoreError; it is still open then, unless SQLite has rolled it back */
  commit(): void {
    this.checked(() => this.run("COMMIT"));
  }

  /** Calls that still wait for a lock throw `store_closed`. Twice is fine. */
  close(): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    this.#statements.clear();
    if (this.database.isOpen) this.database.close();
  }

  #write<T>(started: number, work: (tx: Transaction) => T): Promise<T> {
    return this.#retry(started, () => {
      const events: StoreEvent[] = [];
      const result = this.#transact("BEGIN IMMEDIATE", () =>
        work({ now: this.runtime.now(), emit: (event) => events.push(event) }),
      );
      if (events.length > 0) this.onCommit(events);
      return result;
    });
  }

  #transact<T>(begin: string, work: () => T): T {
    this.run(begin);
    try {
      const result = work();
      this.run("COMMIT");
      return result;
    } catch (error) {
      // SQLite has rolled back by itself after some errors, such as a full disk.
      if (this.database.isTransaction) this.run("ROLLBACK");
      throw error;
    }
  }

  #statement(sql: string): Statement {
    const known = this.#statements.get(sql);
    if (known) return known;
    const prepared = this.database.prepare(sql.replace(NUMBERED, "?"));
    prepared.setReturnArrays(true);
    // A database that the application has opened may say otherwise.
    prepared.setReadBigInts(false);
    const statement = { prepared, order: Array.from(sql.matchAll(NUMBERED), ([, number]) => Number(number) - 1) };
    this.#statements.set(sql, statement);
    return statement;
  }

  /** Errors as kiln has them. */
  protected checked<T>(call: () => T): T {
    this.assertOpen();
    try {
      return call();
    } catch (error) {
      throw toKilnError(error, this.path);
    }
  }

  /** The first try is made at once, unless it waits for an open transaction of the application's. */
  async #retry<T>(started: number, call: () => T, waits = true): Promise<T> {
    for (let wait = 1; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
      while (waits && this.#turns.hasTransaction) await this.#transactionEnds(started);
      this.assertOpen();
      try {
        return call();
      } catch (error) {
        if (!isBusy(error) || this.runtime.monotonic() - started >= BUSY_LIMIT) throw toKilnError(error, this.path);
      }
      await sleep(this.runtime, wait * (0.5 + this.runtime.random() / 2), this.#closed.signal);
    }
  }

  async #transactionEnds(started: number): Promise<void> {
    const left = BUSY_LIMIT - (this.runtime.monotonic() - started);
    if (await this.#turns.transactionEnds(this.runtime, left)) return;
    throw new StoreError("store_busy", `SQLite store ${this.path}: a transaction has been open for too long`);
  }
}

function openDatabase(path: string): DatabaseSync {
  const file = path === IN_MEMORY ? path : resolve(path);
  try {
    // With a timeout SQLite would sleep inside the call and block the event loop.
    return new DatabaseSync(file, { timeout: 0 });
  } catch (error) {
    throw toKilnError(error, file);
  }
}
