/** The files of a database. */
import { accessSync, constants, statSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { StoreError } from "../../errors.ts";

/** The path of a database that lives in the memory of this process. */
export const IN_MEMORY = ":memory:";

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
