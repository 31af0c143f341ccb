/** Faults of what the server depends on: counted always, logged once per operation and ten seconds. */
import { callUser } from "../async.ts";
import type { Logger } from "../logger.ts";
import { serializeError } from "../rules/serialize-error.ts";
import type { Runtime } from "../runtime.ts";

const QUIET = 10_000;

export class Faults {
  readonly #runtime: Runtime;
  readonly #logger: Logger;
  readonly #lastLogged = new Map<string, number>();
  #count = 0;

  constructor(runtime: Runtime, logger: Logger) {
    this.#runtime = runtime;
    this.#logger = logger;
  }

  /** Faults since the start. */
  get count(): number {
    return this.#count;
  }

  /** `operation` is a short fixed name such as `claim`. */
  report(operation: string, error: unknown): void {
    this.#count += 1;
    this.#quietly(operation, () => this.log("error", `${operation} failed`, { error: serializeError(error).error }));
  }

  /** What is no fault but should be looked at, for example too slow. Logged once in ten seconds, like a fault. */
  warn(message: string, fields: Record<string, unknown>): void {
    this.#quietly(message, () => this.log("warn", message, fields));
  }

  #quietly(what: string, tell: () => void): void {
    const now = this.#runtime.monotonic();
    const last = this.#lastLogged.get(what);
    if (last !== undefined && now - last < QUIET) return;
    this.#lastLogged.set(what, now);
    tell();
  }

  log(level: keyof Logger, message: string, fields: Record<string, unknown> = {}): void {
    // When the logger itself fails there is nowhere left to tell.
    callUser(
      () => this.#logger[level](message, fields),
      () => {},
    );
  }
}
