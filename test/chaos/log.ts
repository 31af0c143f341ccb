/** What a worker writes down of its runs, and how that is read. One line is one write, so a kill leaves no half line. */
import { readFileSync, writeSync } from "node:fs";
import type { JobId } from "../../engine/store.ts";
import type { Run, RunEnd } from "./verdict.ts";

export type Line =
  | { readonly type: "start"; readonly id: JobId; readonly attempt: number; readonly at: number }
  | { readonly type: "end"; readonly id: JobId; readonly attempt: number; readonly at: number; readonly how: RunEnd }
  /** The worker's server had to start over under a new id. */
  | { readonly type: "declared dead" };

/** Milliseconds of a clock that all processes of a machine share. */
export function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** `fd` is of a file that was opened for appending. */
export function writeLine(fd: number, line: Line): void {
  writeSync(fd, `${JSON.stringify(line)}\n`);
}

export function readLines(file: string): Line[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((text) => text !== "")
    .map((text) => JSON.parse(text) as Line);
}

/** Runs that have not ended count as killed at `killedAt`. */
export function toRuns(process: string, lines: readonly Line[], killedAt: number): Run[] {
  const open = new Map<string, Run>();
  const ended: Run[] = [];
  for (const line of lines) {
    if (line.type === "declared dead") continue;
    const { id, attempt, at } = line;
    const key = `${id}:${attempt}`;
    if (line.type === "start") {
      open.set(key, { id, attempt, process, start: at, end: killedAt, how: "killed" });
      continue;
    }
    const run = open.get(key);
    if (run === undefined) throw new Error(`${process}: job ${id} ended attempt ${attempt} without a start`);
    open.delete(key);
    ended.push({ ...run, end: at, how: line.how });
  }
  return [...ended, ...open.values()];
}
