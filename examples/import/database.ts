/** The one SQLite file that has both kiln's jobs and the application's tables. */
import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client, KilnError, type Store } from "kiln";
import { SqliteStore } from "kiln/sqlite";
import { UserError } from "./problem.ts";
import { Storage } from "./storage.ts";

export interface Database {
  readonly path: string;
  readonly store: Store;
  readonly client: Client;
  readonly storage: Storage;
  close(): Promise<void>;
}

/** Opens the file, or makes it and its directory. @throws UserError */
export async function openDatabase(path: string): Promise<Database> {
  const store = await openStore(path);
  const storage = await Storage.open(path);
  return {
    ...{ path, store, storage, client: new Client(store) },
    async close() {
      storage.close();
      await store.close();
    },
  };
}

async function openStore(path: string): Promise<Store> {
  try {
    await mkdir(dirname(path), { recursive: true });
    return await SqliteStore.open({ path });
  } catch (error) {
    if (error instanceof KilnError) throw new UserError(error.message);
    if (error instanceof Error && "syscall" in error) throw new UserError(`can't make the database: ${error.message}`);
    throw error;
  }
}

/** Removes the database, if it is one of this program's and nobody uses it. @throws UserError */
export async function removeDatabase(path: string): Promise<void> {
  if (!existsSync(path)) return;
  const { strangers, pids } = lookInside(path);
  if (strangers === null) throw new UserError(`${path} is not a database of this program; it was not removed`);
  if (strangers.length > 0) throw new UserError(`${path} has other tables too (${strangers[0]}); it was not removed`);
  const user = pids.find((pid) => pid !== process.pid && isAlive(pid));
  if (user !== undefined) throw new UserError(`${path} is in use by process ${user}; it was not removed`);
  for (const suffix of ["-wal", "-shm", ""]) await rm(`${path}${suffix}`, { force: true });
}

/** Tables of others, null when there are none of this program's, and the processes that may be using the file. */
function lookInside(path: string): { readonly strangers: readonly string[] | null; readonly pids: readonly number[] } {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true });
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    const names = tables.map(({ name }) => String(name));
    if (!names.includes("import_workers")) return { strangers: null, pids: [] };
    const workers = db.prepare("SELECT pid FROM import_workers WHERE dead = 0").all();
    const strangers = names.filter((name) => !/^(kiln|import|sqlite)_/.test(name));
    return { strangers, pids: workers.map(({ pid }) => Number(pid)) };
  } catch {
    return { strangers: null, pids: [] };
  } finally {
    db?.close();
  }
}

/**
 * Writes down the deaths of processes that ended without doing so themselves. Returns how many there were.
 */
export async function noteDeaths(storage: Storage): Promise<number> {
  // One with the number of this process, which has only just begun, can't be living either.
  const dead = storage.workers().filter(({ pid }) => pid === process.pid || !isAlive(pid));
  for (const { id } of dead) await storage.noteDeath(id);
  return dead.length;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Alive, but someone else's.
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
