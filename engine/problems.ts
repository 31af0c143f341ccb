/** What is wrong with the values of one call, and the readers that find it. `validate.ts` has whole objects of options. */
import { isDate } from "node:util/types";
import { formatDuration, parseDuration } from "./duration.ts";
import { InvalidError, type Problem } from "./errors.ts";
import { INSTANT, LONGEST_DURATION } from "./rules/limits.ts";
import { cutText, shown } from "./rules/text.ts";
import { CLEAN_RULE, INSTANT_RULE, isName } from "./rules/values.ts";

/** More problems than this are counted, not shown. */
export const MAX_SHOWN = 20;
/** Longer paths to a value are cut. */
export const FIELD_MAX_BYTES = 200;

const PLAIN_KEY = /^[A-Za-z_$][\w$]{0,60}$/;

/** How a path goes on into a value: `.name`, `["another name"]` or `[3]`. */
export function pathStep(key: string | number): string {
  if (typeof key === "number") return `[${key}]`;
  return PLAIN_KEY.test(key) ? `.${key}` : `[${shown(key)}]`;
}

/** The error for a single value that is wrong; `what` says what can't be done. */
export function invalid(what: string, field: string, value: unknown, rule: string): InvalidError {
  return new InvalidError(what, [{ field, value: shown(value), rule }]);
}

/** Everything that is wrong with one call. */
export class Problems {
  readonly #shown: Problem[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Adds a problem that was found elsewhere. */
  push(problem: Problem): void {
    this.#count += 1;
    if (this.#count <= MAX_SHOWN) this.#shown.push(problem);
  }

  /** `rule` continues a sentence that begins with the field, for example `must be a function`. */
  add(field: string, value: unknown, rule: string): void {
    if (this.#count >= MAX_SHOWN) this.#count += 1;
    else this.push({ field: cutText(field, FIELD_MAX_BYTES), value: shown(value), rule });
  }

  /** The error that names them, or null when there are none; `what` says what can't be done. */
  error(what: string): InvalidError | null {
    if (this.#count === 0) return null;
    const more = this.#count > MAX_SHOWN ? ` (the first ${MAX_SHOWN} of ${this.#count} problems)` : "";
    return new InvalidError(`${what}${more}`, this.#shown);
  }

  /** @throws InvalidError when there are any */
  end(what: string): void {
    const error = this.error(what);
    if (error !== null) throw error;
  }
}

export interface Range {
  readonly min: number;
  readonly max: number;
}

export interface DurationRange extends Range {
  /** Milliseconds that `false` stands for; without it `false` is refused. */
  readonly off?: number;
}

export interface TextRule {
  /** In UTF-8. Default: no limit. */
  readonly maxBytes?: number;
  /** Default false. */
  readonly empty?: boolean;
}

export interface NameRule {
  readonly maxBytes: number;
  readonly pattern: RegExp;
  readonly refused?: readonly string[];
}

/** Milliseconds; undefined, after adding a problem, when `value` is no duration of the range. */
export function readDuration(
  problems: Problems,
  field: string,
  value: unknown,
  { min, max, off }: DurationRange,
): number | undefined {
  if (value === false && off !== undefined) return off;
  const duration = parseDuration(value);
  if (duration !== null && duration >= min && duration <= max) return duration;
  const alternative = off === undefined ? "" : ", or false";
  problems.add(field, value, `must be a duration, in ms or such as "30s", of ${boundsOf({ min, max })}${alternative}`);
  return undefined;
}

function boundsOf({ min, max }: Range): string {
  if (max < LONGEST_DURATION) return `from ${formatDuration(min)} to ${formatDuration(max)}`;
  return `${min > 0 ? `at least ${formatDuration(min)} and ` : ""}at most a hundred years`;
}

export function readInteger(
  problems: Problems,
  field: string,
  value: unknown,
  { min, max }: Range,
): number | undefined {
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value + 0;
  problems.add(field, value, `must be an integer from ${min} to ${max}`);
  return undefined;
}

/** A kind or queue name; `rule` and `words` are a pair such as `KIND` and `KIND_RULE`. */
/** Of jobs and of batches. */
export const IDS = { min: 1, max: Number.MAX_SAFE_INTEGER } as const;

/** @throws InvalidError unless `id` can be the id of a job or a batch */
export function checkId(what: string, id: unknown): void {
  const problems = new Problems();
  readInteger(problems, "id", id, IDS);
  problems.end(what);
}

export function readName(
  problems: Problems,
  field: string,
  value: unknown,
  rule: NameRule,
  words: string,
): string | undefined {
  if (isName(value, rule)) return value;
  problems.add(field, value, words);
  return undefined;
}

/** Text that every database can hold: without NUL and lone surrogates. */
export function readText(
  problems: Problems,
  field: string,
  value: unknown,
  { maxBytes = Number.POSITIVE_INFINITY, empty = false }: TextRule = {},
): string | undefined {
  const fits =
    typeof value === "string" &&
    (empty || value !== "") &&
    value.length <= maxBytes &&
    Buffer.byteLength(value) <= maxBytes;
  if (!fits) {
    const size = maxBytes === Number.POSITIVE_INFINITY ? "" : ` of at most ${maxBytes} bytes`;
    problems.add(field, value, `must be a${empty ? "" : " non-empty"} string${size}`);
  } else if (value.includes("\u0000") || !value.isWellFormed()) {
    problems.add(field, value, CLEAN_RULE);
  } else return value;
  return undefined;
}

/** A copy of the date. */
export function readDate(problems: Problems, field: string, value: unknown): Date | undefined {
  const time = isDate(value) ? Date.prototype.getTime.call(value) : Number.NaN;
  if (time >= INSTANT.min && time <= INSTANT.max) return new Date(time);
  problems.add(field, value, INSTANT_RULE);
  return undefined;
}
