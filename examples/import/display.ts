/** What the import looks like. */
import { styleText } from "node:util";
import {
  bar,
  facts,
  type Layout,
  number,
  percent,
  plainStates,
  type Shown,
  type StateTitles,
  seconds,
  stateLines,
} from "../shared/display.ts";
import type { Progress, RowCounts } from "./progress.ts";

/** What is shown. */
export interface View extends Progress, Shown {
  /** Rows that end in a second, lately. */
  readonly rate: number;
  /** Asked to stop. */
  readonly stopping: boolean;
}

const STATES: StateTitles = [
  ["enqueued", "enqueued"],
  ["processing", "processing"],
  ["scheduled", "retrying"],
  ["succeeded", "succeeded"],
  ["failed", "failed"],
];

const BAR_MAX = 60;

export const layout: Layout<View> = {
  failures: "rows that failed last",

  table(view, width) {
    const { jobs, oldest, rate } = view;
    const details = [
      `${number(Math.round(rate))} rows/s`,
      oldest === null ? "no row is waiting" : `oldest ready row ${seconds(oldest)}`,
      ...(view.stopping ? [styleText("yellow", "stopping")] : remaining(view)),
    ];
    return [
      "",
      ...stateLines(jobs, STATES, width),
      "",
      `  ${importBar(view, Math.min(width - 34, BAR_MAX))}`,
      `  ${facts(details)}`,
    ];
  },

  plain({ jobs, rows, stored, refused, rate, oldest }) {
    const news = `${percent(stored + refused, rows)} done  ${plainStates(jobs, STATES)}`;
    const waiting = oldest === null ? "none" : seconds(oldest);
    return [news, `${number(Math.round(rate))} rows/s  oldest ready ${waiting}`];
  },
};

/** Full for what is done, shaded for what has been read but waits; `width` characters and 32 of text. */
export function importBar({ rows, read, stored, refused }: RowCounts, width: number): string {
  const done = stored + refused;
  const drawn = bar({ done, begun: read, all: rows }, width);
  return `${drawn} ${percent(done, rows)}  ${number(done)} of ${number(rows)} rows`;
}

function remaining({ rows, stored, refused, rate }: View): string[] {
  const left = rows - stored - refused;
  return left > 0 && rate >= 1 ? [`about ${number(Math.ceil(left / rate))} s left`] : [];
}
