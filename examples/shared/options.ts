/** Reads what a program is told on its command line. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { UserError } from "./problem.ts";

/** @throws UserError with the usage */
export function parseOptions<const Options extends NonNullable<ParseArgsConfig["options"]>>(
  args: readonly string[],
  options: Options,
  usage: string,
) {
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    // Only the first sentence is about the mistake.
    throw badOption((error as Error).message.split(". ", 1)[0] ?? "", usage);
  }
}

export interface IntegerRange {
  readonly min: number;
  readonly max: number;
  readonly default: number;
}

/** @throws UserError */
export function readInteger(name: string, text: string | undefined, range: IntegerRange, usage: string): number {
  if (text === undefined) return range.default;
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= range.min && value <= range.max) return value;
  throw badOption(`${name} must be an integer from ${range.min} to ${range.max}, got "${text}"`, usage);
}

export function badOption(message: string, usage: string): UserError {
  return new UserError(`${message}\n${usage}`);
}
