/** Seeds as they are typed, and the seeds of the scenarios that follow from one. */
import { invalid } from "../../engine/problems.ts";
import { hashText, mix } from "../world/random.ts";

const DIGITS_OF_HASH = 12;

/** A number, the hash of a commit, or `today`. @throws InvalidError for anything else */
export function parseSeed(text: string, today: Date): number {
  if (text === "today") return Number(today.toISOString().slice(0, 10).replaceAll("-", ""));
  if (/^\d{1,15}$/.test(text)) return Number(text);
  if (/^[0-9a-f]{7,64}$/i.test(text)) return Number.parseInt(text.slice(0, DIGITS_OF_HASH), 16);
  throw invalid("can't search", "--seed", text, "must be a whole number, the hash of a commit or `today`");
}

/** Of the scenarios of one search: 32 bits each. */
export function seedOf(seed: number, number: number): number {
  return mix(hashText(String(seed)), number);
}
