/**
 * The one way in which options and arguments are checked: everything that is wrong is collected and thrown as one
 * `InvalidError`, each problem with its field, its value and the rule that it breaks.
 *
 *     const check = new Checker("can't start server", config, ["pollInterval", "queues", "name"]);
 *     const pollInterval = check.duration("pollInterval", { min: 10, max: 60_000, default: 1_000 });
 *     const queues = check.record("queues");
 *     const workers = queues?.keys.map((name) => queues.integer(name, { min: 1, max: 1_000, default: 1 }));
 *     check.end();
 *
 * Each option is read once, and a value that can't be read is a problem like any other. After a problem a method gives
 * its default back, so that checking goes on; `end` throws.
 */
import { isDate } from "node:util/types";
import { isEmptied } from "./json.ts";
import {
  type DurationRange,
  MAX_SHOWN,
  type NameRule,
  Problems,
  pathStep,
  type Range,
  readDate,
  readDuration,
  readInteger,
  readName,
  readText,
  type TextRule,
} from "./problems.ts";
import type { Writer } from "./store.ts";

/** Checks the fields of one object of options. */
export class Checker<Field extends string> {
  /** Names of the fields that have a value. */
  readonly keys: readonly Field[];
  readonly #what: string;
  readonly #path: string;
  readonly #problems: Problems;
  readonly #values: ReadonlyMap<string, unknown>;

  /**
   * Unknown names in `options` are problems; undefined options have no values. With `within`, the checker is part of
   * another and adds to its problems under a path such as `pools[0]`.
   */
  constructor(
    what: string,
    options: unknown,
    fields: readonly Field[] | "any",
    within: { readonly path: string; readonly problems: Problems } = { path: "", problems: new Problems() },
  ) {
    this.#what = what;
    this.#path = within.path;
    this.#problems = within.problems;
    this.#values = this.#read(options, fields);
    this.keys = [...this.#values.keys()] as Field[];
  }

  get problems(): Problems {
    return this.#problems;
  }

  /** Where a field stands, for example `pools[0].workers`. */
  field(name: string): string {
    const step = pathStep(name);
    return this.#path === "" && step[0] === "." ? name : `${this.#path}${step}`;
  }

  /** The value as it was given. */
  value(field: Field): unknown {
    return this.#values.get(field);
  }

  has(field: Field): boolean {
    return this.#values.has(field);
  }

  /** Adds a problem with a field's value. */
  refuse(field: Field, rule: string): void {
    this.#problems.add(this.field(field), this.value(field), rule);
  }

  /** Adds a problem for each of the fields that has no value. */
  required(...fields: readonly Field[]): void {
    for (const field of fields) if (!this.has(field)) this.refuse(field, "is required");
  }

  duration<Default = undefined>(field: Field, rule: DurationRange & { readonly default?: Default }): number | Default {
    return this.#or(field, rule.default, (value, path) => readDuration(this.#problems, path, value, rule));
  }

  integer<Default = undefined>(field: Field, rule: Range & { readonly default?: Default }): number | Default {
    return this.#or(field, rule.default, (value, path) => readInteger(this.#problems, path, value, rule));
  }

  name<Default = undefined>(
    field: Field,
    rule: NameRule,
    words: string,
    { default: fallback }: { readonly default?: Default } = {},
  ): string | Default {
    return this.#or(field, fallback, (value, path) => readName(this.#problems, path, value, rule, words));
  }

  text<Default = undefined>(field: Field, rule: TextRule & { readonly default?: Default } = {}): string | Default {
    return this.#or(field, rule.default, (value, path) => readText(this.#problems, path, value, rule));
  }

  date(field: Field): Date | undefined {
    return this.#or(field, undefined, (value, path) => readDate(this.#problems, path, value));
  }

  boolean<Default = undefined>(field: Field, rule: { readonly default?: Default } = {}): boolean | Default {
    return this.#or(field, rule.default, (value) =>
      this.#accept<boolean>(field, typeof value === "boolean", "must be true or false"),
    );
  }

  oneOf<Value extends string>(field: Field, values: readonly Value[]): Value | undefined {
    return this.#or(field, undefined, (value) =>
      this.#accept<Value>(field, (values as readonly unknown[]).includes(value), `must be one of ${values.join(", ")}`),
    );
  }

  /** A function; `Signature` is the caller's word for it. */
  function<Signature>(field: Field): Signature | undefined {
    return this.#or(field, undefined, (value) =>
      this.#accept<Signature>(field, typeof value === "function", "must be a function"),
    );
  }

  /** An object with these methods; `Shape` is the caller's word for it. */
  object<Shape>(field: Field, methods: readonly (keyof Shape & string)[]): Shape | undefined {
    return this.#or(field, undefined, (value) =>
      this.#accept<Shape>(field, hasMethods(value, methods), `must be an object with ${methods.join(", ")}`),
    );
  }

  /** A copy of an array; the elements are the caller's to check, as `field(…)[index]`. */
  array(field: Field): unknown[] | undefined {
    return this.#or(field, undefined, (value) => {
      const copy = copyArray(value);
      if (copy === null) this.refuse(field, "must be an array");
      return copy ?? undefined;
    });
  }

  /** An object within, as a checker; without `fields` it may have any names, which are its `keys`. */
  record<Inner extends string = string>(
    field: Field,
    fields: readonly Inner[] | "any" = "any",
  ): Checker<Inner> | undefined {
    return this.#or(field, undefined, (value, path) => {
      return new Checker(this.#what, value, fields, { path, problems: this.#problems });
    });
  }

  /** An array of objects that have these fields, each as a checker. */
  items<Inner extends string>(field: Field, fields: readonly Inner[]): Checker<Inner>[] | undefined {
    return this.array(field)?.map(
      (item, index) =>
        new Checker(this.#what, item ?? null, fields, {
          path: `${this.field(field)}[${index}]`,
          problems: this.#problems,
        }),
    );
  }

  /** @throws InvalidError when there was a problem. */
  end(): void {
    this.#problems.end(this.#what);
  }

  #accept<T>(field: Field, ok: boolean, rule: string): T | undefined {
    if (ok) return this.value(field) as T;
    this.refuse(field, rule);
    return undefined;
  }

  #or<T, Default>(
    field: Field,
    fallback: Default | undefined,
    parse: (value: unknown, path: string) => T | undefined,
  ): T | Default {
    const parsed = this.has(field) ? parse(this.value(field), this.field(field)) : undefined;
    return parsed === undefined ? (fallback as Default) : parsed;
  }

  #read(options: unknown, fields: readonly Field[] | "any"): Map<string, unknown> {
    const values = new Map<string, unknown>();
    if (options === undefined) return values;
    const names = namesOf(options);
    if (names === null) {
      this.#problems.add(this.#path || "options", options, "must be an object");
      return values;
    }
    for (const name of fields === "any" ? names : fields) {
      const value = read(options as object, name);
      if (value === UNREADABLE) this.#problems.push({ field: this.field(name), value: "an error", rule: READABLE });
      else if (value !== undefined) values.set(name, value);
    }
    if (fields !== "any") this.#refuseUnknown(options as object, names, fields);
    return values;
  }

  #refuseUnknown(options: object, names: readonly string[], fields: readonly string[]): void {
    const unknown = names.filter((name) => !fields.includes(name));
    for (const name of unknown.slice(0, MAX_SHOWN)) {
      const likely = closest(name, fields);
      const hint = likely === null ? `(known are ${fields.join(", ")})` : `(did you mean ${likely}?)`;
      const value = read(options, name);
      this.#problems.add(this.field(name), value === UNREADABLE ? undefined : value, `is unknown ${hint}`);
    }
  }
}

/**
 * The names of an object's own properties, or null when it is none, or can't be read, or is an array, a `Map`, a `Date` or the
 * like, whose content are no properties and would be passed over.
 */
function namesOf(value: unknown): string[] | null {
  try {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
    return isDate(value) || isEmptied(value) ? null : Object.keys(value);
  } catch {
    return null;
  }
}

const UNREADABLE = Symbol("unreadable");
const READABLE = "must be readable";

function read(from: object, name: string): unknown {
  try {
    return Reflect.get(from, name);
  } catch {
    return UNREADABLE;
  }
}

/** A copy, so that it is read once; null for anything but an array that can be read. */
export function copyArray(value: unknown): unknown[] | null {
  try {
    return Array.isArray(value) ? Array.from(value) : null;
  } catch {
    return null;
  }
}

/** True for an object whose properties of these names are functions. */
export function hasMethods(value: unknown, methods: readonly string[]): boolean {
  return (
    typeof value === "object" && value !== null && methods.every((name) => typeof read(value, name) === "function")
  );
}

/** What a store has, and what it gives to the work of a transaction. */
export const WRITER = ["insert", "openBatch", "sealBatch", "setParams"] as const satisfies readonly (keyof Writer)[];

export function isAbortSignal(value: unknown): value is AbortSignal {
  try {
    return value instanceof AbortSignal;
  } catch {
    // A proxy that does not say what it is.
    return false;
  }
}

/** The known name that is most like `name`, or null when none is like it. */
export function closest(name: string, known: readonly string[]): string | null {
  const [best] = known
    .map((candidate) => ({ candidate, distance: editDistance(name.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance);
  return best?.candidate ?? null;
}

/** How many letters must be added, removed or changed to make one text of the other (Levenshtein). */
function editDistance(from: string, to: string): number {
  if (Math.abs(from.length - to.length) > to.length) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const change = (row[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}
