/** What is a cron expression, and how it is written in its canonical form. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isTimeZone, makeSchedule, parseCron } from "../../engine/cron.ts";
import { InvalidError } from "../../engine/errors.ts";

function canonical(text: string): string {
  const parsed = parseCron(text);
  assert.ok("cron" in parsed, `${text}: ${JSON.stringify(parsed)}`);
  return parsed.cron;
}

test("the canonical form", () => {
  for (const [text, expected] of [
    ["* * * * *", "* * * * *"],
    ["  0   03\t* * * ", "0 3 * * *"],
    ["0 0 3 * * *", "0 3 * * *"],
    ["00 0 3 * * *", "0 3 * * *"],
    ["30 0 3 * * *", "30 0 3 * * *"],
    ["*/10 * * * * *", "*/10 * * * * *"],
    ["0 0 ? jan-Mar mon,fri", "0 0 * JAN-MAR MON,FRI"],
    ["0 0 l,015w * ?", "0 0 L,15W * *"],
    ["0 0 lw * *", "0 0 LW * *"],
    ["0 0 * * fril,mon#2,7", "0 0 * * FRIL,MON#2,7"],
    ["5/15 1-9/2 * * *", "5/15 1-9/2 * * *"],
    ["@Annually", "@yearly"],
    ["@MIDNIGHT", "@daily"],
    ["@hourly", "@hourly"],
    ["@every 90S", "@every 90s"],
    ["@every 120s", "@every 2m"],
    ["@every 1.5 hours", "@every 90m"],
    ["@every 1999ms", "@every 1s"],
  ] as const) {
    assert.equal(canonical(text), expected);
    assert.equal(canonical(expected), expected, "it is its own canonical form");
  }
});

test("what is no cron expression is refused in words that say why", () => {
  for (const [text, cause] of [
    ["", "it is empty"],
    [" ", "it is empty"],
    ["* * * *", "it has 4 fields, not 5 or 6"],
    ["0 0 0 1 1 * 2030", "it has 7 fields, not 5 or 6"],
    ["60 * * * *", "minute: 60 is not from 0 to 59"],
    ["60 * * * * *", "second: 60 is not from 0 to 59"],
    ["0 24 * * *", "hour: 24 is not from 0 to 23"],
    ["0 0 0 * *", "day of month: 0 is not from 1 to 31"],
    ["0 0 32 * *", "day of month: 32 is not from 1 to 31"],
    ["0 0 32W * *", "day of month: 32 is not from 1 to 31"],
    ["0 0 * 13 *", "month: 13 is not from 1 to 12 and no name"],
    ["0 0 * MON *", "month: MON is not from 1 to 12 and no name"],
    ["0 0 * * 8", "day of week: 8 is not from 0 to 7 and no name"],
    ["0 0 * * FOO", "day of week: FOO is not from 0 to 7 and no name"],
    ["0 0 * * FOOL", "day of week: FOO is not from 0 to 7 and no name"],
    ["0 0 * * FRI-MON", "day of week: the range FRI-MON goes backwards"],
    ["9-5 * * * *", "minute: the range 9-5 goes backwards"],
    ["*/60 * * * *", "minute: a step must be from 1 to 59"],
    ["0 */24 * * *", "hour: a step must be from 1 to 23"],
    ["*/0 * * * *", "minute: a step must be from 1 to 59"],
    ["1,,2 * * * *", "minute: an item is empty"],
    ["? * * * *", 'minute: "?" is not understood'],
    ["0 0 ?/2 * *", 'day of month: "?/2" is not understood'],
    ["+1 * * * *", 'minute: "+1" is not understood'],
    ["-1 * * * *", 'minute: "-1" is not understood'],
    ["1.5 * * * *", 'minute: "1.5" is not understood'],
    ["0000000001 * * * *", 'minute: "0000000001" is not understood'],
    ["0 0 1 * +MON", 'day of week: "+MON" is not understood'],
    ["0 0 1,LW * *", "CronPattern: Syntax error, LW can not be in a list in day-of-month ('1,LW')."],
    ["0 0 L-3 * *", 'day of month: "L-3" is not understood'],
    ["0 0 L-2W * *", 'day of month: "L-2W" is not understood'],
    ["0 0 1-5W * *", 'day of month: "1-5W" is not understood'],
    ["0 0 W * *", 'day of month: "W" is not understood'],
    ["0 0 * * L", 'day of week: "L" is not understood'],
    ["0 0 * * 1-5L", 'day of week: "1-5L" is not understood'],
    ["0 0 * * 5#L", 'day of week: "5#L" is not understood'],
    ["0 0 * * MON#0", 'day of week: "MON#0" is not understood'],
    ["0 0 * * MON#6", 'day of week: "MON#6" is not understood'],
    ["@reboot", "@reboot is unknown"],
    ["@constructor", "@constructor is unknown"],
    ["@daily 5", "@daily takes nothing more"],
    ["@every", "@every takes one duration such as 90s"],
    ["@every 5000", "@every takes one duration such as 90s"],
    ["@every soon", "@every takes one duration such as 90s"],
    ["@every 1s 2s", "@every takes one duration such as 90s"],
    ["@every -5s", "@every takes at least 1s"],
    ["@every 999ms", "@every takes at least 1s"],
    ["@every 101y", "@every takes one duration such as 90s"],
  ] as const) {
    assert.deepEqual(parseCron(text), { problem: `must be a cron expression (${cause})` }, text);
  }
  for (const value of [undefined, null, 5, {}, ["* * * * *"], "*".repeat(1_001)]) {
    assert.deepEqual(parseCron(value), { problem: "must be a cron expression (text of at most 1000 characters)" });
  }
});

test("whatever is accepted fires when it says, to the second and strictly later, or never", () => {
  const field = (min: number, max: number): fc.Arbitrary<string> => {
    const value = fc.integer({ min, max });
    const range = fc.tuple(value, value).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`);
    const step = fc.integer({ min: 1, max });
    const item = fc.oneof(
      value.map(String),
      range,
      fc.constant("*"),
      fc.tuple(fc.oneof(fc.constant("*"), value.map(String), range), step).map(([base, by]) => `${base}/${by}`),
    );
    return fc.array(item, { minLength: 1, maxLength: 3 }).map((items) => items.join(","));
  };
  const fields = fc.tuple(field(0, 59), field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7));
  const instant = fc.integer({ min: Date.UTC(2000, 0, 1), max: Date.UTC(2040, 0, 1) });
  fc.assert(
    fc.property(fields, instant, (words, from) => {
      const text = words.join(" ");
      assert.equal(canonical(canonical(text)), canonical(text));
      const next = makeSchedule(text, "America/New_York").nextAfter(from);
      assert.ok(next === null || (next > from && next % 1_000 === 0), `${text} from ${from}: ${next}`);
    }),
    { numRuns: 300 },
  );
});

test("no text makes the parser fail in any other way", () => {
  const letters = fc.constantFrom(..."*0123456789/-,?LW#@ MONFRIJAN+\t".split(""), "MON", "FEB", "@every ", "5s");
  const text = fc.oneof(
    fc.array(letters, { maxLength: 30 }).map((all) => all.join("")),
    fc.string(),
  );
  fc.assert(
    fc.property(text, (any) => {
      const parsed = parseCron(any);
      assert.ok("problem" in parsed || canonical(parsed.cron) === parsed.cron);
    }),
    { numRuns: 2_000 },
  );
});

test("what never fires has no next occurrence, also at the end of time", () => {
  assert.equal(makeSchedule("0 0 30 2 *", "UTC").nextAfter(Date.UTC(2026, 0, 1)), null);
  assert.equal(makeSchedule("0 0 31 2,4,6,9,11 *", "Europe/London").nextAfter(Date.UTC(2026, 0, 1)), null);
  const end = Date.UTC(9999, 11, 31, 23, 59, 59);
  assert.equal(makeSchedule("* * * * *", "UTC").nextAfter(end), null);
  assert.equal(makeSchedule("@every 1m", "UTC").nextAfter(end), null);
  const leap = makeSchedule("0 0 29 2 *", "UTC").nextAfter(Date.UTC(2097, 0, 1));
  assert.equal(leap, Date.UTC(2104, 1, 29), "2100 is no leap year");
});

test("@every counts from the last occurrence in whole seconds", () => {
  const { nextAfter, from } = makeSchedule("@every 90s", "UTC");
  assert.equal(nextAfter(10_999), 100_000);
  const next = from(100_000);
  assert.equal(next(99_999), 100_000);
  assert.equal(next(100_000), 190_000);
  assert.equal(next(189_999), 190_000);
  assert.equal(next(1_000_000), 1_090_000);
});

test("time zones are known by name", () => {
  for (const zone of ["UTC", "Europe/London", "america/new_york", "Etc/GMT+5"]) assert.ok(isTimeZone(zone), zone);
  for (const zone of ["Local", "local", "", "Mars/Olympus", "+02:00", "-0800", "Europe/London ", null, 5, {}]) {
    assert.equal(isTimeZone(zone), false, String(zone));
  }
});

test("a bad schedule is an error that names all that is wrong", () => {
  assert.throws(
    () => makeSchedule("60 * * * *", "Mars/Olympus"),
    (error: unknown) => {
      assert.ok(error instanceof InvalidError);
      assert.deepEqual(error.problems, [
        { field: "cron", value: '"60 * * * *"', rule: "must be a cron expression (minute: 60 is not from 0 to 59)" },
        { field: "timeZone", value: '"Mars/Olympus"', rule: 'must be a time zone such as "Europe/London" or "UTC"' },
      ]);
      return true;
    },
  );
});
