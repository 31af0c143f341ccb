/** `npm start` as users run it: in processes of its own, some of which are killed. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { lastLine, launcher, makeDirectory } from "./support.ts";

const { start, run } = launcher("examples/shop/main.ts");

/** Changes a database behind the shop's back. */
function tamper(path: string, sql: string): void {
  const db = new DatabaseSync(path);
  db.exec(sql);
  db.close();
}

describe("npm start", { concurrency: true }, () => {
  // So few that the gateway could take all requests in one second: however slow the machine is, none is refused.
  test("--once --jobs 16 --workers 3 survives the kill of one process", async (t) => {
    const ended = await run(t, ["--once", "--jobs", "16", "--workers", "3"]);
    assert.match(ended.stdout, /^running in processes \d+, \d+, \d+$/m);
    assert.match(ended.stdout, /^killed process \d+ while it held \d+ jobs; the others take them over soon$/m);
    assert.match(ended.stdout, /^import: rows=2000 succeeded=1960 failed=40 lost=0 overlapped=0 stored=1960$/m);
    assert.match(
      lastLine(ended),
      /^orders=16 succeeded=16 failed=0 deleted=0 lost=0 duplicated_charges=0 gateway_peak=\d+$/,
    );
    assert.deepEqual({ code: ended.code, stderr: ended.stderr }, { code: 0, stderr: "" });
  });

  test("it runs until it is stopped, goes on after kill -9, and --once finds what was planted", async (t) => {
    const db = join(await makeDirectory(t), "new/shop.sqlite");
    const first = start(t, ["--db", db]);
    await first.shows(/ [1-9]\d* of \d+ orders paid/);
    first.kill("SIGKILL");
    await first.ended;

    const second = start(t, ["--db", db]);
    await second.shows(/^an earlier process was killed/m);
    await second.shows(/ [1-9]\d* of \d+ orders paid/);
    second.kill("SIGINT");
    const stopped = await second.ended;
    assert.equal(lastLine(stopped), "closed; the next start goes on from here");
    assert.deepEqual({ code: stopped.code, stderr: stopped.stderr }, { code: 0, stderr: "" });

    const good = await run(t, ["--once", "--jobs", "3", "--db", db]);
    assert.match(lastLine(good), /^orders=(\d+) succeeded=\1 failed=0 deleted=0 lost=0 duplicated_charges=0 /);
    assert.equal(good.code, 0);

    const cases: readonly (readonly [path: string, sql: string, found: RegExp])[] = [
      [
        `${db}.gateway`,
        "INSERT INTO gateway_charges (key, order_id, cents) SELECT 'again', order_id, cents FROM gateway_charges WHERE order_id = 2",
        /^orders that were charged more than once: 2$.* lost=0 duplicated_charges=1 /ms,
      ],
      [
        `${db}.gateway`,
        "DELETE FROM gateway_charges WHERE key = 'again'; UPDATE gateway_requests SET status = 429 WHERE order_id = 3",
        /^orders whose payment was refused for its rate: 3$.* lost=0 duplicated_charges=0 /ms,
      ],
      [
        db,
        "INSERT INTO shop_orders (id, customer, cents) VALUES (999, 'Ada', 100)",
        /^orders without three jobs that have ended: 999$.* lost=1 duplicated_charges=0 /ms,
      ],
    ];
    for (const [path, sql, found] of cases) {
      tamper(path, sql);
      const bad = await run(t, ["--once", "--jobs", "0", "--db", db]);
      assert.match(bad.stdout, found);
      assert.equal(bad.code, 1);
    }
  });

  test("--once says when it was stopped", async (t) => {
    const long = start(t, ["--once", "--jobs", "1000"]);
    await long.shows(/throttled [1-9]/);
    long.kill("SIGTERM");
    const stopped = await long.ended;
    assert.equal(lastLine(stopped), "stopped before all was done");
    assert.deepEqual({ code: stopped.code, stderr: stopped.stderr }, { code: 130, stderr: "" });
  });

  test("a wrong option is answered with how it is used, --help with all there is", async (t) => {
    const cases: readonly (readonly [args: string[], message: RegExp])[] = [
      [["--fast"], /^Unknown option '--fast'\nusage: npm start -- .*\n$/],
      [["--jobs", "3"], /^--jobs needs --once\nusage/],
      [["--workers", "3"], /^--workers needs --once\nusage/],
      [["--once", "--jobs", "-1"], /--jobs.*\nusage/s],
      [["--db", ":memory:"], /^--db must name a file\nusage/],
    ];
    for (const [args, message] of cases) {
      const wrong = await run(t, args);
      assert.match(wrong.stderr, message);
      assert.deepEqual({ code: wrong.code, stdout: wrong.stdout }, { code: 2, stdout: "" });
    }
    const ended = await run(t, ["--help"]);
    assert.match(ended.stdout, /^A small shop on one SQLite file.*--jobs N/s);
    assert.deepEqual({ code: ended.code, stderr: ended.stderr }, { code: 0, stderr: "" });
  });
});
