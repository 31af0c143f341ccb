/** What a failed run looked like: a line that can be searched for, then what matters of its events, in lanes. */

import type { HistoryEvent } from "../run/history.ts";
import type { PlainFailure } from "../run/run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { describe, describeChange, laneOf, secondsOf } from "./describe.ts";

export interface Headline {
  readonly store: string;
  /** Null = unknown. */
  readonly commit: string | null;
  /** How it got so small, for example `11 faults → 2, 9 jobs → 1 (97 runs)`; null when it was not made smaller. */
  readonly shrunk: string | null;
  /** The command that shows it again. */
  readonly replay: string;
}

/** More lines are left out, the earliest first. */
const MOST_LINES = 60;
const WIDTH = 34;
const TIME_WIDTH = 10;

/** For example `FAIL S3 a late result was accepted  job=7  seed=19  commit=ab12  store=sqlite  …`. */
export function headline({ invariant, message, job }: PlainFailure, { seed }: Scenario, head: Headline): string {
  const parts = [`FAIL ${invariant} ${message}`];
  if (job !== null) parts.push(`job=${job}`);
  parts.push(`seed=${seed}`, `commit=${head.commit?.slice(0, 12) ?? "unknown"}`, `store=${head.store}`);
  if (head.shrunk !== null) parts.push(`shrunk ${head.shrunk}`);
  parts.push(`replay: ${head.replay}`);
  return parts.join("  ").replaceAll("\n", " ");
}

/** `all`: nothing is left out. */
export function timeline(
  failure: PlainFailure,
  scenario: Scenario,
  history: readonly HistoryEvent[],
  all = false,
): string {
  const { job } = failure;
  const relevant = all || job === null ? history : relevantTo(job, history);
  const shown = all ? relevant : relevant.slice(-MOST_LINES);
  const lanes = ["database", ...scenario.servers.map((_, index) => `n${index}`), "client"];
  const used = lanes.filter((lane) => shown.some((event) => laneOf(event) === lane));
  const lines = [
    row(
      "t",
      used.map((lane) => lane),
    ),
  ];
  if (shown.length < relevant.length) lines.push(`  … ${relevant.length - shown.length} earlier lines`);
  for (const event of shown) {
    const text = all || job === null ? describe(event) : about(job, event);
    lines.push(
      row(
        secondsOf(event.at),
        used.map((lane) => (lane === laneOf(event) ? text : "")),
      ),
    );
  }
  lines.push(row((failure.at / 1e3).toFixed(3), [`✗ ${failure.message}`]));
  return lines.join("\n");
}

/** What happened to the job and to the servers that ran it, and all that went wrong there. */
function relevantTo(job: number, history: readonly HistoryEvent[]): readonly HistoryEvent[] {
  const touches = (event: HistoryEvent): boolean => {
    if (event.type === "commit") return event.changes.some(({ id }) => id === job);
    return "job" in event && event.job === job;
  };
  const lanes = new Set(["database"]);
  for (const event of history) {
    if (!touches(event)) continue;
    lanes.add(laneOf(event));
    if (event.type === "commit") lanes.add(event.call.from.process.name);
  }
  return history.filter(
    (event) => touches(event) || (["fault", "up", "down"].includes(event.type) && lanes.has(laneOf(event))),
  );
}

/** Of a call that changed many jobs, only what it did to this one. */
function about(job: number, event: HistoryEvent): string {
  if (event.type !== "commit") return describe(event);
  const { call, changes } = event;
  const mine = changes.filter(({ id }) => id === job).map(describeChange);
  return [`${call.from.name} ${call.op}`, ...mine].join("; ");
}

/** A text that is too long for its lane goes on into the next ones. */
function row(time: string, lanes: readonly string[]): string {
  const cells = lanes.map((text) => (text.length < WIDTH ? text.padEnd(WIDTH) : `${text} `));
  return `  ${time.padStart(TIME_WIDTH)}  ${cells.join("")}`.trimEnd();
}
