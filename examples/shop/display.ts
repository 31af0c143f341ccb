/** What the shop looks like. */
import { styleText } from "node:util";
import { importBar } from "../import/display.ts";
import {
  bar,
  dim,
  facts,
  type Layout,
  number,
  percent,
  plainStates,
  type Shown,
  type StateTitles,
  stateLines,
} from "../shared/display.ts";
import { GATEWAY_LIMIT } from "./gateway.ts";
import type { Progress } from "./progress.ts";

/** What is shown. */
export interface View extends Progress, Shown {
  /** Orders that will have been placed in the end; null = they keep coming. */
  readonly expected: number | null;
  /** Orders that are paid in a second, lately. */
  readonly rate: number;
  /** Asked to stop. */
  readonly stopping: boolean;
}

const STATES: StateTitles = [
  ["awaiting", "awaiting"],
  ["throttled", "throttled"],
  ["enqueued", "enqueued"],
  ["processing", "processing"],
  ["scheduled", "retrying"],
  ["succeeded", "succeeded"],
  ["failed", "failed"],
];

const BAR_MAX = 30;

export const layout: Layout<View> = {
  failures: "jobs that failed last",

  table(view, width) {
    const barWidth = Math.min(width - 44, BAR_MAX);
    return [
      "",
      ...stateLines(view.jobs, STATES, width),
      "",
      `${label("orders")}${ordersBar(view, barWidth)}`,
      `${label("import")}${importBar(view.rows, barWidth)}`,
      `${label("gateway")}${gatewayFacts(view)}`,
      `${label("report")}${reportFacts(view)}`,
      `${label("")}${paceFacts(view)}`,
    ];
  },

  plain(view) {
    const { totals, expected, rows, gateway } = view;
    const paid = `${number(totals.paid)} of ${number(expected ?? totals.orders)} orders paid`;
    const imported = `import ${percent(rows.stored + rows.refused, rows.rows).trimStart()}`;
    const news = `${paid}  ${imported}  ${plainStates(view.jobs, STATES)}`;
    return [news, `gateway's busiest second ${gateway.busiestSecond}  ${view.rate.toFixed(1)} payments/s`];
  },
};

function label(text: string): string {
  return dim(`  ${text.padEnd(9)}`);
}

function ordersBar({ totals, expected }: View, width: number): string {
  const all = expected ?? totals.orders;
  const drawn = bar({ done: totals.paid, begun: totals.orders, all }, width);
  return `${drawn} ${percent(totals.paid, all)}  ${number(totals.paid)} of ${number(all)} paid`;
}

function gatewayFacts({ gateway }: View): string {
  const busiest = `busiest second ${gateway.busiestSecond} of ${GATEWAY_LIMIT}`;
  const refused = `${number(gateway.refused)} refused`;
  return facts([
    gateway.busiestSecond > GATEWAY_LIMIT ? styleText("red", busiest) : busiest,
    `${number(gateway.failed)} of ${number(gateway.requests)} failed`,
    gateway.refused > 0 ? styleText("red", refused) : refused,
  ]);
}

function reportFacts({ report }: View): string {
  if (report === null) return dim("none yet");
  const time = report.at.toTimeString().slice(0, 8);
  return facts([
    `at ${time} ${number(report.orders)} orders`,
    `${number(report.paid)} paid`,
    `${money(report.cents)} taken`,
  ]);
}

function paceFacts({ rate, stopping }: View): string {
  const pace = `${rate.toFixed(1)} payments/s`;
  return facts(stopping ? [pace, styleText("yellow", "stopping")] : [pace]);
}

function money(cents: number): string {
  return (cents / 100).toLocaleString("en-US", { minimumFractionDigits: 2 });
}
