/**
 * S19: a server that has stopped leaves nothing behind, and stops in time.
 * L6: at SIGTERM it claims nothing more; running jobs have `shutdownTimeout`, then `killGrace`, and what does not finish is
 * handed back. How many round trips that takes is the only thing that is not bounded by its configuration, so of the time
 * it is only checked when nothing disturbs.
 */
import { type Checker, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario, SimConfig } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import type { Of, Send } from "./calls.ts";
import { CLOCK_ERROR, MS, slack } from "./timing.ts";
import type { View } from "./view.ts";

/** What the last lines of a handler's log get to be stored in, milliseconds. */
const CONSOLE = 2_000;

export class Shutdown implements Checker {
  readonly name = "S19 shutdown";
  readonly #view: View;
  readonly #config: SimConfig;
  /** When processes have got their signal. */
  readonly #told = new Map<string, Micros>();

  constructor(view: View, { config }: Scenario) {
    this.#view = view;
    this.#config = config;
  }

  see(event: HistoryEvent): void {
    if (event.type === "down") this.#down(event);
    else if (event.type === "resumed" && this.#view.processes.get(event.incarnation)?.stoppingAt != null) {
      // It may have been paused when it got its signal.
      this.#told.set(event.incarnation, event.at);
    } else if (event.type === "send" && event.call.op === "claim") this.#claim(event);
  }

  #down({ at, incarnation, how, armed }: Of<"down">): void {
    if (how === "stopping") this.#told.set(incarnation, at);
    if (how !== "stopped") return;
    if (armed !== 0) throw new Violation("S19", `a server has stopped and leaves ${armed} timers`);
    const told = this.#told.get(incarnation);
    const process = this.#view.processes.get(incarnation);
    // Since before it was told: what it was waiting for then may have been lost.
    const { leaderTtl, heartbeatInterval } = this.#config;
    const quiet = Math.max(leaderTtl, heartbeatInterval, LONGEST_CALL) * MS;
    if (told === undefined || process === undefined || this.#view.calmSince(process) > told - quiet) return;
    this.#checkHandedBack(process.server);
    const { shutdownTimeout, killGrace } = this.#config;
    const most = (shutdownTimeout + killGrace) * (1 + CLOCK_ERROR) + CONSOLE + slack(this.#config, 20);
    const took = (at - told) / MS;
    if (took > most) throw new Violation("S19", `a server takes ${took} ms to stop, not ${most}`);
  }

  #checkHandedBack(server: string | null): void {
    const [job] = (server === null ? undefined : this.#view.held.get(server)) ?? [];
    if (job !== undefined) throw new Violation("L6", "a server has stopped and still holds a job", job);
  }

  #claim({ at, incarnation }: Send): void {
    const told = this.#told.get(incarnation);
    if (told !== undefined && at > told) throw new Violation("L6", "a server claims that was told to stop");
  }
}

/** What a server waits for at most for an answer, milliseconds. */
const LONGEST_CALL = 15_000;
