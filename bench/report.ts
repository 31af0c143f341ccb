/** The result of a suite: rows with their targets, as a table for people and as JSON for programs. */
import { writeFileSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import { VERSION } from "../engine/version.ts";

export interface Target {
  readonly rule: "≤" | "≥" | "<";
  readonly value: number;
}

export interface Row {
  readonly name: string;
  readonly value: number;
  /** For example `ms`, or `×` for a ratio. */
  readonly unit: string;
  /** Null: for information. */
  readonly target: Target | null;
}

/** What a suite's rows were measured with, for example the durability of a store. */
export type Facts = Readonly<Record<string, string | number>>;

export interface Report {
  readonly suite: string;
  readonly rows: readonly Row[];
  readonly facts: Facts;
}

export const atMost = (value: number): Target => ({ rule: "≤", value });
export const atLeast = (value: number): Target => ({ rule: "≥", value });
export const below = (value: number): Target => ({ rule: "<", value });

/** Null when there is no target. A value that is not a number meets none. */
export function met({ value, target }: Row): boolean | null {
  if (target === null) return null;
  if (target.rule === "≤") return value <= target.value;
  if (target.rule === "≥") return value >= target.value;
  return value < target.value;
}

export function missed(rows: readonly Row[]): Row[] {
  return rows.filter((row) => met(row) === false);
}

const HEAD = ["name", "value", "unit", "target", "met"] as const;

/** One line for each row below a line of heads; numbers are aligned to the right. */
export function toTable(rows: readonly Row[]): string {
  const lines = [HEAD, ...rows.map(cells)];
  const widths = HEAD.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? "").length)));
  const isNumber = (column: number): boolean => HEAD[column] === "value" || HEAD[column] === "target";
  const pad = (text: string, column: number): string => {
    const width = widths[column] ?? 0;
    return isNumber(column) ? text.padStart(width) : text.padEnd(width);
  };
  return lines.map((line) => `${line.map(pad).join("  ").trimEnd()}\n`).join("");
}

function cells(row: Row): string[] {
  const { name, value, unit, target } = row;
  const isMet = met(row);
  return [
    name,
    toText(value),
    unit,
    target === null ? "" : `${target.rule} ${toText(target.value)}`,
    isMet === null ? "" : isMet ? "yes" : "NO",
  ];
}

/** Whole numbers from a hundred up, else three significant digits. */
export function toText(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
}

export function toJson({ suite, rows, facts }: Report, date: Date): string {
  const machine = {
    node: process.version,
    kiln: VERSION,
    cores: availableParallelism(),
    cpu: cpus()[0]?.model ?? "unknown",
    memory: totalmem(),
    platform: `${process.platform} ${process.arch}`,
  };
  const named = rows.map((row) => ({
    ...row,
    target: row.target && `${row.target.rule} ${row.target.value}`,
    met: met(row),
  }));
  return `${JSON.stringify({ suite, date, machine, facts, rows: named }, null, 2)}\n`;
}

export function writeJson(file: string, report: Report): void {
  writeFileSync(file, toJson(report, new Date()));
}
