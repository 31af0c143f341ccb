/**
 * Values as JSON text and back, without surprises: what would not come back as it was is refused and named by its path.
 * Three things do change, as in all JSON: properties that are undefined are left out, `-0` becomes `0`, and whatever has
 * a `toJSON` method, such as a `Date`, becomes what that returns. An instance of a class comes back as a plain object.
 */
import { types } from "node:util";
import { InvalidError, type Problem } from "./errors.ts";
import { FIELD_MAX_BYTES, pathStep } from "./problems.ts";
import { JSON_MAX_BYTES } from "./rules/limits.ts";
import { serializeError } from "./rules/serialize-error.ts";
import { cutText, shown } from "./rules/text.ts";
import type { JsonText } from "./store.ts";

/** What a value of type `T` is after it was encoded and decoded. `never` marks what can't be encoded. */
export type Decoded<T> = unknown extends T
  ? T
  : T extends { toJSON(): infer Json }
    ? Decoded<Json>
    : T extends string | number | boolean | null | undefined
      ? T
      : T extends bigint | symbol | ((...args: never[]) => unknown)
        ? never
        : { [Key in keyof T]: Decoded<T[Key]> };

/** As deep as objects and arrays may be nested: what the JSON functions of the databases can still read. */
export const JSON_MAX_DEPTH = 1_000;

/** The JSON, or the first thing that is wrong with the value. */
export type Encoded =
  | { readonly json: JsonText; readonly problem: null }
  | { readonly json: null; readonly problem: Problem };

/**
 * `value` as JSON. Refused are undefined (except as a property), functions, symbols, bigints, NaN, infinite numbers,
 * invalid dates, objects that JSON would empty (`Map`, `Error`, a promise, …), cycles, more than 1,000 levels, more than
 * 1 MiB, and what throws when it is read. The problem names the path inside the value, for example
 * `args.items[3].price`, beginning with `field`. Never throws.
 */
export function tryEncodeJson(value: unknown, field: string): Encoded {
  const encoder = new Encoder(field);
  try {
    // `JSON.stringify` may still give undefined: for a proxy that says something else when it is read again.
    const json = plainSize(value, 0) < SMALL ? (JSON.stringify(value) as JsonText | undefined) : undefined;
    return { json: json ?? encoder.encode(value), problem: null };
  } catch (error) {
    if (error instanceof Refusal) return { json: null, problem: error.problem };
    // Thrown by a getter, a toJSON or a proxy inside the value.
    const rule = `must be readable (${serializeError(error).error})`;
    return { json: null, problem: { field: encoder.path(), value: shown(value), rule } };
  }
}

/** The same for one value alone. @throws InvalidError; `what` says what can't be done */
export function encodeJson(value: unknown, what: string, field: string): JsonText {
  const { json, problem } = tryEncodeJson(value, field);
  if (problem !== null) throw new InvalidError(what, [problem]);
  return json;
}

/** The value of JSON text that a store gave back. @throws SyntaxError when it is not JSON */
export function decodeJson(text: JsonText): unknown {
  return JSON.parse(text);
}

/** What is surely below the limit: a character is at most six bytes, for example `\u0000`. */
const SMALL = JSON_MAX_BYTES / 6;
/** What an object, a number or punctuation counts. */
const ITEM = 8;

/**
 * At least a sixth of the bytes that `JSON.stringify` would write; infinite for values that need the encoder's care. Nearly
 * all args are small plain objects, and for them this makes encoding twice as fast.
 */
function plainSize(value: unknown, depth: number): number {
  if (typeof value === "string") return value.length + ITEM;
  if (typeof value === "number") return Number.isFinite(value) ? ITEM : Number.POSITIVE_INFINITY;
  if (typeof value === "boolean" || value === null) return ITEM;
  if (typeof value !== "object" || depth > 50) return Number.POSITIVE_INFINITY;
  const prototype: unknown = Object.getPrototypeOf(value);
  if ("toJSON" in value || (prototype !== Object.prototype && prototype !== Array.prototype))
    return Number.POSITIVE_INFINITY;
  let size = ITEM;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && size < SMALL; index++) size += plainSize(value[index], depth + 1);
    return size;
  }
  for (const key of Object.keys(value)) {
    if (size >= SMALL) break;
    const item = (value as Readonly<Record<string, unknown>>)[key];
    if (item !== undefined) size += key.length + plainSize(item, depth + 1);
  }
  return size;
}

/** Ends the writing of a value that can't be encoded. */
class Refusal {
  readonly problem: Problem;

  constructor(problem: Problem) {
    this.problem = problem;
  }
}

/** Writes JSON in one pass that reads each property once, so what is checked is what is written. */
class Encoder {
  readonly #field: string;
  /** Objects that are being written, outermost first, and the keys that lead from each to the next. */
  readonly #open: object[] = [];
  readonly #keys: (string | number)[] = [];
  #text = "";

  constructor(field: string) {
    this.#field = field;
  }

  encode(value: unknown): JsonText {
    const json = typeof value === "object" ? convert(value, "", this) : value;
    if (json === undefined) this.refuse(value, "must be given");
    this.#write(json);
    const text = this.#text;
    if (text.length * 3 > JSON_MAX_BYTES && Buffer.byteLength(text) > JSON_MAX_BYTES) this.#tooLarge();
    return text;
  }

  /** Where the value stands that is being written. */
  path(): string {
    return cutText(`${this.#field}${this.#keys.map(pathStep).join("")}`, FIELD_MAX_BYTES);
  }

  refuse(value: unknown, rule: string): never {
    throw new Refusal({ field: this.path(), value: shown(value), rule });
  }

  /** Writes a value other than undefined that has been through `convert`. */
  #write(value: unknown): void {
    switch (typeof value) {
      case "string":
        this.#text += JSON.stringify(value);
        break;
      case "number":
        if (!Number.isFinite(value)) this.refuse(value, "must be a finite number");
        this.#text += value;
        break;
      case "boolean":
        this.#text += value;
        break;
      case "object":
        if (value === null) this.#text += "null";
        else this.#writeObject(value);
        break;
      default:
        this.refuse(value, `must be JSON, not a ${typeof value}`);
    }
    // Each unit of the text is at least one byte, so this ends before a huge value has become a huge text.
    if (this.#text.length > JSON_MAX_BYTES) this.#tooLarge();
  }

  #writeObject(value: object): void {
    this.#open.push(value);
    if (this.#open.length > JSON_MAX_DEPTH) this.#tooDeep();
    if (Array.isArray(value)) this.#writeArray(value);
    else this.#writeProperties(value as Readonly<Record<string, unknown>>);
    this.#open.pop();
  }

  #writeArray(array: readonly unknown[]): void {
    const depth = this.#keys.push(0) - 1;
    this.#text += "[";
    for (let index = 0; index < array.length; index++) {
      this.#keys[depth] = index;
      if (index > 0) this.#text += ",";
      const item = array[index];
      const json = typeof item === "object" ? convert(item, String(index), this) : item;
      if (json === undefined) this.refuse(json, "must not be undefined (in an array use null)");
      this.#write(json);
    }
    this.#text += "]";
    this.#keys.pop();
  }

  #writeProperties(object: Readonly<Record<string, unknown>>): void {
    const depth = this.#keys.push("") - 1;
    let separator = "{";
    for (const key of Object.keys(object)) {
      this.#keys[depth] = key;
      const item = object[key];
      const json = typeof item === "object" ? convert(item, key, this) : item;
      if (json === undefined) continue;
      this.#text += `${separator}${JSON.stringify(key)}:`;
      separator = ",";
      this.#write(json);
    }
    this.#text += separator === "{" ? "{}" : "}";
    this.#keys.pop();
  }

  #tooLarge(): never {
    this.#keys.length = 0;
    this.refuse(this.#open[0] ?? this.#text, `must be at most ${JSON_MAX_BYTES} bytes as JSON`);
  }

  /** A cycle shows itself as endless depth; the objects that are open tell where it closed. */
  #tooDeep(): never {
    const open = this.#open;
    const closing = open.findIndex((object, index) => open.indexOf(object) < index);
    this.#keys.length = Math.max(closing, 0);
    if (closing > 0) this.refuse("itself", "must not contain an object that it is part of");
    this.refuse(open[0], `must be at most ${JSON_MAX_DEPTH} levels deep`);
  }
}

/** What `JSON.stringify` would write for an object: the result of its `toJSON`, or itself. */
function convert(value: object | null, key: string, encoder: Encoder): unknown {
  if (value === null) return value;
  const { toJSON } = value as { readonly toJSON?: unknown };
  if (typeof toJSON === "function") {
    if (types.isDate(value) && Number.isNaN(Date.prototype.getTime.call(value))) {
      encoder.refuse(value, "must be a valid Date");
    }
    return toJSON.call(value, key);
  }
  if (isEmptied(value)) encoder.refuse(value, `must be JSON, not a ${kindOf(value)}, which would lose its content`);
  return value;
}

/** True for built-in objects whose content JSON would leave out or distort. */
export function isEmptied(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === Array.prototype || prototype === null) return false;
  return (
    types.isMap(value) ||
    types.isSet(value) ||
    types.isPromise(value) ||
    types.isNativeError(value) ||
    types.isRegExp(value) ||
    types.isArrayBufferView(value) ||
    types.isAnyArrayBuffer(value) ||
    types.isBoxedPrimitive(value) ||
    types.isWeakMap(value) ||
    types.isWeakSet(value)
  );
}

function kindOf(value: object): string {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}
