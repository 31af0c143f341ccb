/** Log lines and progress of running jobs. They are part of the job's row, so they go when it goes. */
import { checkConsoleEntry, checkConsoleQuery } from "../../rules/console.ts";
import type { ConsoleEntry, ConsoleLine, ConsoleQuery, JobRef } from "../../store.ts";
import type { Data } from "./data.ts";
import { requireHeld } from "./finish.ts";

export function writeConsole(data: Data, ref: JobRef, entry: ConsoleEntry): void {
  checkConsoleEntry(entry);
  const row = requireHeld(data, ref);
  const { attempt } = row;
  const at = new Date(data.runtime.now());
  if (entry.lines.length > 0) row.console ??= [];
  for (const text of entry.lines) row.console?.push({ seq: row.console.length + 1, attempt, at, text });
  // Adding 0 makes 0 of -0.
  if (entry.progress !== null) row.progress = entry.progress + 0;
}

export function consoleLines(data: Data, query: ConsoleQuery): ConsoleLine[] {
  const { id, after, limit } = checkConsoleQuery(query);
  // The numbers are without gaps, so that a line's place is known.
  const lines = data.jobs.get(id)?.console?.slice(after, after + limit) ?? [];
  return lines.map((line) => ({ ...line, at: new Date(line.at) }));
}
