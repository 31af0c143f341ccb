/**
 * Since when nothing is wrong. Promises about time are made for a world in which calls get through; this says when that was
 * so again. What must not matter is no disturbance: wrong clocks of servers, and events that are lost, late or doubled.
 */
import type { HistoryEvent } from "../run/history.ts";
import type { Fault, Scenario } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";

const MS = 1_000;

export class Calm {
  readonly #byProcess = new Map<string, Micros>();
  readonly #roundTrip: number;
  /** When the database was last down, slow, full of errors or set to another time; may lie ahead, or at no time at all. */
  #database: Micros = 0;
  /** When its clock was stepped last. */
  clockStepped: Micros = Number.NEGATIVE_INFINITY;

  constructor({ config: { latency, heartbeatInterval, leaderTtl } }: Scenario) {
    this.#roundTrip = 2 * latency * MS;
    // Calls that take longer than servers wait for their answers get through, but never in time.
    const patience = Math.min(heartbeatInterval, leaderTtl / 3) * MS;
    if (this.#roundTrip >= patience) this.#database = Number.POSITIVE_INFINITY;
  }

  get database(): Micros {
    return this.#database;
  }

  /** Of a process and the way to the database, by name such as `n0`; pauses and ends of the process itself are not counted. */
  of(process: string): Micros {
    return Math.max(this.#database, this.#byProcess.get(process) ?? 0);
  }

  see(event: HistoryEvent): void {
    if (event.type === "fault") this.#fault(event.fault, event.target, event.at);
    else if (event.type === "healed") {
      const { at } = event;
      if (Number.isFinite(this.#database)) this.#database = Math.min(this.#database, at);
      for (const [process, until] of this.#byProcess) this.#byProcess.set(process, Math.min(until, at));
    }
  }

  #fault(fault: Fault, target: string, at: Micros): void {
    switch (fault.type) {
      case "errors":
      case "databaseDown":
      case "databaseStall":
        this.#disturbDatabase(at, fault.for);
        return;
      case "databaseClock":
        this.clockStepped = at;
        this.#disturbDatabase(at, 0);
        return;
      case "partition":
      case "delayRequest":
      case "delayReply":
        this.#disturb(target, at, fault.for);
        return;
      case "slowCommit":
        this.#disturb(target, at, fault.for);
        this.#disturbDatabase(this.of(target), fault.for);
        return;
      case "loseRequest":
      case "loseReply":
      case "errorBefore":
      case "errorAfter":
      case "limitOne":
        this.#disturb(target, at, 0);
    }
  }

  /** Two may come one after the other, so their times add up. */
  #disturb(process: string, at: Micros, ms: number): void {
    const until = Math.max(this.of(process), at + this.#roundTrip) + ms * MS;
    this.#byProcess.set(process, until);
  }

  #disturbDatabase(at: Micros, ms: number): void {
    this.#database = Math.max(this.#database, at + this.#roundTrip) + ms * MS;
  }
}
