/** The one connection of a store: opening, transactions, waiting for locks, cached statements. */
import { accessSync, constants, statSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { sleep } from "../../async.ts";
import { StoreError } from "../../errors.ts";
import type { Runtime } from "../../runtime.ts";
import type { StoreEvent } from "../../store.ts";
import { isBusy, toKilnError } from "./failure.ts";

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

/** The path of a database that lives in the memory of this process. */
export const IN_MEMORY = ":memory:";

/**
 * Waits between tries for a lock: 1 ms, doubling up to this. Short, because another process that writes without pause lets
 * go of the lock only for moments; only one call of a connection tries at a time, so that waiting costs next to nothing.
 */
const LONGEST_WAIT = 4;
const NOTHING = (): void => {};

/** How long a call waits for a lock before it throws `store_busy`. */
const BUSY_LIMIT = 10_000;

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
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, Statement>();
  readonly #closed = new AbortController();
  /** Ends when the write that was called last has ended; null when none is under way. */
  #lastWrite: Promise<void> | null = null;

  /** `path` must have been through `checkFile`. @throws StoreError */
  constructor(path: string, runtime: Runtime) {
    const file = path === IN_MEMORY ? path : resolve(path);
    try {
      // With a timeout SQLite would sleep inside the call and block the event loop.
      this.#db = new DatabaseSync(file, { timeout: 0, enableForeignKeyConstraints: false });
    } catch (error) {
      throw toKilnError(error, file);
    }
    this.runtime = runtime;
    this.path = this.#db.location() ?? IN_MEMORY;
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
    this.#db.exec(sql);
  }

  /** Grows when another connection has committed something. @throws StoreError */
  dataVersion(): number {
    return this.#checked(() => this.get<[number]>("PRAGMA data_version")?.[0] ?? 0);
  }

  /** `work` sees one state of the database. Takes no lock that others would notice. @throws StoreError */
  async read<T>(work: () => T): Promise<T> {
    return this.#retry(this.runtime.monotonic(), () => this.#transact("BEGIN", work));
  }

  /** The same without waiting for a lock. @throws StoreError, `store_busy` at once */
  readNow<T>(work: () => T): T {
    return this.#checked(() => this.#transact("BEGIN", work));
  }

  /**
   * `work` may write, alone; it happens wholly or not at all. It is repeated when the commit is refused, so it may have
   * no effects outside the database. Calls take effect in the order in which they are made. @throws StoreError
   */
  async write<T>(work: (tx: Transaction) => T): Promise<T> {
    const started = this.runtime.monotonic();
    const earlier = this.#lastWrite;
    const written = earlier ? earlier.then(() => this.#write(started, work)) : this.#write(started, work);
    const ended = written.then(NOTHING, NOTHING);
    this.#lastWrite = ended;
    try {
      return await written;
    } finally {
      if (this.#lastWrite === ended) this.#lastWrite = null;
    }
  }

  /** Calls that still wait for a lock throw `store_closed`. Twice is fine. */
  close(): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    this.#statements.clear();
    this.#db.close();
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
      if (this.#db.isTransaction) this.run("ROLLBACK");
      throw error;
    }
  }

  #statement(sql: string): Statement {
    const known = this.#statements.get(sql);
    if (known) return known;
    const prepared = this.#db.prepare(sql.replace(NUMBERED, "?"));
    prepared.setReturnArrays(true);
    const statement = { prepared, order: Array.from(sql.matchAll(NUMBERED), ([, number]) => Number(number) - 1) };
    this.#statements.set(sql, statement);
    return statement;
  }

  #checked<T>(call: () => T): T {
    this.assertOpen();
    try {
      return call();
    } catch (error) {
      throw toKilnError(error, this.path);
    }
  }

  /** The first try is made at once. */
  async #retry<T>(started: number, call: () => T): Promise<T> {
    for (let wait = 1; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
      this.assertOpen();
      try {
        return call();
      } catch (error) {
        if (!isBusy(error) || this.runtime.monotonic() - started >= BUSY_LIMIT) throw toKilnError(error, this.path);
      }
      await sleep(this.runtime, wait * (0.5 + this.runtime.random() / 2), this.#closed.signal);
    }
  }
}

/**
 * Refuses what can never become a database, in words that say why; SQLite would only be unable to open it.
 * @throws StoreError `store_failed` or `store_read_only`
 */
export function checkFile(path: string): void {
  if (path === IN_MEMORY) return;
  const file = resolve(path);
  const fail = (code: "store_failed" | "store_read_only", why: string): never => {
    throw new StoreError(code, `SQLite store ${file}: ${why}`);
  };
  const directory = dirname(file);
  const found = stat(file);
  if (found?.isDirectory()) fail("store_failed", "is a directory");
  if (found && !found.isFile()) fail("store_failed", "is not a file");
  if (!stat(directory)?.isDirectory()) fail("store_failed", "its directory does not exist");
  // The log and its index are files beside the database, made and removed as needed.
  if (!isWritable(directory)) fail("store_read_only", "its directory may not be written");
  if (found && !isWritable(file)) fail("store_read_only", "the file may not be written");
}

/** Undefined when there is none, or it can't be reached. */
function stat(path: string): ReturnType<typeof statSync> {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Where the write-ahead log of a database file stands. */
export function logOf(path: string): { readonly directory: string; readonly name: string } {
  return { directory: dirname(path), name: `${basename(path)}-wal` };
}
