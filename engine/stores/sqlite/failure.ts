/** What SQLite and Node say went wrong, as the errors that a store may throw. */
import { KilnError, StoreError, type StoreErrorCode } from "../../errors.ts";

/** Primary result codes of SQLite; an extended code has one of these in its low byte. */
const SQLITE = {
  PERM: 3,
  BUSY: 5,
  LOCKED: 6,
  READONLY: 8,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  PROTOCOL: 15,
  NOTADB: 26,
} as const;

const CODES: ReadonlyMap<number, StoreErrorCode> = new Map([
  [SQLITE.PERM, "store_read_only"],
  [SQLITE.BUSY, "store_busy"],
  [SQLITE.LOCKED, "store_busy"],
  [SQLITE.READONLY, "store_read_only"],
  [SQLITE.IOERR, "store_unavailable"],
  [SQLITE.CORRUPT, "store_corrupt"],
  [SQLITE.FULL, "store_full"],
  [SQLITE.CANTOPEN, "store_unavailable"],
  // The start of a read lost too many races against other connections.
  [SQLITE.PROTOCOL, "store_busy"],
  [SQLITE.NOTADB, "store_corrupt"],
]);

/** `error` as the engine knows it. Errors of kiln stay as they are. */
export function toKilnError(error: unknown, path: string): KilnError {
  if (error instanceof KilnError) return error;
  const code = CODES.get(primaryCode(error)) ?? "store_failed";
  const message = error instanceof Error ? error.message : String(error);
  return new StoreError(code, `SQLite store ${path}: ${message}`, { cause: error });
}

/** True when the call would have to wait for another connection's lock. */
export function isBusy(error: unknown): boolean {
  return CODES.get(primaryCode(error)) === "store_busy" && !isStale(error);
}

/** Extended: the connection still reads an earlier state, which waiting does not change. */
const BUSY_SNAPSHOT = 517;

/** True when the connection can't write because something that it has not finished reading is no longer the latest. */
export function isStale(error: unknown): boolean {
  return errorCode(error instanceof StoreError ? error.cause : error) === BUSY_SNAPSHOT;
}

function primaryCode(error: unknown): number {
  return errorCode(error) & 0xff;
}

function errorCode(error: unknown): number {
  return error instanceof Error && "errcode" in error && typeof error.errcode === "number" ? error.errcode : 0;
}
