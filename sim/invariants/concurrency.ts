/** S11: never more jobs of a key run than its `max`, and never more handlers than a server has workers. */
import { type Checker, type HistoryEvent, type ProcessEvent, Violation } from "../run/history.ts";
import type { SimConfig } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { taken } from "./commits.ts";
import { LimitKeys } from "./limit-keys.ts";

/**
 * `max` holds by the database: a job runs from the commit of its claim to that of its end, whether or not its server knows
 * of it. When the numbers are lowered more may be running than they allow, but none is added.
 */
export class KeyConcurrency implements Checker {
  readonly name = "key concurrency";
  readonly #keys = new LimitKeys();

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    this.#keys.see(event);
    for (const { id, row } of taken(event)) {
      const key = row.limitKey === null ? undefined : this.#keys.keys.get(row.limitKey);
      if (key === undefined || key.doubtful || key.limit.max === 0 || key.running.size <= key.limit.max) continue;
      const { name, limit, running } = key;
      throw new Violation("S11", `key ${name}: ${running.size} jobs run, at most ${limit.max} may`, id);
    }
  }
}

type OfRun = Extract<ProcessEvent, { readonly claim: number }>;

/** Timers may be early by so much, by a clock that runs too fast. */
const DRIFT = 0.999;

/** A handler that ignores its signal is given up after `killGrace`; it then takes up no worker any more. */
export class ServerConcurrency implements Checker {
  readonly name = "server concurrency";
  readonly #config: SimConfig;
  /** By start of a server: its handlers, and when each was told to stop. */
  readonly #handlers = new Map<string, Map<string, Micros | null>>();

  constructor(config: SimConfig) {
    this.#config = config;
  }

  see(event: HistoryEvent): void {
    if (event.type === "down" && event.how !== "stopping") this.#handlers.delete(event.incarnation);
    if (event.type === "end") this.#of(event).delete(idOf(event));
    if (event.type === "abort" && this.#of(event).has(idOf(event))) this.#of(event).set(idOf(event), event.at);
    if (event.type === "start") this.#start(event);
  }

  #start(event: OfRun): void {
    const { workers, killGrace } = this.#config;
    const handlers = this.#of(event);
    handlers.set(idOf(event), null);
    const given = event.at - killGrace * 1_000 * DRIFT;
    const busy = [...handlers.values()].filter((aborted) => aborted === null || aborted > given).length;
    if (busy <= workers) return;
    throw new Violation("S11", `a server with ${workers} workers runs ${busy} handlers`, event.job);
  }

  #of({ incarnation }: OfRun): Map<string, Micros | null> {
    const known = this.#handlers.get(incarnation);
    if (known) return known;
    const made = new Map<string, Micros | null>();
    this.#handlers.set(incarnation, made);
    return made;
  }
}

const idOf = ({ job, claim }: OfRun): string => `${job}:${claim}`;
