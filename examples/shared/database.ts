/** The one SQLite file that has both kiln's jobs and the application's tables. */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { KilnError } from "kiln";
import { SqliteStore } from "kiln/sqlite";
import { UserError } from "./problem.ts";

export interface Place {
  /** Of the database, if the user has named one. */
  readonly db: string | null;
  readonly once: boolean;
  /** Where it is otherwise. */
  readonly usual: string;
}

/** Calls `work` with the path of the database: a temporary one with `once`, if none is named. Returns the exit code. */
export async function withDatabase(
  { db, once, usual }: Place,
  work: (path: string) => Promise<number>,
): Promise<number> {
  if (db !== null || !once) return work(resolve(db ?? usual));
  const directory = await mkdtemp(join(tmpdir(), "kiln-example-"));
  const code = await work(join(directory, basename(usual)));
  // Unless something is wrong, which can be looked up there.
  if (code !== 1) await rm(directory, { recursive: true });
  return code;
}

/** Relative to the working directory, if it is below that. */
export function shortPath(path: string): string {
  const fromHere = relative("", path);
  return fromHere.startsWith("..") ? path : fromHere;
}

/** Opens the file, or makes it and its directory. @throws UserError */
export async function openStore(path: string): Promise<SqliteStore> {
  try {
    await mkdir(dirname(path), { recursive: true });
    return await SqliteStore.open({ path });
  } catch (error) {
    if (error instanceof KilnError) throw new UserError(error.message);
    if (error instanceof Error && "syscall" in error) throw new UserError(`can't make the database: ${error.message}`);
    throw error;
  }
}

/**
 * Removes the database, if it is one of this program's and nobody uses it. `own` is what all of its tables are named like.
 * @throws UserError
 */
export async function removeDatabase(path: string, own: RegExp): Promise<void> {
  if (!existsSync(path)) return;
  const { strangers, pids } = lookInside(path, own);
  if (strangers === null) throw new UserError(`${path} is not a database of this program; it was not removed`);
  if (strangers.length > 0) throw new UserError(`${path} has other tables too (${strangers[0]}); it was not removed`);
  const user = pids.find((pid) => pid !== process.pid && isAlive(pid));
  if (user !== undefined) throw new UserError(`${path} is in use by process ${user}; it was not removed`);
  await removeFile(path);
}

/** Removes a SQLite file. */
export async function removeFile(path: string): Promise<void> {
  for (const suffix of ["-wal", "-shm", ""]) await rm(`${path}${suffix}`, { force: true });
}

interface Found {
  /** Tables of others; null when there are none of this program's. */
  readonly strangers: readonly string[] | null;
  /** Processes that may be using the file. */
  readonly pids: readonly number[];
}

function lookInside(path: string, own: RegExp): Found {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true });
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    const names = tables.map(({ name }) => String(name));
    if (!names.includes("import_workers")) return { strangers: null, pids: [] };
    const workers = db.prepare("SELECT pid FROM import_workers WHERE dead = 0").all();
    return { strangers: names.filter((name) => !own.test(name)), pids: workers.map(({ pid }) => Number(pid)) };
  } catch {
    return { strangers: null, pids: [] };
  } finally {
    db?.close();
  }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Alive, but someone else's.
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
