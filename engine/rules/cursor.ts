/** Page cursors: the sort key of the last job of a page, opaque to users. */
import { invalid } from "../problems.ts";

export function encodeCursor(key: readonly number[]): string {
  return Buffer.from(JSON.stringify(key)).toString("base64url");
}

/** @throws InvalidError for anything but a cursor of `length` numbers. */
export function decodeCursor(cursor: string, length: number): number[] {
  try {
    const key: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    if (Array.isArray(key) && key.length === length && key.every(Number.isFinite)) return key as number[];
  } catch {
    // Not JSON: refused below like any other wrong text.
  }
  throw invalid("bad query", "cursor", cursor, "must be the `next` of a page of the same query");
}
