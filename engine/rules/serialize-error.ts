/** Any thrown value as text for a job's history. */
import { inspect } from "node:util";
import { ERROR_MAX_BYTES, TRACE_MAX_BYTES } from "./limits.ts";
import { cutText } from "./text.ts";

export interface SerializedError {
  /** What went wrong and what caused it, in one text. Never empty; at most 2 KiB. */
  readonly error: string;
  /** Stack frames of the error and of its causes, at most 8 KiB; null when there are none. */
  readonly trace: string | null;
}

/** Causes and parts of an `AggregateError` that are shown, all together. */
const MAX_ERRORS = 8;
/** Longer texts are cut before they are joined, so that a huge message costs nothing. */
const MAX_UNITS = 2 * TRACE_MAX_BYTES;
const MAX_NAME_UNITS = 100;

/** Total: never throws and always gives readable text, whatever was thrown. */
export function serializeError(thrown: unknown): SerializedError {
  const seen: unknown[] = [];
  const traces: string[] = [];
  const error = cutText(describeChain(thrown, seen, traces), ERROR_MAX_BYTES);
  return {
    error: error.trim() === "" ? "an empty text was thrown" : error,
    trace: traces.length > 0 ? cutText(traces.join("\n"), TRACE_MAX_BYTES) : null,
  };
}

/** The error, the parts that it is made of, and its causes. */
function describeChain(thrown: unknown, seen: unknown[], traces: string[]): string {
  seen.push(thrown);
  let text = describe(thrown);
  const frames = framesOf(thrown);
  if (frames) traces.push(`${text.slice(0, ERROR_MAX_BYTES)}${frames}`);

  const follow = (next: unknown, prefix: string): void => {
    if (next === undefined || seen.length >= MAX_ERRORS || seen.includes(next)) return;
    const at = traces.length;
    text += `${prefix}${describeChain(next, seen, traces)}`;
    if (traces[at] !== undefined) traces[at] = `caused by ${traces[at]}`;
  };
  for (const part of partsOf(thrown)) follow(part, "; ");
  if (isObject(thrown)) follow(read(thrown, "cause"), "; caused by ");
  return text;
}

function describe(thrown: unknown): string {
  if (typeof thrown === "string") return thrown.slice(0, MAX_UNITS);
  if (!isObject(thrown)) return show(thrown);
  const name = textOf(thrown, "name")?.slice(0, MAX_NAME_UNITS);
  const message = textOf(thrown, "message")?.slice(0, MAX_UNITS);
  if (message === undefined && !isError(thrown)) return show(thrown);
  if (message === "") return name || "Error";
  return `${name || "Error"}: ${message ?? "(its message can't be read)"}`;
}

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

function isError(value: object): boolean {
  try {
    return value instanceof Error;
  } catch {
    return false;
  }
}

/** A property of a value that may be hostile; undefined when it can't be read. */
function read(from: object, key: string): unknown {
  try {
    return Reflect.get(from, key);
  } catch {
    return undefined;
  }
}

function textOf(from: object, key: string): string | undefined {
  const value = typeof from === "function" && key === "name" ? undefined : read(from, key);
  return typeof value === "string" ? value : undefined;
}

/** The lines of the stack that say where, without the message, which may be long; null when there are none. */
function framesOf(thrown: unknown): string | null {
  const stack = isObject(thrown) ? textOf(thrown, "stack") : undefined;
  const start = stack?.indexOf("\n    at ") ?? -1;
  return stack === undefined || start < 0 ? null : stack.slice(start, start + MAX_UNITS);
}

/** What an `AggregateError` stands for. */
function partsOf(thrown: unknown): unknown[] {
  const errors = isObject(thrown) ? read(thrown, "errors") : undefined;
  try {
    return Array.isArray(errors) ? errors.slice(0, MAX_ERRORS) : [];
  } catch {
    return [];
  }
}

/** A value that is no error. No code of the value itself runs. */
function show(value: unknown): string {
  try {
    return inspect(value, {
      depth: 2,
      customInspect: false,
      getters: false,
      maxArrayLength: 20,
      maxStringLength: 1_000,
      breakLength: Number.POSITIVE_INFINITY,
    });
  } catch {
    return `a value of type ${typeof value} that can't be shown`;
  }
}
