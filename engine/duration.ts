/** Durations as users write them. */
import ms, { type StringValue } from "ms";

/** Milliseconds, or a string such as `"250ms"`, `"30s"`, `"1.5h"` or `"7 days"`. */
export type Duration = number | string;

/** Whole milliseconds, rounded up; negative stays negative. Null for anything that is not a finite duration. */
export function parseDuration(value: unknown): number | null {
  const parsed = typeof value === "string" && value !== "" ? ms(value as StringValue) : value;
  if (typeof parsed !== "number" || !Number.isFinite(parsed)) return null;
  // "1.1h" is 3960000.0000000005 in binary: a difference as small as that is no reason to round up.
  const nearest = Math.round(parsed);
  const exact = Math.abs(parsed - nearest) <= Math.abs(parsed) * 2 * Number.EPSILON;
  return (exact ? nearest : Math.ceil(parsed)) + 0;
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** The shortest exact way to write whole milliseconds, for example `90s`. `parseDuration` reads it back. */
export function formatDuration(duration: number): string {
  const unit = UNITS.find(([, size]) => duration !== 0 && duration % size === 0);
  return unit ? `${duration / unit[1]}${unit[0]}` : `${duration}ms`;
}
