/** Where clocks are changed: a table of known cases, and every minute around the changes of six zones. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { makeSchedule } from "../../engine/cron.ts";
import { fieldsOf, firings, minutes, type Spec, type WallClock } from "./oracle.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Occurrences strictly after `from`. */
function after(cron: string, timeZone: string, from: string, count: number): string[] {
  const { nextAfter } = makeSchedule(cron, timeZone);
  const found: string[] = [];
  let instant = Date.parse(from);
  while (found.length < count) {
    instant = nextAfter(instant) ?? assert.fail("fires again");
    found.push(new Date(instant).toISOString().slice(0, 16));
  }
  return found;
}

const NEW_YORK = "America/New_York";
const LORD_HOWE = "Australia/Lord_Howe";
const CASES: readonly (readonly [what: string, cron: string, zone: string, from: string, expected: string])[] = [
  [
    "skipped: fires at the end of the gap",
    "30 2 * * *",
    NEW_YORK,
    "2026-03-07T12:00Z",
    "2026-03-08T07:00 2026-03-09T06:30",
  ],
  [
    "skipped several times: fires once",
    "*/10 2 * * *",
    NEW_YORK,
    "2026-03-08T06:59Z",
    "2026-03-08T07:00 2026-03-09T06:00",
  ],
  ["merged with a regular one", "0,30 2-3 * * *", NEW_YORK, "2026-03-08T06:59Z", "2026-03-08T07:00 2026-03-08T07:30"],
  [
    "follows the clock: skipped is left out",
    "30 */2 * * *",
    NEW_YORK,
    "2026-03-08T05:00Z",
    "2026-03-08T05:30 2026-03-08T08:30",
  ],
  [
    "every hour of a range is fixed",
    "0 0-23 * * *",
    NEW_YORK,
    "2026-03-08T06:00Z",
    "2026-03-08T07:00 2026-03-08T08:00",
  ],
  [
    "repeated: fires the first time only",
    "30 1 * * *",
    NEW_YORK,
    "2026-11-01T04:00Z",
    "2026-11-01T05:30 2026-11-02T06:30",
  ],
  ["asked within the repetition", "30 1 * * *", NEW_YORK, "2026-11-01T06:10Z", "2026-11-02T06:30"],
  [
    "follows the clock: repeats",
    "@hourly",
    NEW_YORK,
    "2026-11-01T04:30Z",
    "2026-11-01T05:00 2026-11-01T06:00 2026-11-01T07:00",
  ],
  ["London, gap", "30 1 * * *", "Europe/London", "2026-03-28T12:00Z", "2026-03-29T01:00 2026-03-30T00:30"],
  ["London, repetition", "30 1 * * *", "Europe/London", "2026-10-25T00:00Z", "2026-10-25T00:30 2026-10-26T01:30"],
  ["half an hour skipped", "15 2 * * *", LORD_HOWE, "2026-10-03T00:00Z", "2026-10-03T15:30 2026-10-04T15:15"],
  ["half an hour skipped, hourly", "0 * * * *", LORD_HOWE, "2026-10-03T14:00Z", "2026-10-03T14:30 2026-10-03T16:00"],
  ["half an hour repeated", "45 1 * * *", LORD_HOWE, "2026-04-04T12:00Z", "2026-04-04T14:45 2026-04-05T15:15"],
  [
    "half an hour repeated, follows",
    "45 * * * *",
    LORD_HOWE,
    "2026-04-04T14:00Z",
    "2026-04-04T14:45 2026-04-04T15:15 2026-04-04T16:15",
  ],
  ["midnight skipped", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00Z", "2018-11-04T03:00 2018-11-05T02:00"],
  ["midnight repeated", "30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00Z", "2018-02-18T01:30 2018-02-19T02:30"],
  ["Apia, gap", "30 3 * * *", "Pacific/Apia", "2012-09-29T00:00Z", "2012-09-29T14:00 2012-09-30T13:30"],
  [
    "Casablanca, before Ramadan",
    "30 2 * * *",
    "Africa/Casablanca",
    "2026-02-14T12:00Z",
    "2026-02-15T01:30 2026-02-16T02:30",
  ],
  [
    "Casablanca, after Ramadan",
    "30 2 * * *",
    "Africa/Casablanca",
    "2026-03-21T12:00Z",
    "2026-03-22T02:00 2026-03-23T01:30",
  ],
];

for (const [what, cron, zone, from, expected] of CASES) {
  test(`${zone}: ${cron}: ${what}`, () => {
    const wanted = expected.split(" ");
    assert.deepEqual(after(cron, zone, from, wanted.length), wanted);
  });
}

test("@every counts real time through a change of the clock", () => {
  const wanted = ["2026-03-08T07:30", "2026-03-08T09:00"];
  assert.deepEqual(after("@every 90m", NEW_YORK, "2026-03-08T06:00Z", 2), wanted);
});

const weekdayNear = (target: number, { day, days, weekday }: WallClock): boolean => {
  if (target > days || weekday === 0 || weekday === 6) return false;
  if (day === target) return true;
  const targetDay = (weekday + target - day + 70) % 7;
  if (targetDay === 6) return target === 1 ? day === 3 : day === target - 1;
  return targetDay === 0 && (target === days ? day === target - 2 : day === target + 1);
};

const SPECS: readonly Spec[] = [
  { cron: "* * * * *", fixed: false, fits: () => true },
  { cron: "*/7 * * * *", fixed: false, fits: (t) => t.minute % 7 === 0 },
  { cron: "@hourly", fixed: false, fits: (t) => t.minute === 0 },
  { cron: "30 */2 * * *", fixed: false, fits: (t) => t.minute === 30 && t.hour % 2 === 0 },
  { cron: "5/20 1-23/2 * * *", fixed: false, fits: (t) => [5, 25, 45].includes(t.minute) && t.hour % 2 === 1 },
  { cron: "10 */1,2 * * *", fixed: false, fits: (t) => t.minute === 10 },
  { cron: "0 0 * * *", fixed: true, fits: (t) => t.minute === 0 && t.hour === 0 },
  { cron: "30 1 * * *", fixed: true, fits: (t) => t.minute === 30 && t.hour === 1 },
  { cron: "15,45 2 * * *", fixed: true, fits: (t) => [15, 45].includes(t.minute) && t.hour === 2 },
  { cron: "* 2 * * *", fixed: true, fits: (t) => t.hour === 2 },
  { cron: "*/15 0-3 * * *", fixed: true, fits: (t) => t.minute % 15 === 0 && t.hour <= 3 },
  { cron: "10-40/10 0-23 * * *", fixed: true, fits: (t) => t.minute % 10 === 0 && t.minute >= 10 && t.minute <= 40 },
  { cron: "0 3 1,15 * *", fixed: true, fits: (t) => t.minute === 0 && t.hour === 3 && [1, 15].includes(t.day) },
  { cron: "30 2 L * *", fixed: true, fits: (t) => t.minute === 30 && t.hour === 2 && t.day === t.days },
  { cron: "0 23 LW * *", fixed: true, fits: (t) => t.minute === 0 && t.hour === 23 && weekdayNear(t.days, t) },
  {
    cron: "0 1 1W,15W,31W * *",
    fixed: true,
    fits: (t) => t.minute === 0 && t.hour === 1 && [1, 15, 31].some((day) => weekdayNear(day, t)),
  },
  {
    cron: "30 2 * * SUN#1,7L",
    fixed: true,
    fits: (t) => t.minute === 30 && t.hour === 2 && t.weekday === 0 && (t.day <= 7 || t.day > t.days - 7),
  },
  {
    cron: "0 12 13 * FRI",
    fixed: true,
    fits: (t) => t.minute === 0 && t.hour === 12 && (t.day === 13 || t.weekday === 5),
  },
  {
    cron: "0 12 */2 * MON-FRI",
    fixed: true,
    fits: (t) => t.minute === 0 && t.hour === 12 && t.day % 2 === 1 && t.weekday >= 1 && t.weekday <= 5,
  },
  {
    cron: "30 0 ? MAR,10-NOV */7",
    fixed: true,
    fits: (t) => t.minute === 30 && t.hour === 0 && [3, 10, 11].includes(t.month) && t.weekday === 0,
  },
  {
    cron: "0 22 29 FEB/2 5-7",
    fixed: true,
    fits: (t) =>
      t.minute === 0 && t.hour === 22 && t.month % 2 === 0 && (t.day === 29 || [5, 6, 0].includes(t.weekday)),
  },
];

/** Days near which the clocks change, and a leap day. */
const CHANGES: readonly (readonly [zone: string, ...around: string[]])[] = [
  [NEW_YORK, "2026-03-08", "2026-11-01"],
  ["Europe/London", "2026-03-29", "2026-10-25"],
  [LORD_HOWE, "2026-04-05", "2026-10-04"],
  ["America/Sao_Paulo", "2018-02-18", "2018-11-04"],
  ["Pacific/Apia", "2012-04-01", "2012-09-30"],
  ["Africa/Casablanca", "2026-02-15", "2026-03-22"],
  ["Asia/Kathmandu", "2028-02-25"],
];

for (const [zone, ...around] of CHANGES) {
  test(`${zone}: every minute around each change, as Intl has it`, () => {
    for (const day of around) {
      const from = Date.parse(day) - DAY;
      const to = Date.parse(day) + 2 * DAY;
      const walk = minutes(zone, from, to);
      for (const spec of SPECS) {
        const { nextAfter } = makeSchedule(spec.cron, zone);
        const found: number[] = [];
        for (let at = nextAfter(from); at !== null && at <= to; at = nextAfter(at)) found.push(at);
        const show = (instants: readonly number[]): string[] => instants.map((at) => new Date(at).toISOString());
        assert.deepEqual(show(found), show(firings(spec, walk)), `${spec.cron} around ${day}`);
      }
    }
  });
}

test("the next occurrence is the same from wherever it is asked", () => {
  for (const [zone, ...around] of CHANGES) {
    for (const day of around) {
      const from = Date.parse(day) - DAY;
      const walk = minutes(zone, from, Date.parse(day) + 9 * DAY);
      for (const spec of SPECS.slice(1, 12)) {
        const { nextAfter } = makeSchedule(spec.cron, zone);
        const fired = firings(spec, walk);
        for (let at = from; at < from + 2 * DAY; at += 97 * 60_000 + 7) {
          const expected = fired.find((instant) => instant > at);
          assert.equal(nextAfter(at), expected, `${spec.cron} in ${zone} after ${new Date(at).toISOString()}`);
        }
      }
    }
  }
});

test("the calendar's rules hold on every day of ten years", () => {
  for (const spec of SPECS.slice(12)) {
    const { nextAfter } = makeSchedule(spec.cron, "UTC");
    const [from, to] = [Date.UTC(2023, 11, 31, 23, 59), Date.UTC(2034, 0, 1)];
    const expected: number[] = [];
    for (let day = from + MINUTE; day < to; day += DAY) {
      for (let at = day; at < day + DAY; at += 30 * MINUTE) if (spec.fits(fieldsOf(at))) expected.push(at);
    }
    const found: number[] = [];
    for (let at = nextAfter(from); at !== null && at < to; at = nextAfter(at)) found.push(at);
    assert.deepEqual(found, expected, spec.cron);
  }
});

const CHILD = `
  import { makeSchedule } from "kiln/cron-for-tests";
  const found = JSON.parse(process.argv[1]).map(([cron, zone, from, count]) => {
    const { nextAfter } = makeSchedule(cron, zone);
    const list = [];
    for (let at = Date.parse(from); list.length < count; ) list.push((at = nextAfter(at)));
    return list.map((at) => new Date(at).toISOString().slice(0, 16)).join(" ");
  });
  console.log(JSON.stringify({ offset: new Date(0).getTimezoneOffset(), found }));
`.replace("kiln/cron-for-tests", new URL("../../engine/cron.ts", import.meta.url).href);

for (const [odd, offset] of [
  ["Pacific/Kiritimati", 640],
  ["Australia/Lord_Howe", -600],
  ["America/St_Johns", 210],
] as const) {
  test(`the time zone of the process does not matter: TZ=${odd}`, async () => {
    const asked = CASES.map(([, cron, zone, from, expected]) => [cron, zone, from, expected.split(" ").length]);
    const args = ["--conditions=kiln-source", "--input-type=module", "-e", CHILD, JSON.stringify(asked)];
    const { stdout } = await promisify(execFile)(process.execPath, args, { env: { ...process.env, TZ: odd } });
    assert.deepEqual(JSON.parse(stdout), { offset, found: CASES.map(([, , , , expected]) => expected) });
  });
}
