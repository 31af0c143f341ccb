/** All that happens in a run, line by line, to compare two runs that should be the same. */

import type { Checker, HistoryEvent } from "../run/history.ts";
import { type RunOptions, type RunResult, run } from "../run/run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { hashText, mix } from "../world/random.ts";
import type { Event, Micros } from "../world/world.ts";
import { describe, describeFully, laneOf } from "./describe.ts";

/** Lines between two hashes. */
export const BLOCK = 1_000;

export interface Traced {
  readonly result: RunResult;
  readonly lines: readonly string[];
}

export async function trace(scenario: Scenario, options: RunOptions): Promise<Traced> {
  const lines: string[] = [];
  const onEvent = ({ at, label, number }: Event): void => {
    lines.push(`${exactly(at)} ${label.text}#${number}`);
  };
  const recorder: Checker = { name: "trace", see: (event) => lines.push(lineOf(event)) };
  const checkers: NonNullable<RunOptions["checkers"]> = (of) => [recorder, ...(options.checkers?.(of) ?? [])];
  const result = await run(scenario, { ...options, onEvent, checkers });
  return { result, lines };
}

/** Seconds, to the microsecond: that is what the world counts in. */
const exactly = (at: Micros): string => (at / 1e6).toFixed(6);

function lineOf(event: HistoryEvent): string {
  const at = exactly(event.at);
  if (event.type !== "commit")
    return `${at}   ${"incarnation" in event ? event.incarnation : laneOf(event)} ${describe(event)}`;
  const { call, changes, error } = event;
  const how = error === undefined ? "" : ` ${String(error)}`;
  return `${at}   commit ${call.id}${how} ${changes.flatMap((change) => describeFully(change) ?? []).join("; ")}`.trimEnd();
}

/** One for each thousand lines, each of them of all lines up to there. */
export function hashesOf(lines: readonly string[]): readonly number[] {
  const hashes: number[] = [];
  let hash = 0;
  for (const [index, line] of lines.entries()) {
    hash = mix(hash, hashText(line));
    if (index % BLOCK === BLOCK - 1 || index === lines.length - 1) hashes.push(hash);
  }
  return hashes;
}

export interface Difference {
  readonly index: number;
  /** `nothing` where one of them is over. */
  readonly left: string;
  readonly right: string;
  /** What both did before. */
  readonly before: readonly string[];
}

/** Null = they are the same. */
export function firstDifference(left: readonly string[], right: readonly string[]): Difference | null {
  const most = Math.max(left.length, right.length);
  for (let index = 0; index < most; index++) {
    if (left[index] === right[index]) continue;
    const [one = "nothing", other = "nothing"] = [left[index], right[index]];
    return { index, left: one, right: other, before: left.slice(Math.max(index - 5, 0), index) };
  }
  return null;
}
