/**
 * What has happened in a run, from two sources that know nothing of each other: what the database has committed, in the
 * order of the commits, and what the processes have done. Invariants are checked against it while the run goes on.
 */
import type { JobId, StoreEvent } from "../../engine/store.ts";
import type { Change } from "../cluster/audit.ts";
import type { Call } from "../cluster/database.ts";
import type { Fault } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";

/** What was done in a commit. */
export interface Part {
  readonly op: string;
  readonly args: readonly unknown[];
  readonly result: unknown;
}

/** A call that the database has executed, whether or not anyone hears of it. */
export interface Commit {
  readonly type: "commit";
  readonly at: Micros;
  /** The database's clock as the call read it, milliseconds since 1970. */
  readonly clock: number;
  /** From 1. */
  readonly number: number;
  readonly call: Call;
  /** What it was executed with: a fault may have changed what was sent. */
  readonly args: readonly unknown[];
  /** What the database answered; undefined when it refused the call. */
  readonly result: unknown;
  readonly error: unknown;
  /** The call itself or, of a transaction, those of its calls that were not refused; none of a call that was refused. */
  readonly parts: readonly Part[];
  readonly changes: readonly Change[];
}

interface Of {
  readonly at: Micros;
  /** For example `n0.2`: the second start of process `n0`. */
  readonly incarnation: string;
}

interface OfRun extends Of {
  readonly job: JobId;
  readonly claim: number;
  readonly attempt: number;
}

export type ProcessEvent =
  | (OfRun & { readonly type: "start" })
  | (OfRun & { readonly type: "abort"; readonly reason: string })
  | (OfRun & { readonly type: "end"; readonly how: string })
  /** What a user's handler says for the timeline, for example that it has charged a card. */
  | (Of & { readonly type: "note"; readonly text: string })
  | (Of & { readonly type: "up" })
  /** `armed`: timers that were left when it had stopped. */
  | (Of & { readonly type: "down"; readonly how: "killed" | "stopped" | "stopping"; readonly armed?: number })
  /** An event of the store has reached it. */
  | (Of & { readonly type: "told"; readonly event: StoreEvent })
  | (Of & { readonly type: "paused" })
  /** It catches up now, timers first. */
  | (Of & { readonly type: "resumed" })
  | (Of & { readonly type: "send"; readonly call: Call })
  /** `result` is undefined unless it is `ok`. */
  | (Of & { readonly type: "reply"; readonly call: Call; readonly ok: boolean; readonly result: unknown });

export interface FaultEvent {
  readonly type: "fault";
  readonly at: Micros;
  /** What it hits: a process or `database`. */
  readonly target: string;
  readonly what: string;
  readonly fault: Fault;
}

/** From now on nothing goes wrong any more, apart from what is broken for ever. */
export interface HealedEvent {
  readonly type: "healed";
  readonly at: Micros;
}

export type HistoryEvent = Commit | ProcessEvent | FaultEvent | HealedEvent;

/** Numbers and lists of them say nothing about the kind of a failure. */
export function withoutNumbers(message: string): string {
  return message.replace(/\d+(\.\d+)?/g, "#").replace(/#(, #)+/g, "#");
}

/** A promise that was broken. */
export class Violation extends Error {
  override readonly name = "Violation";
  /** Its number in docs/simulator.md, for example `S3`. */
  readonly invariant: string;
  readonly job: JobId | null;

  constructor(invariant: string, message: string, job: JobId | null = null) {
    super(message);
    this.invariant = invariant;
    this.job = job;
  }

  /** The same for the same kind of failure: without numbers. */
  get signature(): string {
    return `${this.invariant} ${withoutNumbers(this.message)}`;
  }
}

/** Watches a run for one kind of broken promise. Throws a `Violation` as soon as it sees one. */
export interface Checker {
  readonly name: string;
  see(event: HistoryEvent): void;
  /** When the run is over. */
  end?(): void;
}

export class History {
  /** What the timeline may show: all but calls that changed nothing. */
  readonly events: HistoryEvent[] = [];
  readonly #checkers: readonly Checker[];
  readonly #onViolation: (violation: unknown) => void;
  #commits = 0;

  constructor(checkers: readonly Checker[], onViolation: (violation: unknown) => void) {
    this.#checkers = checkers;
    this.#onViolation = onViolation;
  }

  get commits(): number {
    return this.#commits;
  }

  nextCommit(): number {
    this.#commits += 1;
    return this.#commits;
  }

  /** Never throws: it is called from within handlers and the engine, which would take a violation for a failure of theirs. */
  add(event: HistoryEvent): void {
    const { type } = event;
    const quiet =
      type === "send" || type === "told" || type === "reply" || (type === "commit" && event.changes.length === 0);
    if (!quiet) this.events.push(event);
    try {
      for (const checker of this.#checkers) checker.see(event);
    } catch (violation) {
      this.#onViolation(violation);
    }
  }

  /** @throws Violation */
  end(): void {
    for (const checker of this.#checkers) checker.end?.();
  }
}
