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
    const now = this.#runtime.monotonic();
    const last = this.#lastLogged.get(operation);
    if (last !== undefined && now - last < QUIET) return;
    this.#lastLogged.set(operation, now);
    this.log("error", `${operation} failed`, { error: serializeError(error).error });
  }

  log(level: keyof Logger, message: string, fields: Record<string, unknown> = {}): void {
    // When the logger itself fails there is nowhere left to tell.
    callUser(
      () => this.#logger[level](message, fields),
      () => {},
    );
  }
}
