import assert from "node:assert/strict";
import { test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { PlainDisplay, renderTable } from "../../examples/shared/display.ts";
import { layout, type View } from "../../examples/shop/display.ts";

const VIEW: View = {
  totals: { orders: 210, paid: 150, cents: 1_234_550 },
  gateway: { requests: 190, failed: 31, refused: 0, busiestSecond: 18 },
  rows: { rows: 2_000, read: 1_500, stored: 980, refused: 20 },
  report: { at: new Date(2026, 10, 29, 18, 5, 10), orders: 180, paid: 120, cents: 900_000 },
  jobs: {
    ...{ awaiting: 120, scheduled: 3, throttled: 57, enqueued: 480, processing: 10, succeeded: 1_280, failed: 20 },
    ...{ deleted: 0, retries: 3, capped: false },
  },
  ...{ idle: false, drained: false, stopping: false, expected: 300, rate: 12.04, elapsed: 2_500 },
  failures: ["row 17: e-mail address is missing"],
};

function table(view: View, width = 79): string[] {
  return renderTable(layout, view, width).map((line) => stripVTControlCharacters(line));
}

test("the table", () => {
  assert.deepEqual(table(VIEW), [
    "",
    "   awaiting  throttled   enqueued processing   retrying  succeeded     failed",
    "        120         57        480         10          3      1,280         20",
    "",
    `  orders   ${"█".repeat(15)}${"▒".repeat(6)}${"░".repeat(9)}  50 %  150 of 300 paid`,
    `  import   ${"█".repeat(15)}${"▒".repeat(8)}${"░".repeat(7)}  50 %  1,000 of 2,000 rows`,
    "  gateway  busiest second 18 of 20  ·  31 of 190 failed  ·  0 refused",
    "  report   at 18:05:10 180 orders  ·  120 paid  ·  9,000.00 taken",
    "           12.0 payments/s",
    "",
    "  ✗ row 17: e-mail address is missing",
  ]);
});

test("the table of a shop that is open for as long as it is, before its first report, and when it closes", () => {
  const text = table({ ...VIEW, expected: null, report: null, stopping: true }).join("\n");
  assert.match(text, /71 % {2}150 of 210 paid/);
  assert.match(text, /report {3}none yet/);
  assert.match(text, /12\.0 payments\/s {2}· {2}stopping/);
});

test("the table fits into any width", () => {
  for (const width of [1, 20, 60, 79, 200]) {
    for (const line of table(VIEW, width)) assert.ok(line.length <= width, `${width}: ${line}`);
  }
});

test("plain lines", () => {
  const lines: string[] = [];
  const display = new PlainDisplay(layout, (line) => lines.push(line));
  display.show(VIEW);
  display.close();
  assert.deepEqual(lines, [
    " 2.5 s  150 of 300 orders paid  import 50 %  awaiting 120  throttled 57  enqueued 480  processing 10  retrying 3  " +
      "succeeded 1,280  failed 20  gateway's busiest second 18  12.0 payments/s",
    "jobs that failed last:",
    "  row 17: e-mail address is missing",
  ]);
});
