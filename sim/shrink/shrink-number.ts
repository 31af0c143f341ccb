/** The numbers of a scenario, and smaller and rounder ones in their place. */
import { edgesOf } from "../scenario/edges.ts";
import { PLAIN_JOB, type Scenario } from "../scenario/scenario.ts";

/** Where a number stands, for example `["faults", 3, "for"]`. */
export type Path = readonly (string | number)[];

/** Counts: any whole number below will do. */
const COUNTS: ReadonlySet<string> = new Set(["nth"]);
/** Instants are only made rounder and earlier; there are no edges. */
const INSTANTS: ReadonlySet<string> = new Set(["at", "startAt", "duration", "sealAt"]);
const LENGTHS: ReadonlySet<string> = new Set([
  ...["for", "by", "restartAfter", "delay", "work", "obeys", "timeout", "window", "skew", "drift", "latency"],
]);
const PLAIN_WORK = PLAIN_JOB.runs[0]?.work;
const ROUND = [600_000, 60_000, 10_000, 5_000, 1_000];

export function numbersIn(scenario: Scenario): readonly Path[] {
  const found: Path[] = [];
  walk(scenario, [], found);
  return found;
}

function walk(value: unknown, path: Path, found: Path[]): void {
  if (typeof value === "number") {
    const name = String(path.at(-1));
    if (COUNTS.has(name) || INSTANTS.has(name) || LENGTHS.has(name)) found.push(path);
    return;
  }
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) for (const [index, entry] of value.entries()) walk(entry, [...path, index], found);
  else for (const [name, entry] of Object.entries(value)) walk(entry, [...path, name], found);
}

function numberAt(scenario: Scenario, path: Path): number {
  return path.reduce<unknown>((value, step) => (value as Readonly<Record<string, unknown>>)[step], scenario) as number;
}

export function withNumber(scenario: Scenario, path: Path, value: number): Scenario {
  const put = (of: unknown, [step, ...rest]: Path): unknown => {
    if (step === undefined) return value;
    if (Array.isArray(of)) return of.map((entry, index) => (index === step ? put(entry, rest) : entry));
    const object = of as Readonly<Record<string, unknown>>;
    return { ...object, [step]: put(object[step], rest) };
  };
  return put(scenario, path) as Scenario;
}

/** Ascending in size, none as large as what stands there. */
export function smallerNumbers(scenario: Scenario, path: Path): readonly number[] {
  const value = numberAt(scenario, path);
  const name = String(path.at(-1));
  const size = Math.abs(value);
  if (COUNTS.has(name)) return Array.from({ length: size }, (_, count) => count);
  // What plain jobs do is as simple as doing nothing.
  if (!LENGTHS.has(name) || (name === "work" && value === PLAIN_WORK)) return [];
  return edgesOf(scenario.config)
    .filter((edge) => edge < size)
    .map((edge) => edge * Math.sign(value));
}

/** The roundest first, none larger than what stands there. */
export function simplerNumbers(scenario: Scenario, path: Path): readonly number[] {
  const value = numberAt(scenario, path);
  const name = String(path.at(-1));
  if (COUNTS.has(name)) return [];
  const isEdge = LENGTHS.has(name) && edgesOf(scenario.config).includes(Math.abs(value));
  if (isEdge) return [];
  const round = ROUND.map((unit) => Math.trunc(value / unit) * unit).filter((rounder) => rounder !== value);
  return [...new Set(INSTANTS.has(name) && value !== 0 ? [0, ...round] : round)];
}
