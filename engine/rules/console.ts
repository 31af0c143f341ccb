/** Log lines and progress: what becomes of whatever a handler passes, and what every store refuses. */
import { Problems } from "../problems.ts";
import type { ConsoleEntry, ConsoleQuery } from "../store.ts";
import { CONSOLE, PROGRESS } from "./limits.ts";
import { cutText, shown } from "./text.ts";
import { CLEAN_RULE, isClean } from "./values.ts";

/** Stands in place of the first line that is one too many. */
export const TRUNCATED = `[console truncated: an attempt keeps ${CONSOLE.maxLines} lines]`;

/** A message as a line that every store takes: without one newline at its end, cleaned and cut. Never throws. */
export function consoleLine(message: unknown): string {
  const text = typeof message === "string" ? message : shown(message);
  return cutText(text.endsWith("\n") ? text.slice(0, -1) : text, CONSOLE.lineMaxBytes);
}

/** `value` as percent, moved into 0 to 100; null when it is no number. */
export function percentOf(value: unknown): number | null {
  if (typeof value !== "number" || Number.isNaN(value)) return null;
  return Math.min(Math.max(value, PROGRESS.min), PROGRESS.max);
}

/** @throws InvalidError naming `lines[position]` of every bad line */
export function checkConsoleEntry({ lines, progress }: ConsoleEntry): void {
  const problems = new Problems();
  lines.forEach((line, index) => {
    const field = `lines[${index}]`;
    if (!isClean(line)) problems.add(field, line, CLEAN_RULE);
    else if (Buffer.byteLength(line) > CONSOLE.lineMaxBytes) {
      problems.add(field, line, `must be at most ${CONSOLE.lineMaxBytes} bytes`);
    }
  });
  if (progress !== null && percentOf(progress) !== progress) {
    problems.add("progress", progress, `must be a number from ${PROGRESS.min} to ${PROGRESS.max}`);
  }
  problems.end("can't write to the console");
}

/** The query with its defaults. @throws InvalidError */
export function checkConsoleQuery({
  id,
  after = 0,
  limit = CONSOLE.page.default,
}: ConsoleQuery): Required<ConsoleQuery> {
  const problems = new Problems();
  if (!(Number.isSafeInteger(after) && after >= 0)) problems.add("after", after, "must be an integer of at least 0");
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= CONSOLE.page.max)) {
    problems.add("limit", limit, `must be an integer from 1 to ${CONSOLE.page.max}`);
  }
  problems.end("can't read the console");
  return { id, after, limit };
}
