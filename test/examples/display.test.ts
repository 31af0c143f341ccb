import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { layout, type View } from "../../examples/import/display.ts";
import { makeDisplay, PlainDisplay, Rate, renderTable } from "../../examples/shared/display.ts";

const VIEW: View = {
  ...{ rows: 2_000, read: 1_500, stored: 980, refused: 20, oldest: 1_234, drained: false, stopping: false },
  jobs: {
    awaiting: 0,
    scheduled: 3,
    throttled: 0,
    enqueued: 480,
    processing: 10,
    succeeded: 980,
    failed: 20,
    deleted: 0,
    retries: 3,
    capped: false,
  },
  ...{ failures: ["row 17: e-mail address is missing"], rate: 412.4, elapsed: 2_500 },
};

test("the table", () => {
  const lines = renderTable(layout, VIEW, 79).map(stripVTControlCharacters);
  assert.deepEqual(lines, [
    "",
    "  jobs     enqueued processing   retrying  succeeded     failed",
    "                480         10          3        980         20",
    "",
    `  ${"█".repeat(23)}${"▒".repeat(11)}${"░".repeat(11)}  50 %  1,000 of 2,000 rows`,
    "  412 rows/s  ·  oldest ready row 1.2 s  ·  about 3 s left",
    "",
    "  ✗ row 17: e-mail address is missing",
  ]);
});

test("the table fits into any width, also with characters that take two columns", () => {
  for (const width of [1, 20, 40, 63, 64, 200]) {
    for (const line of renderTable(layout, { ...VIEW, failures: ["漢".repeat(100)] }, width)) {
      const text = stripVTControlCharacters(line);
      assert.ok(text.length + text.replaceAll(/[^漢]/g, "").length <= width, `${width}: ${text}`);
    }
  }
});

test("the table of an import that is over, or about to stop", () => {
  const jobs = { ...VIEW.jobs, enqueued: 0 };
  const over = renderTable(layout, { ...VIEW, jobs, read: 2_000, stored: 1_980, oldest: null }, 79).join("\n");
  assert.match(over, /100 % {2}2,000 of 2,000 rows/);
  assert.match(over, /no row is waiting$/m);
  assert.match(renderTable(layout, { ...VIEW, stopping: true }, 79).join("\n"), /stopping/);
});

test("plain lines: one a second, only what is new, and the end at once", () => {
  const lines: string[] = [];
  const display = new PlainDisplay(layout, (line) => lines.push(line));
  const first =
    " 2.5 s   50 % done  enqueued 480  processing 10  retrying 3  succeeded 980  failed 20  412 rows/s  oldest ready 1.2 s";
  display.show(VIEW);
  display.show({ ...VIEW, elapsed: 2_900, stored: 1_100 });
  display.show({ ...VIEW, elapsed: 4_000 });
  display.show({ ...VIEW, elapsed: 5_000, stored: 1_100, oldest: null });
  display.line("a line");
  display.show({ ...VIEW, elapsed: 5_100, stored: 1_980, drained: true });
  display.close();
  assert.deepEqual(lines, [
    first,
    first.replace("2.5 s   50", "5.0 s   56").replace("ready 1.2 s", "ready none"),
    "a line",
    first.replace("2.5 s   50", "5.1 s  100"),
    "rows that failed last:",
    "  row 17: e-mail address is missing",
  ]);
});

describe("where lines are plain", () => {
  const terminal = { isTTY: true, columns: 80, write: () => true } as unknown as NodeJS.WriteStream;
  const pipe = { write: () => true } as unknown as NodeJS.WriteStream;
  const isPlain = (stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv): boolean =>
    makeDisplay(layout, stream, env) instanceof PlainDisplay;
  test("not in a terminal", () => assert.equal(isPlain(terminal, { TERM: "xterm" }), false));
  test("without one", () => assert.equal(isPlain(pipe, {}), true));
  for (const env of [{ NO_COLOR: "1" }, { CI: "true" }, { TERM: "dumb" }]) {
    test(`with ${JSON.stringify(env)}`, () => assert.equal(isPlain(terminal, env), true));
  }
});

test("the table is drawn over the one before, and a line stands above it", () => {
  let written = "";
  const write = (text: string): boolean => {
    written += text;
    return true;
  };
  const display = makeDisplay(layout, { isTTY: true, columns: 80, write } as unknown as NodeJS.WriteStream, {
    TERM: "xterm",
  });
  display.show(VIEW);
  const table = written;
  const height = table.split("\n").length - 1;
  const back = `\u001b[${height}A\u001b[1G\u001b[0J`;
  written = "";
  display.show(VIEW);
  display.line("a line");
  display.close();
  display.line("the end");
  assert.equal(written, `${back}${table}${back}a line\n${table}the end\n`);
});

test("the rate counts the last few seconds", () => {
  const rate = new Rate();
  assert.equal(rate.add(100, 0), 0);
  assert.equal(rate.add(600, 1_000), 500);
  assert.equal(rate.add(600, 3_000), 500 / 3);
  assert.equal(rate.add(600, 10_000), 0);
});
