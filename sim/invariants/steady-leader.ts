/** Since when one server leads without a break and undisturbed: only then can it be said how soon its duties must be done. */
import type { LeadReply } from "../../engine/store.ts";
import type { HistoryEvent } from "../run/history.ts";
import type { Fault, Scenario } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";

const MS = 1_000;

/** Milliseconds that a fault goes on after it has begun. */
function lasts(fault: Fault): number {
  if (fault.type === "databaseClock") return Math.max(-fault.by, 0);
  const lasting = "for" in fault ? fault.for : 0;
  const down = "restartAfter" in fault ? (fault.restartAfter ?? 0) : 0;
  return lasting + down + (fault.type === "lateEvents" ? fault.by : 0);
}

/** Since when one and the same server leads without a break and nothing disturbs it. */
export class SteadyLeader {
  readonly #ttl: Micros;
  /** When the faults end, and everything is healed; what they have left behind takes longer. */
  readonly #end: Micros;
  #disturbedUntil: Micros = 0;
  #holder: string | null = null;
  /** Its process, for example `n0.1`. */
  #leads: string | null = null;
  #renewedAt: Micros = 0;
  #since: Micros = 0;

  constructor({ config, duration }: Scenario) {
    this.#ttl = config.leaderTtl * MS;
    this.#end = duration * MS;
  }

  /** For a commit in which a leader has renewed its lease: microseconds that it has led undisturbed; else null. */
  see(event: HistoryEvent): Micros | null {
    if (event.type === "fault") this.#disturb(event.at + lasts(event.fault) * MS);
    if (event.type === "down") this.#disturb(event.at);
    // Also when a handler keeps it busy, which need not be long enough for it to renew late.
    if ((event.type === "paused" || event.type === "resumed") && event.incarnation === this.#leads)
      this.#disturb(event.at);
    if (event.type !== "commit" || event.call.op !== "lead" || event.error !== undefined) return null;
    if (!(event.result as LeadReply).held) return null;
    if (event.at >= this.#end) this.#disturb(this.#end);
    const { holder } = event.args[0] as { readonly holder: string };
    const gap = event.at - this.#renewedAt;
    // A process that stands still, or is kept busy by a handler, renews late.
    if (holder !== this.#holder || gap > this.#ttl / 2) this.#since = event.at;
    this.#holder = holder;
    this.#leads = event.call.from.name;
    this.#renewedAt = event.at;
    return event.at - Math.max(this.#since, this.#disturbedUntil);
  }

  #disturb(until: Micros): void {
    this.#disturbedUntil = Math.max(this.#disturbedUntil, until);
  }
}
