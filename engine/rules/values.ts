/** What a single value must be, and the words in which an error says so. */
import { isDate } from "node:util/types";
import { INSTANT, KIND, LONGEST_DURATION, QUEUE, RECURRING } from "./limits.ts";
import { cleanText } from "./text.ts";

export const KIND_RULE = `must be 1 to ${KIND.maxBytes} letters, digits, "_", ".", ":" or "-", beginning with a letter`;
export const QUEUE_RULE = `must be 1 to ${QUEUE.maxBytes} lowercase letters, digits, "_", ".", ":" or "-", not "." or ".."`;
export const RECURRING_RULE = `must be 1 to ${RECURRING.maxBytes} letters, digits, "_", ".", ":" or "-", not "." or ".."`;
export const DURATION_RULE = "must be a duration of at least 0 and at most a hundred years";
export const INSTANT_RULE = "must be a valid Date from 1970 to 9999";
/** Not every database can store such text, and none may change it silently. */
export const CLEAN_RULE = "must be text without NUL and without lone surrogates";

/** True for a valid kind or queue name, by the rules of `limits.ts`. */
export function isName(
  name: unknown,
  rule: { readonly maxBytes: number; readonly pattern: RegExp; readonly refused?: readonly string[] },
): name is string {
  return (
    typeof name === "string" &&
    name.length <= rule.maxBytes &&
    rule.pattern.test(name) &&
    !(rule.refused?.includes(name) ?? false)
  );
}

export const isDuration = (ms: unknown): boolean => typeof ms === "number" && ms >= 0 && ms <= LONGEST_DURATION;

export const isClean = (text: unknown): boolean => typeof text === "string" && cleanText(text) === text;

export function isInstant(date: Date | null): boolean {
  if (date === null) return true;
  const ms = isDate(date) ? date.getTime() : Number.NaN;
  return ms >= INSTANT.min && ms <= INSTANT.max;
}
