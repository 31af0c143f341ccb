/**
 * The tables of the application, in the same file as kiln's jobs: imports, the records that they give, and a log of every
 * run of a row, by which the final check proves that no row was run by two processes at once.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import type { JobId } from "kiln";
import type { CsvFile } from "./csv.ts";
import type { ImportRecord } from "./records.ts";

export interface Import extends CsvFile {
  readonly id: number;
  /** The job that reads the file; null = it was not enqueued yet. */
  readonly jobId: JobId | null;
}

/** One row of an import; row 0 stands for the reading of the file itself. */
export interface RowKey {
  readonly importId: number;
  readonly row: number;
}

export interface LogEntry extends RowKey {
  /** `death`: the process is known to be dead, and all that it was running has ended. */
  readonly event: "start" | "end" | "death";
  /** Id of the process in `import_workers`. */
  readonly worker: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS import_files (
    id           INTEGER PRIMARY KEY,
    sha256       TEXT NOT NULL UNIQUE,
    path         TEXT NOT NULL,
    size         INTEGER NOT NULL,
    modified     INTEGER NOT NULL,
    delimiter    TEXT NOT NULL,
    columns      TEXT NOT NULL,
    start        INTEGER NOT NULL,
    rows         INTEGER NOT NULL,
    job_id       INTEGER
  ) STRICT;

  CREATE TABLE IF NOT EXISTS import_records (
    import_id INTEGER NOT NULL,
    row       INTEGER NOT NULL,
    data      TEXT NOT NULL,
    PRIMARY KEY (import_id, row)
  ) STRICT;

  -- In which row of the file each customer id is first.
  CREATE TABLE IF NOT EXISTS import_customer_ids (
    import_id   INTEGER NOT NULL,
    customer_id TEXT NOT NULL,
    row         INTEGER NOT NULL,
    PRIMARY KEY (import_id, customer_id)
  ) STRICT, WITHOUT ROWID;

  -- The one job that works on a row. A process that is killed between enqueueing some rows and saving its checkpoint leaves
  -- jobs that its successor enqueues again; the second job of a row finds the first one here and does nothing.
  CREATE TABLE IF NOT EXISTS import_row_jobs (
    import_id INTEGER NOT NULL,
    row       INTEGER NOT NULL,
    job_id    INTEGER NOT NULL,
    PRIMARY KEY (import_id, row)
  ) STRICT, WITHOUT ROWID;

  -- Numbers of entries are in the order in which all processes wrote them, which no clock could promise.
  CREATE TABLE IF NOT EXISTS import_runs (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    event     TEXT NOT NULL,
    worker    INTEGER NOT NULL,
    import_id INTEGER NOT NULL DEFAULT 0,
    row       INTEGER NOT NULL DEFAULT 0
  ) STRICT;

  CREATE TABLE IF NOT EXISTS import_workers (
    id   INTEGER PRIMARY KEY,
    pid  INTEGER NOT NULL,
    dead INTEGER NOT NULL DEFAULT 0
  ) STRICT;
`;

/** Longest wait for another process's write, milliseconds; writes here take less than one. */
const BUSY_LIMIT = 10_000;
const SQLITE_BUSY = 5;

export class Storage {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  private constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Opens a database that kiln has opened before, so that it is known to be one. */
  static async open(path: string): Promise<Storage> {
    // SQLite blocks the event loop while it waits for others, so it may do so for a moment only; see `#write`.
    const storage = new Storage(new DatabaseSync(path, { timeout: 20 }));
    // Commits need not wait for the disk here: the log is one for the whole file, so when kiln's own commits that come
    // after them reach the disk, these have too.
    storage.#db.exec("PRAGMA synchronous = NORMAL");
    await storage.#write(() => storage.#db.exec(SCHEMA));
    return storage;
  }

  close(): void {
    this.#db.close();
  }

  // ------------------------------------------------------------------------------------------------------- imports

  /** Adds an import, or finds the one of a file with the same content, which may have been moved or touched. */
  addImport(file: CsvFile): Promise<Import> {
    return this.#write(() => {
      const { sha256, path, size, modified, delimiter, columns, start, rows } = file;
      this.#run(
        `INSERT INTO import_files (sha256, path, size, modified, delimiter, columns, start, rows)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (sha256) DO UPDATE SET path = excluded.path, modified = excluded.modified`,
        ...[sha256, path, size, modified, delimiter, JSON.stringify(columns), start, rows],
      );
      return readImport(this.#get("SELECT * FROM import_files WHERE sha256 = ?", sha256));
    });
  }

  setImportJob(id: number, jobId: JobId): Promise<void> {
    return this.#write(() => this.#run("UPDATE import_files SET job_id = ? WHERE id = ?", jobId, id));
  }

  imports(): Import[] {
    return this.#all("SELECT * FROM import_files ORDER BY id").map(readImport);
  }

  /** @throws Error when there is none */
  import(id: number): Import {
    return readImport(this.#get("SELECT * FROM import_files WHERE id = ?", id));
  }

  // ------------------------------------------------------------------------------------------------------- records

  /** Remembers in which row each customer id is first. Rows must come in order; again is fine. */
  addCustomerIds(
    importId: number,
    ids: readonly { readonly customerId: string; readonly row: number }[],
  ): Promise<void> {
    const sql = "INSERT INTO import_customer_ids (import_id, customer_id, row) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    return this.#write(() => {
      for (const { customerId, row } of ids) this.#run(sql, importId, customerId, row);
    });
  }

  firstRowOf(importId: number, customerId: string): number | undefined {
    const found = this.#get(
      "SELECT row FROM import_customer_ids WHERE import_id = ? AND customer_id = ?",
      importId,
      customerId,
    );
    return found === undefined ? undefined : Number(found["row"]);
  }

  recordCount(): number {
    return Number(this.#get("SELECT count(*) AS count FROM import_records")?.["count"]);
  }

  /** Rows that have a record, ascending. */
  storedRows(importId: number): number[] {
    return this.#all("SELECT row FROM import_records WHERE import_id = ? ORDER BY row", importId).map(({ row }) =>
      Number(row),
    );
  }

  // ---------------------------------------------------------------------------------------------------------- runs

  /**
   * Notes that a run of the row begins. False = another job has the row, and this one must leave it alone.
   */
  startRun({ importId, row }: RowKey, jobId: JobId, worker: number): Promise<boolean> {
    return this.#write(() => {
      const insert = "INSERT INTO import_row_jobs (import_id, row, job_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
      this.#run(insert, importId, row, jobId);
      if (this.rowJob({ importId, row }) !== jobId) return false;
      this.#log({ event: "start", worker, importId, row });
      return true;
    });
  }

  /** Notes that the run has ended and, when it made a record, stores that, both or neither. */
  endRun({ importId, row }: RowKey, worker: number, record: ImportRecord | null): Promise<void> {
    return this.#write(() => {
      const insert = "INSERT INTO import_records (import_id, row, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
      if (record !== null) this.#run(insert, importId, row, JSON.stringify(record));
      this.#log({ event: "end", worker, importId, row });
    });
  }

  /** The job that works, or worked, on the row. */
  rowJob({ importId, row }: RowKey): JobId | undefined {
    const found = this.#get("SELECT job_id FROM import_row_jobs WHERE import_id = ? AND row = ?", importId, row);
    return found === undefined ? undefined : Number(found["job_id"]);
  }

  /** All runs of the import's rows, and the deaths of processes, in order. */
  *runLog(importId: number): Generator<LogEntry> {
    const sql = "SELECT event, worker, import_id, row FROM import_runs WHERE import_id IN (?, 0) ORDER BY number";
    for (const row of this.#statement(sql).iterate(importId)) {
      const event = row["event"] as LogEntry["event"];
      yield { event, worker: Number(row["worker"]), importId: Number(row["import_id"]), row: Number(row["row"]) };
    }
  }

  // ------------------------------------------------------------------------------------------------------- workers

  /** Makes this process known as one that runs jobs; returns its id. */
  addWorker(pid: number): Promise<number> {
    return this.#write(() =>
      Number(this.#get("INSERT INTO import_workers (pid) VALUES (?) RETURNING id", pid)?.["id"]),
    );
  }

  /** Processes that are not known to be dead. */
  workers(): { readonly id: number; readonly pid: number }[] {
    return this.#all("SELECT id, pid FROM import_workers WHERE dead = 0").map(({ id, pid }) => ({
      id: Number(id),
      pid: Number(pid),
    }));
  }

  /** To be called once the process is certain to be dead, or will run no more jobs. */
  noteDeath(worker: number): Promise<void> {
    return this.#write(() => {
      this.#run("UPDATE import_workers SET dead = 1 WHERE id = ?", worker);
      this.#log({ event: "death", worker, importId: 0, row: 0 });
    });
  }

  #log({ event, worker, importId, row }: LogEntry): void {
    this.#run(
      "INSERT INTO import_runs (event, worker, import_id, row) VALUES (?, ?, ?, ?)",
      event,
      worker,
      importId,
      row,
    );
  }

  // -------------------------------------------------------------------------------------------------------- access

  /** Runs `work` alone; tries again without blocking while another process writes. */
  async #write<T>(work: () => T): Promise<T> {
    const started = performance.now();
    for (let wait = 1; ; wait = Math.min(wait * 2, 32)) {
      try {
        return this.#transact(work);
      } catch (error) {
        if (!isBusy(error) || performance.now() - started > BUSY_LIMIT) throw error;
      }
      await sleep(wait * Math.random());
    }
  }

  #transact<T>(work: () => T): T {
    this.#run("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.#run("COMMIT");
      return result;
    } catch (error) {
      if (this.#db.isTransaction) this.#run("ROLLBACK");
      throw error;
    }
  }

  #statement(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const statement = this.#db.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }

  #run(sql: string, ...params: SQLInputValue[]): void {
    this.#statement(sql).run(...params);
  }

  #get(sql: string, ...params: SQLInputValue[]): Row | undefined {
    return this.#statement(sql).get(...params);
  }

  #all(sql: string, ...params: SQLInputValue[]): Row[] {
    return this.#statement(sql).all(...params);
  }
}

type Row = ReturnType<StatementSync["all"]>[number];

function readImport(row: Row | undefined): Import {
  if (row === undefined) throw new Error("there is no such import in the database");
  const text = (name: string): string => String(row[name]);
  const number = (name: string): number => Number(row[name]);
  return {
    ...{ id: number("id"), jobId: row["job_id"] === null ? null : number("job_id") },
    ...{ path: text("path"), size: number("size"), modified: number("modified"), sha256: text("sha256") },
    ...{ delimiter: text("delimiter"), columns: JSON.parse(text("columns")) as string[] },
    ...{ start: number("start"), rows: number("rows") },
  };
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY;
}
