/**
 * Finds what the lint rules can't see: engine code, or a library of it, that reads a real clock, sets a real timer or draws
 * a real random number while a simulated event is under way. Such a run could not be repeated.
 *
 * Only this file replaces what Node offers; it does so as long as runs are watched, and puts everything back.
 */
import nodeCrypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";

export interface Touch {
  /** For example `Date.now`. */
  readonly api: string;
  /** File and line of whoever has called it, for example `engine/client.ts:12`. */
  readonly where: string;
}

/** One that is watched. */
export interface Watched {
  /** Code is running that must not touch anything real. */
  readonly inEvent: boolean;
}

type Callable = (...args: never[]) => unknown;
type OnTouch = (touch: Touch) => void;

const watchers = new Map<Watched, OnTouch>();
let restore: (() => void) | null = null;

/** Tells of each touch. Returns how to stop watching. */
export function watch(watched: Watched, onTouch: OnTouch): () => void {
  watchers.set(watched, onTouch);
  restore ??= replaceAll();
  return () => {
    watchers.delete(watched);
    if (watchers.size > 0) return;
    restore?.();
    restore = null;
  };
}

/** Whether it was touched by code that must not. */
function touched(api: string): boolean {
  let found = false;
  for (const [watched, onTouch] of watchers) {
    if (!watched.inEvent) continue;
    const where = caller();
    if (api === "new Date()" && IGNORES_IT.test(where)) return true;
    onTouch({ api, where });
    found = true;
  }
  return found;
}

/**
 * Croner's `nextRun` asks for the time in case it is called without an instant, which the engine never does. It gets a
 * date that is none: if it ever looked at it, it would throw.
 */
const IGNORES_IT = /(^|\/)node_modules\/croner\//;

/** Not this file, nor the runtime of production: whoever uses that in place of the simulated one. */
const PASSED_OVER = /\/sim\/world\/tripwire\.[jt]s|\/engine\/runtime\.[jt]s|\(<anonymous>\)|node:internal/;
const ROOT = new URL("../../", import.meta.url).pathname;

function caller(): string {
  // The deeper a stack is looked at, the longer that takes, and who is looked for most often stands near the top.
  const line = whoCalls(5) ?? whoCalls(20) ?? "unknown";
  const [, file = line, number = "?"] = /(?:file:\/\/)?([^\s()]+):(\d+):\d+\)?$/.exec(line) ?? [];
  return `${file.startsWith(ROOT) ? file.slice(ROOT.length) : file}:${number}`;
}

/** Its line among the topmost ones of the stack. */
function whoCalls(depth: number): string | undefined {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = depth;
  const lines = (new Error().stack ?? "").split("\n").slice(1);
  Error.stackTraceLimit = limit;
  return lines.find((text) => !PASSED_OVER.test(text))?.trim();
}

function replaceAll(): () => void {
  const undo: (() => void)[] = [];
  const replace = (owner: object, name: string, value: unknown): void => {
    const own = Object.getOwnPropertyDescriptor(owner, name);
    Object.defineProperty(owner, name, {
      value,
      writable: true,
      configurable: true,
      enumerable: own?.enumerable ?? false,
    });
    undo.push(() => {
      if (own === undefined) Reflect.deleteProperty(owner, name);
      else Object.defineProperty(owner, name, own);
    });
  };
  const wire = (owner: object, name: string, api: string): void => {
    const real = Reflect.get(owner, name) as Callable;
    const wired = function (this: unknown, ...args: never[]): unknown {
      touched(api);
      return Reflect.apply(real, this, args);
    };
    replace(owner, name, Object.defineProperties(wired, Object.getOwnPropertyDescriptors(real)));
  };
  for (const name of ["setTimeout", "setInterval", "setImmediate"]) wire(globalThis, name, name);
  wire(Date, "now", "Date.now");
  wire(Math, "random", "Math.random");
  wire(performance, "now", "performance.now");
  wire(process, "hrtime", "process.hrtime");
  wire(process.hrtime, "bigint", "process.hrtime.bigint");
  wire(process, "nextTick", "process.nextTick");
  wire(AbortSignal, "timeout", "AbortSignal.timeout");
  // What `node:crypto` has under these names goes through here too.
  for (const name of ["randomUUID", "getRandomValues"]) wire(Crypto.prototype, name, `crypto.${name}`);
  for (const name of ["randomUUID", "randomBytes", "randomInt", "randomFillSync"]) {
    wire(nodeCrypto, name, `crypto.${name}`);
  }
  replace(globalThis, "Date", wiredDate());
  syncBuiltinESMExports();
  return () => {
    for (const step of undo.reverse()) step();
    syncBuiltinESMExports();
  };
}

/** Only without an argument does it read the clock. A function, since a proxy would slow down all that makes dates. */
function wiredDate(): DateConstructor {
  const real = Date;
  function wired(this: unknown, ...args: unknown[]): Date | string {
    if (new.target === undefined) {
      touched("Date()");
      return real();
    }
    if (args.length === 0 && touched("new Date()")) return new real(Number.NaN);
    return new.target === wired ? new real(...(args as [number])) : (Reflect.construct(real, args, new.target) as Date);
  }
  Object.setPrototypeOf(wired, real);
  wired.prototype = real.prototype;
  return wired as unknown as DateConstructor;
}
