/** `npm run import` as users run it: in processes of its own, some of which are killed. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { customers, lastLine, launcher, makeDirectory } from "./support.ts";

const { start, run } = launcher("examples/import/main.ts");

const SOME_DONE = /[1-9]\d? % done/;

describe("npm run import", { concurrency: true }, () => {
  test("--once --workers 3 survives the kill of one process", async (t) => {
    const ended = await run(t, ["--once", "--workers", "3", "--concurrency", "20"]);
    assert.equal(lastLine(ended), "rows=2000 succeeded=1960 failed=40 lost=0 overlapped=0 stored=1960");
    assert.match(ended.stdout, /^running in processes \d+, \d+, \d+$/m);
    assert.match(ended.stdout, /^killed process \d+ while it held [1-9]\d* jobs; the others take them over soon$/m);
    assert.deepEqual({ code: ended.code, stderr: ended.stderr }, { code: 0, stderr: "" });
  });

  test("after kill -9 the next start goes on, and nothing is lost", async (t) => {
    const db = join(await makeDirectory(t), "import.sqlite");
    const first = start(t, ["--db", db, "--concurrency", "4"]);
    await first.shows(SOME_DONE);
    first.kill("SIGKILL");
    assert.equal((await first.ended).signal, "SIGKILL");

    const ended = await run(t, ["--once", "--db", db, "--concurrency", "100"]);
    assert.match(ended.stdout, /^an earlier process was killed/);
    assert.equal(lastLine(ended), "rows=2000 succeeded=1960 failed=40 lost=0 overlapped=0 stored=1960");
    assert.deepEqual({ code: ended.code, stderr: ended.stderr }, { code: 0, stderr: "" });
  });

  test("SIGINT lets it finish what it is running, the next start goes on, the one after that has nothing to do", async (t) => {
    const db = join(await makeDirectory(t), "new/import.sqlite");
    const first = start(t, ["--db", db, "--concurrency", "4"]);
    await first.shows(SOME_DONE);
    first.kill("SIGINT");
    const stopped = await first.ended;
    assert.deepEqual({ code: stopped.code, stderr: stopped.stderr }, { code: 0, stderr: "" });
    assert.equal(lastLine(stopped), "stopped; the next start goes on from here");

    const second = await run(t, ["--db", db, "--concurrency", "100"]);
    assert.match(lastLine(second), /^done in \S+ s: 1,960 records are in the table import_records, 40 rows failed$/);
    assert.deepEqual({ code: second.code, stderr: second.stderr }, { code: 0, stderr: "" });
    assert.doesNotMatch(second.stdout, /killed/);

    const third = await run(t, ["--db", db]);
    assert.match(
      third.stdout,
      /^nothing to do: all 2,000 rows were imported before, 1,960 are records\n--reset starts/m,
    );
    assert.equal(third.code, 0);

    const checked = await run(t, ["--once", "--db", db]);
    assert.equal(lastLine(checked), "rows=2000 succeeded=1960 failed=40 lost=0 overlapped=0 stored=1960");
    assert.equal(checked.code, 0);

    const damaged = new DatabaseSync(db);
    damaged.exec("DELETE FROM import_records WHERE row = 7");
    damaged.close();
    const found = await run(t, ["--once", "--db", db]);
    assert.match(found.stdout, /^valid rows that succeeded but are not stored: 7$/m);
    assert.equal(lastLine(found), "rows=2000 succeeded=1960 failed=40 lost=0 overlapped=0 stored=1959");
    assert.equal(found.code, 1);
  });

  test("--once with a file of one's own; it says when it was stopped", async (t) => {
    const file = join(await makeDirectory(t), "own.csv");
    await writeFile(file, `\uFEFFcolor;note\r\nred;"a;\nb"\r\n;\r\nblue\r\n`);
    const ended = await run(t, ["--once", "--file", file]);
    assert.equal(lastLine(ended), "rows=3 succeeded=1 failed=2 lost=0 overlapped=0 stored=1");
    assert.match(ended.stdout, /^ {2}row 2: all fields are empty$/m);
    assert.match(ended.stdout, /^ {2}row 3: there are 1 fields, but 2 columns$/m);
    assert.equal(ended.code, 0);

    await writeFile(file, customers(5_000));
    const long = start(t, ["--once", "--file", file, "--concurrency", "1"]);
    await long.shows(/processing [1-9]/);
    long.kill("SIGTERM");
    const stopped = await long.ended;
    assert.equal(lastLine(stopped), "stopped before the import was done");
    assert.equal(stopped.code, 130);
  });

  test("mistakes are told in words, with exit code 2, and nothing is left behind", async (t) => {
    const directory = await makeDirectory(t);
    const path = (name: string): string => join(directory, name);
    await writeFile(path("text.sqlite"), "this is not a database, however long one looks at it");
    const cases: readonly (readonly [args: string[], stderr: RegExp])[] = [
      [["--db", path("a/b.sqlite"), "--file", path("none.csv")], /^\S+none\.csv does not exist\n$/],
      [["--db", path("text.sqlite")], /^SQLite store \S+text\.sqlite: .+\n$/],
      [["--db", join(path("text.sqlite"), "b.sqlite")], /^can't make the database: .+\n$/],
      [["--db", path("text.sqlite"), "--reset"], /^\S+ is not a database of this program; it was not removed\n$/],
    ];
    for (const [args, stderr] of cases) {
      const ended = await run(t, args);
      assert.match(ended.stderr, stderr);
      assert.deepEqual({ code: ended.code, stdout: ended.stdout }, { code: 2, stdout: "" });
    }
    assert.equal(existsSync(path("a")), false);
  });

  test("a wrong option is answered with how it is used, --help with all there is", async (t) => {
    const wrong = await run(t, ["--fast"]);
    assert.match(wrong.stderr, /^Unknown option '--fast'\nusage: npm run import -- .*\n$/);
    assert.deepEqual({ code: wrong.code, stdout: wrong.stdout }, { code: 2, stdout: "" });
    const ended = await run(t, ["--help"]);
    assert.match(ended.stdout, /^Imports a CSV file into a SQLite database.*--concurrency N/s);
    assert.deepEqual({ code: ended.code, stderr: ended.stderr }, { code: 0, stderr: "" });
  });
});
