/** Values that break careless code, each made afresh. */
import { hostileProxy, revokedProxy, throwingGetter } from "../client/support.ts";

export interface HostileValue {
  readonly name: string;
  /** `largest`: how many bytes a text may have where the value is to go. */
  readonly make: (largest: number) => unknown;
}

const MIB = 2 ** 20;
const DAY = 86_400_000;

const fail = (): never => {
  throw new Error("hostile");
};

function circular(): unknown {
  const value: Record<string, unknown> = { a: [] };
  value["self"] = value;
  return value;
}

function nested(depth: number): unknown {
  let value: unknown = [];
  for (let n = 1; n < depth; n++) value = [value];
  return value;
}

/** `{"a": value}` with any name. */
const withKey = (key: string, value: unknown): object => Object.fromEntries([[key, value]]);

const TEXTS: Readonly<Record<string, (largest: number) => string>> = {
  "empty text": () => "",
  blank: () => " ",
  NUL: () => "a\u0000b",
  "lone surrogate": () => "a\ud800b",
  "swapped surrogates": () => "\udc00\ud800",
  "every plane": () => "e\u0301😀\u{10ffff}\ufffd\ufeff\uffff\u202e\u2028\u0085\u001b[31m",
  ["__proto__"]: () => "__proto__",
  constructor: () => "constructor",
  toJSON: () => "toJSON",
  "SQL and JSON path": () => '\'; DROP TABLE kiln_jobs; -- $.a["b"]%_',
  "number as text": () => "1e400",
  "duration as text": () => "30s",
  "largest text": (largest) => "x".repeat(largest),
  "too large text": (largest) => "x".repeat(largest + 1),
  "1 MiB": () => "x".repeat(MIB),
  "1 MiB + 1": () => "x".repeat(MIB + 1),
};

const NUMBERS: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  "-Infinity": Number.NEGATIVE_INFINITY,
  "-0": -0,
  "-1": -1,
  "0.5": 0.5,
  "2^31 - 1": 2 ** 31 - 1,
  "2^31": 2 ** 31,
  "2^53 - 1": 2 ** 53 - 1,
  "2^53": 2 ** 53,
  "1e18": 1e18,
  "1.8e308": Number.MAX_VALUE,
  "5e-324": Number.MIN_VALUE,
};

const OTHERS: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  null: () => null,
  true: () => true,
  bigint: () => 10n,
  symbol: () => Symbol("hostile"),
  function: () => fail,
  class: () => class Hostile {},
  circular,
  "1,000 levels": () => nested(998),
  "100,000 levels": () => nested(100_000),
  "own __proto__": () => JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}'),
  "NUL as key": () => withKey("\u0000", "\ud800"),
  "null prototype": () => Object.assign(Object.create(null), { a: 1 }),
  "undefined inside": () => ({ a: undefined, b: 1 }),
  "NaN inside": () => ({ a: [{ b: Number.NaN }] }),
  hole: () => new Array(2),
  "length of a huge array": () => ({ length: 2 ** 32 }),
  "throwing getter": () => throwingGetter("a"),
  "throwing toJSON": () => ({ toJSON: fail }),
  "toJSON of bigint": () => ({ toJSON: () => 1n }),
  "throwing toString": () => ({ toString: fail, [Symbol.toPrimitive]: fail }),
  "throwing then": () => throwingGetter("then"),
  "revoked proxy": () => revokedProxy(),
  "revoked array": () => revokedProxy([]),
  "revoked function": () => revokedProxy(fail),
  "hostile proxy": () => hostileProxy(),
  "hostile array": () => hostileProxy([]),
  map: () => new Map([[1, 2]]),
  bytes: () => new Uint8Array(3),
  "boxed text": () => Object("x"),
  error: () => new Error("x"),
  "invalid Date": () => new Date(Number.NaN),
  "year -1": () => new Date(-62_198_755_200_000),
  "year 1969": () => new Date(-1),
  "year 1970": () => new Date(0),
  "year 9999": () => new Date(Date.UTC(10_000, 0, 1) - 1),
  "year 10000": () => new Date(Date.UTC(10_000, 0, 1)),
  "last Date": () => new Date(8.64e15),
  "Date that lies": () =>
    Object.assign(new Date(5 * DAY), { getTime: () => Number.NaN, toISOString: fail, toJSON: fail }),
};

export const VALUES: readonly HostileValue[] = [
  ...Object.entries(TEXTS).map(([name, make]) => ({ name, make })),
  ...Object.entries(NUMBERS).map(([name, value]) => ({ name, make: () => value })),
  ...Object.entries(OTHERS).map(([name, make]) => ({ name, make })),
];

export const TEXT_NAMES: readonly string[] = Object.keys(TEXTS);

/** What JSON gives back as it was, or as `JSON.stringify` writes it; all else is refused. */
export const JSON_VALUES: readonly string[] = [
  ...TEXT_NAMES.filter((name) => !["too large text", "1 MiB", "1 MiB + 1"].includes(name)),
  ...Object.keys(NUMBERS).filter((name) => !name.includes("N") && !name.includes("I")),
  ...["null", "true", "1,000 levels", "own __proto__", "NUL as key", "null prototype", "undefined inside"],
  ...["length of a huge array"],
  ...["year -1", "year 1969", "year 1970", "year 9999", "year 10000", "last Date"],
];
