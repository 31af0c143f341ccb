/**
 * When a recurring job fires: cron expressions and `@every`, in a time zone.
 *
 *     ┌─────────── second 0-59, may be left out: 0
 *     │ ┌───────── minute 0-59
 *     │ │ ┌─────── hour 0-23
 *     │ │ │ ┌───── day of month 1-31, L (last), LW (last weekday), 15W (weekday nearest to the 15th)
 *     │ │ │ │ ┌─── month 1-12, JAN-DEC
 *     │ │ │ │ │ ┌─ day of week 0-7 (0 and 7 = Sunday), SUN-SAT, FRIL (last Friday), MON#2 (second Monday)
 *     0 0 3 1,15 * MON-FRI
 *
 * Each is `*`, or a list of values and ranges `a-b`; steps as in `0-59/15`, `10-40/5` and `10/5` (from 10 to the end). A day has to fit both
 * day fields when one of them begins with `*`; otherwise it is enough that it fits either. Besides: `@yearly`, `@annually`, `@monthly`,
 * `@weekly`, `@daily`, `@midnight`, `@hourly` and `@every DURATION` such as `@every 90s`, which counts real time from the last
 * occurrence whatever clocks do.
 *
 * Where the clock is changed: with fixed hours (no `*` or step in the hour) a time that the change skips fires at the
 * first instant after it, once however many were skipped, and a time that occurs twice fires the first time only. Other
 * schedules follow the clock: what is skipped is left out, what occurs twice fires twice.
 *
 * The work is done by croner. What is worked round here, because it does it otherwise:
 * - it tells fixed times from others by seconds and minutes too; so with fixed hours their `*` and steps are spelled out;
 * - it lets a day fit both fields only by an option; so the option is set by the fields;
 * - it refuses `10/5`, which becomes `10-59/5`;
 * - it accepts steps as large as the field (every 60 minutes), `?` anywhere, `1-5L`, `5#L` and `+`, which are refused or, as
 *   `?` for a day, read as `*`; and its messages number days and months from 0, so ranges are checked here.
 * What it can't do: `L-3` (the third last day) and `LW` in a list, which are refused. What it does its own way: it looks ahead
 * to the year 9999, and where a whole day was skipped (Apia, 30 December 2011) that day's times are left out.
 */
import { Cron } from "croner";
import { formatDuration, parseDuration } from "./duration.ts";
import { InvalidError } from "./errors.ts";
import { INSTANT, LONGEST_DURATION } from "./rules/limits.ts";
import { shown } from "./rules/text.ts";

/** Instants are milliseconds since 1970. */
export interface Schedule {
  /** The expression in its canonical form: upper case, single spaces, no leading zeros, no second that is 0. */
  readonly cron: string;
  /** The first occurrence after `instant`, strictly; null = it never fires again. For `@every` counted from `instant`. */
  nextAfter(instant: number): number | null;
  /** The same as `nextAfter`, for one that is known to fire, or to have been put off to, `due`: that is where `@every` counts from. */
  from(due: number): (instant: number) => number | null;
}

/** @throws InvalidError naming `cron` or `timeZone` */
export function makeSchedule(cron: string, timeZone: string): Schedule {
  const parsed = parseCron(cron);
  const problems = [
    ...("problem" in parsed ? [{ field: "cron", value: shown(cron), rule: parsed.problem }] : []),
    ...(isTimeZone(timeZone) ? [] : [{ field: "timeZone", value: shown(timeZone), rule: TIME_ZONE_RULE }]),
  ];
  if ("problem" in parsed || problems.length > 0) throw new InvalidError("bad schedule", problems);
  return "every" in parsed ? everySchedule(parsed.cron, parsed.every) : cronSchedule(parsed, timeZone);
}

export const TIME_ZONE_RULE = `must be a time zone such as "Europe/London" or "UTC"`;

/** Names that were found to be right: to ask costs as much as all else that is done for a schedule. */
const known = new Set<string>();

/** By name; an offset such as `+02:00` is none, because it knows nothing of changes. */
export function isTimeZone(value: unknown): value is string {
  if (typeof value !== "string" || !/^[A-Za-z]/.test(value)) return false;
  if (known.has(value)) return true;
  try {
    new Intl.DateTimeFormat("en", { timeZone: value });
    known.add(value);
    return true;
  } catch {
    return false;
  }
}

export type ParsedCron =
  | { readonly cron: string; readonly fields: readonly string[] }
  | { readonly cron: string; readonly every: number }
  | { readonly problem: string };

/** What the expression says, or the rule that it breaks. */
export function parseCron(text: unknown): ParsedCron {
  if (typeof text !== "string" || text.length > MAX_LENGTH) return bad(`text of at most ${MAX_LENGTH} characters`);
  const words = text.trim().toUpperCase().split(/\s+/);
  if (words[0] === "") return bad("it is empty");
  if (words[0]?.startsWith("@")) return parseDescriptor(words);
  if (words.length !== 5 && words.length !== 6) return bad(`it has ${words.length} fields, not 5 or 6`);
  const given = words.length === 5 ? ["0", ...words] : words;
  const fields: string[] = [];
  for (const [index, field] of FIELDS.entries()) {
    const read = readField(field, given[index] ?? "");
    if ("problem" in read) return bad(`${field.name}: ${read.problem}`);
    fields.push(read.text);
  }
  const cron = (fields[0] === "0" ? fields.slice(1) : fields).join(" ");
  try {
    makeCron(fields, "UTC");
  } catch (error) {
    return bad((error as Error).message);
  }
  return { cron, fields };
}

const MAX_LENGTH = 1_000;

const bad = (cause: string): { readonly problem: string } => ({ problem: `must be a cron expression (${cause})` });

const DESCRIPTORS: Readonly<Record<string, readonly [cron: string, fields: string]>> = {
  "@YEARLY": ["@yearly", "0 0 0 1 1 *"],
  "@ANNUALLY": ["@yearly", "0 0 0 1 1 *"],
  "@MONTHLY": ["@monthly", "0 0 0 1 * *"],
  "@WEEKLY": ["@weekly", "0 0 0 * * 0"],
  "@DAILY": ["@daily", "0 0 0 * * *"],
  "@MIDNIGHT": ["@daily", "0 0 0 * * *"],
  "@HOURLY": ["@hourly", "0 0 * * * *"],
};

function parseDescriptor(words: readonly string[]): ParsedCron {
  const [name = "", ...rest] = words;
  if (name === "@EVERY") return parseEvery(rest.join(" ").toLowerCase());
  const known = Object.hasOwn(DESCRIPTORS, name) ? DESCRIPTORS[name] : undefined;
  if (known === undefined) return bad(`${name.toLowerCase()} is unknown`);
  if (rest.length > 0) return bad(`${known[0]} takes nothing more`);
  return { cron: known[0], fields: known[1].split(" ") };
}

/** In whole seconds, the rest cut off. */
function parseEvery(text: string): ParsedCron {
  const duration = /[a-z]$/.test(text) ? parseDuration(text) : null;
  if (duration === null || duration > LONGEST_DURATION) return bad("@every takes one duration such as 90s");
  if (duration < SECOND) return bad("@every takes at least 1s");
  const every = duration - (duration % SECOND);
  return { cron: `@every ${formatDuration(every)}`, every };
}

const SECOND = 1_000;

interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
  /** Items that only this field has; the first group is a value of the field. */
  readonly special?: RegExp;
  readonly isDay?: boolean;
}

const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"] as const;
const DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] as const;

const FIELDS: readonly Field[] = [
  { name: "second", min: 0, max: 59 },
  { name: "minute", min: 0, max: 59 },
  { name: "hour", min: 0, max: 23 },
  { name: "day of month", min: 1, max: 31, special: /^(?:L|LW|(\d{1,9})W)$/, isDay: true },
  { name: "month", min: 1, max: 12, names: MONTHS },
  { name: "day of week", min: 0, max: 7, names: DAYS, special: /^(\d{1,9}|[A-Z]{3})(?:L|#[1-5])$/, isDay: true },
];

const ITEM = /^(?:(\*)|(\d{1,9}|[A-Z]{3})(?:-(\d{1,9}|[A-Z]{3}))?)(?:\/(\d{1,9}))?$/;

type Read = { readonly text: string } | { readonly problem: string };

/** One field in canonical form. */
function readField(field: Field, text: string): Read {
  const items: string[] = [];
  for (const item of text.split(",")) {
    const read = readItem(field, item);
    if ("problem" in read) return read;
    items.push(read.text);
  }
  return { text: items.join(",") };
}

function readItem(field: Field, item: string): Read {
  if (item === "?" && field.isDay) return { text: "*" };
  const special = field.special?.exec(item);
  if (special) {
    const [, value] = special;
    if (value !== undefined && numberOf(field, value) === null) return outside(field, value);
    return { text: plain(item) };
  }
  const match = ITEM.exec(item);
  if (!match) return { problem: item === "" ? "an item is empty" : `${shown(item)} is not understood` };
  const [, , first, last, step] = match;
  for (const value of [first, last]) {
    if (value !== undefined && numberOf(field, value) === null) return outside(field, value);
  }
  if (first !== undefined && last !== undefined && Number(numberOf(field, first)) > Number(numberOf(field, last))) {
    return { problem: `the range ${item} goes backwards` };
  }
  if (step !== undefined && !(Number(step) >= 1 && Number(step) <= field.max)) {
    return { problem: `a step must be from 1 to ${field.max}` };
  }
  return { text: plain(item) };
}

const outside = (field: Field, value: string): Read => ({
  problem: `${value} is not from ${field.min} to ${field.max}${field.names ? " and no name" : ""}`,
});

/** Without leading zeros. */
const plain = (item: string): string => item.replace(/\d+/g, (digits) => String(Number(digits)));

/** The number that a value of the field stands for; null when it has no such value. */
function numberOf({ min, max, names }: Field, value: string): number | null {
  const isNumber = /^\d/.test(value);
  const number = isNumber ? Number(value) : (names?.indexOf(value) ?? -1);
  if (number < 0) return null;
  const counted = isNumber || names !== MONTHS ? number : number + 1;
  return counted >= min && counted <= max ? counted : null;
}

/** In the words of croner. */
function makeCron(fields: readonly string[], timeZone: string): Cron {
  const [second = "", minute = "", hour = "", day = "", month = "", weekday = ""] = fields;
  const fixed = !/[*/]/.test(hour);
  const pattern = [
    fixed ? spelledOut(second) : second,
    fixed ? spelledOut(minute) : minute,
    ...[hour, day, month, weekday],
  ].map((text, index) => withoutOpenSteps(text, FIELDS[index]?.max ?? 0));
  return new Cron(pattern.join(" "), {
    paused: true,
    timezone: timeZone,
    mode: "6-part",
    fixedTimeRule: "no-wildcard",
    domAndDow: day.startsWith("*") || weekday.startsWith("*"),
  });
}

/** A list of seconds or minutes without `*` and steps. */
function spelledOut(text: string): string {
  return text.split(",").map(spellOutItem).join(",");
}

function spellOutItem(item: string): string {
  const [range = "", step] = item.split("/");
  if (range !== "*" && step === undefined) return item;
  const [first = 0, last = 59] = range === "*" ? [0, 59] : range.split("-").map(Number);
  const values: number[] = [];
  for (let value = first; value <= last; value += Number(step ?? 1)) values.push(value);
  return values.join(",");
}

function withoutOpenSteps(text: string, max: number): string {
  return text.replace(/(^|,)([A-Z0-9]+)\//g, (_, before: string, value: string) => `${before}${value}-${max}/`);
}

function cronSchedule({ cron, fields }: { cron: string; fields: readonly string[] }, timeZone: string): Schedule {
  const croner = makeCron(fields, timeZone);
  const nextAfter = (instant: number): number | null => {
    const next = croner.nextRun(new Date(instant))?.getTime() ?? null;
    return next !== null && next <= INSTANT.max ? next : null;
  };
  return { cron, nextAfter, from: () => nextAfter };
}

function everySchedule(cron: string, every: number): Schedule {
  const upToMax = (next: number): number | null => (next <= INSTANT.max ? next : null);
  return {
    cron,
    nextAfter: (instant) => upToMax(instant - (instant % SECOND) + every),
    from: (due) => (instant) =>
      instant < due ? due : upToMax(due + (Math.floor((instant - due) / every) + 1) * every),
  };
}
