/** What all commands of the command line have in common. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { parseDuration } from "../../engine/duration.ts";
import { invalid } from "../../engine/problems.ts";
import { systemRuntime } from "../../engine/runtime.ts";
import { STORE_KINDS, type StoreKind } from "../cluster/database.ts";
import { scenarioFrom } from "../generate/generate.ts";
import { PROFILE_NAMES, type ProfileName } from "../generate/profiles.ts";
import { type Case, parseCase } from "../scenario/case.ts";
import { parseSeed } from "../scenario/seed.ts";

export interface Io {
  /** A line for the user. */
  say(line: string): void;
  /** What went wrong with the command itself. */
  complain(text: string): void;
  /** What stands in the last line of a terminal until something else is said; nowhere else. */
  show(line: string): void;
  /** Whether there is someone who watches it. */
  readonly terminal: boolean;
}

/** Resolves to the exit code. @throws InvalidError for bad arguments and files */
export type Verb = (args: readonly string[], io: Io) => Promise<number>;

const WHAT = "can't do that";

export function oneOf<Name extends string>(field: string, value: string, names: readonly Name[]): Name {
  const name = names.find((known) => known === value);
  if (name === undefined) throw invalid(WHAT, field, value, `must be one of ${names.join(", ")}`);
  return name;
}

export const storeOf = (value: string): StoreKind => oneOf("--store", value, STORE_KINDS);
export const profileOf = (value: string): ProfileName => oneOf("--profile", value, PROFILE_NAMES);
export const seedOfText = (value: string): number => parseSeed(value, new Date(systemRuntime.now()));

/** Milliseconds. */
export function durationOf(field: string, value: string): number {
  const duration = parseDuration(value);
  if (duration === null || duration < 0) throw invalid(WHAT, field, value, "must be a duration such as 90s");
  return duration;
}

export function countOf(field: string, value: string, most: number): number {
  const count = Number(value);
  if (!Number.isInteger(count) || count < 1 || count > most) {
    throw invalid(WHAT, field, value, `must be an integer from 1 to ${most}`);
  }
  return count;
}

/** The only thing that a verb takes besides options. */
export function only(positionals: readonly string[], what: string): string {
  const [first, ...more] = positionals;
  if (first === undefined || more.length > 0) throw invalid(WHAT, what, positionals.join(" "), "must be given, once");
  return first;
}

/** Of a file, or of a seed as one that has no file. */
export async function caseFrom(text: string, profile: ProfileName): Promise<Case> {
  if (!isSeed(text)) return readCase(text);
  const scenario = scenarioFrom(seedOfText(text), profile);
  return { what: "", stores: STORE_KINDS, signature: null, commit: null, scenario };
}

const isSeed = (text: string): boolean => /^(\d{1,15}|today)$/.test(text);

export async function readCase(file: string): Promise<Case> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    throw invalid(WHAT, "file", file, `must be readable (${(error as Error).message})`);
  }
  return parseCase(text);
}

/** The commit that is checked out; null where git knows none. */
export async function commitHash(): Promise<string | null> {
  try {
    const { stdout } = await promisify(execFile)("git", ["rev-parse", "HEAD"], { cwd: import.meta.dirname });
    return stdout.trim();
  } catch {
    return null;
  }
}
