/**
 * S16: by the store's clock at most one server holds the leader's lease. One that has lost it may go on for a moment, until
 * it finds out; all that it can still commit is fenced by claim numbers (S3), right for good (S6: a dead server stays dead),
 * fenced by versions (recurring jobs) or harmless to repeat (S17).
 * L3: while a server runs whose calls get through there is a leader, and it stays.
 */
import type { LeadQuery, LeadReply } from "../../engine/store.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario, SimConfig } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import type { Reply, Send } from "./calls.ts";
import { CLOCK_ERROR, MS, slack } from "./timing.ts";
import type { View } from "./view.ts";

const DUTIES: ReadonlySet<string> = new Set(["orphans", "sweep", "prune", "dueRecurring", "fireRecurring"]);

export class Lease implements Checker {
  readonly name = "S16 lease";
  readonly #view: View;
  readonly #config: SimConfig;
  /** By process: when the latest renewal was sent that it knows it got. */
  readonly #renewed = new Map<string, Micros>();

  constructor(view: View, { config }: Scenario) {
    this.#view = view;
    this.#config = config;
  }

  see(event: HistoryEvent): void {
    if (event.type === "commit" && event.call.op === "lead" && event.error === undefined) this.#asked(event);
    else if (event.type === "reply" && event.ok && event.call.op === "lead") this.#told(event);
    else if (event.type === "send" && DUTIES.has(event.call.op)) this.#duty(event);
  }

  #asked({ clock, args, result }: Commit): void {
    const { holder } = args[0] as LeadQuery;
    const { held, heldFor } = result as LeadReply;
    const current = this.#view.leaseAt(clock);
    const free = current === null || current.holder === holder;
    if (held && !free) throw broken("two servers hold the lease");
    if (!held && free) throw broken("the lease is free and refused");
    const since = current?.holder === holder ? clock - current.sinceClock : 0;
    if (held && heldFor !== since) throw broken(`the lease was held for ${since} ms, not ${heldFor}`);
  }

  #told({ incarnation, call, result }: Reply): void {
    if (!(result as LeadReply).held) return;
    this.#renewed.set(incarnation, Math.max(call.sentAt, this.#renewed.get(incarnation) ?? 0));
  }

  /** A leader that could not renew in time steps down; the call by which it tries last may take a third of the time more. */
  #duty({ at, incarnation, call }: Send): void {
    const renewed = this.#renewed.get(incarnation);
    if (renewed === undefined) throw broken(`${call.op} by a server that has never led`);
    const { leaderTtl } = this.#config;
    const ends = renewed + leaderTtl * (1 + CLOCK_ERROR) * MS;
    // One that was paused looks for its lease first thing.
    const since = Math.max(ends, this.#view.processes.get(incarnation)?.resumedAt ?? 0);
    const over = (at - since) / MS;
    if (over > (leaderTtl / 3) * (1 + CLOCK_ERROR) + slack(this.#config, 4)) {
      throw broken(`${call.op} by a server whose lease ran out ${over} ms ago`);
    }
  }
}

const broken = (message: string): Violation => new Violation("S16", message);

export class LeaderStays implements Checker {
  readonly name = "L3 leader";
  readonly #view: View;
  readonly #config: SimConfig;
  /** When a leader that was stopping gave its lease up last. */
  #resigned: Micros = 0;

  constructor(view: View, { config }: Scenario) {
    this.#view = view;
    this.#config = config;
  }

  /** A server asks for the lease every third of its time, and gives a call up after another third. */
  get #patience(): number {
    return ((2 * this.#config.leaderTtl) / 3) * (1 + CLOCK_ERROR) + slack(this.#config, 6);
  }

  see(event: HistoryEvent): void {
    if (event.type !== "commit" || event.error !== undefined) return;
    if (event.call.op === "resign") this.#resigned = event.at;
    if (event.call.op === "heartbeat") this.#checkThereIsOne(event);
    if (event.call.op === "lead") this.#checkItStays(event);
  }

  #checkThereIsOne({ at, clock }: Commit): void {
    if (this.#view.leaseAt(clock) !== null) return;
    const { lease } = this.#view;
    const over = lease === null ? Number.NEGATIVE_INFINITY : at - (clock - lease.expires) * MS;
    for (const process of this.#view.processes.values()) {
      if (process.paused || process.server === null || process.stoppingAt !== null) continue;
      const without = (at - Math.max(over, this.#view.calmSince(process), this.#resigned)) / MS;
      if (without > this.#patience) throw new Violation("L3", `no server has led for ${without} ms`);
    }
  }

  #checkItStays({ at, clock, args, result }: Commit): void {
    const { lease, calm } = this.#view;
    const { holder } = args[0] as LeadQuery;
    if (!(result as LeadReply).held || lease === null || lease.holder === holder || lease.expires > clock) return;
    const process = this.#view.processOfServer(lease.holder, lease.incarnation);
    if (process === null || process.paused || process.stoppingAt !== null) return;
    if (calm.clockStepped > at - this.#config.leaderTtl * MS) return;
    const was = (at - this.#view.calmSince(process)) / MS;
    if (was > this.#patience)
      throw new Violation("L3", `a leader loses its lease that has been up and connected for ${was} ms`);
  }
}
