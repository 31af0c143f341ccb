/** L7: a clock that stepped back keeps no key closed for long, because a leader opens such keys with its next sweep. */
import { type Checker, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { SWEEP } from "./promises.ts";
import { SteadyLeader } from "./steady-leader.ts";

/** Microseconds that a sweep may come late, when nothing goes wrong. */
const LATE = 2_000_000;

/** What keys do after a sweep is for `AdmissionFloor` to check. */
export class Sweeps implements Checker {
  readonly name = "sweeps";
  readonly #leader: SteadyLeader;
  #sweptAt: Micros = 0;

  constructor(scenario: Scenario) {
    this.#leader = new SteadyLeader(scenario);
  }

  see(event: HistoryEvent): void {
    const led = this.#leader.see(event);
    if (event.type !== "commit") return;
    if (event.call.op === "sweep" && event.error === undefined) this.#sweptAt = event.at;
    const due = SWEEP * 1_000 + LATE;
    // A call that got no answer is given up after 15 s.
    if (led === null || led < due + 16_000_000 || event.at - this.#sweptAt <= due) return;
    throw new Violation("L7", `the leader has not swept for ${Math.round((event.at - this.#sweptAt) / 1e6)} s`);
  }
}
