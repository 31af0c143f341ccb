/**
 * One server at a time holds the leader's lease and does what must be done once for all: recurring jobs, rescue, sweep, prune.
 *
 *     follower ──lease acquired──→ leader ──refused, or not renewed for leaderTtl──→ follower
 *
 * Two servers may believe that they lead for a moment (a pause, a late reply); all that a leader writes is fenced by claim
 * numbers or harmless to repeat.
 */
import { Background, sleep, withDeadline } from "../async.ts";
import { type RescuePolicy, rescueOutcome } from "../rules/rescue.ts";
import type { Runtime } from "../runtime.ts";
import type { JobState, Orphan, Outcome, Retention, Store } from "../store.ts";
import type { Faults } from "./faults.ts";
import { Recurring } from "./recurring.ts";

export interface LeaderDeps {
  readonly runtime: Runtime;
  readonly store: Store;
  readonly faults: Faults;
  /** Id of this server. */
  readonly server: () => string;
  readonly ttl: number;
  /** Time that all servers get to beat again before a new leader declares anyone dead, milliseconds. */
  readonly rescueDelay: number;
  readonly rescueInterval: number;
  readonly retention: Retention;
  readonly rescuePolicy: RescuePolicy;
  /** A rescued job's outcome was applied. */
  readonly onRescued: (orphan: Orphan, outcome: Outcome, state: JobState) => void;
}

const LEASE = "kiln.leader";
const CALL_DEADLINE = 15_000;
const RESIGN_DEADLINE = 5_000;
const RESCUE_LIMIT = 1_000;
const SWEEP_INTERVAL = 10_000;
const SWEEP_LIMIT = 1_000;
const PRUNE_INTERVAL = 60_000;
const PRUNE_LIMIT = 5_000;
const SERVER_RETENTION = 3_600_000;
const STATS_RETENTION = 14 * 24 * 3_600_000;

/** One stretch of leadership. */
interface Term {
  readonly holder: string;
  readonly abort: AbortController;
  readonly duties: Background;
}

export class Leader {
  readonly #deps: LeaderDeps;
  readonly #recurring: Recurring;
  /** Of terms that have ended: calls that were under way then. */
  readonly #ending: Background;
  #term: Term | null = null;
  /** When the lease must have been renewed; monotonic milliseconds, counted from when the renewal was sent. */
  #until = 0;

  constructor(deps: LeaderDeps) {
    this.#deps = deps;
    this.#recurring = new Recurring(deps);
    this.#ending = new Background((name, error) => deps.faults.report(name, error));
  }

  get leading(): boolean {
    return this.#term !== null;
  }

  /** A recurring job was set: a leader looks at once when it is due. */
  recurringSet(): void {
    this.#recurring.wake();
  }

  /** Stands for election until the signal aborts, then resigns. */
  async run(signal: AbortSignal): Promise<void> {
    const { runtime, ttl } = this.#deps;
    while (!signal.aborted) {
      await this.#renew();
      await sleep(runtime, ttl / 3, signal);
    }
    const term = this.#term;
    this.#stepDown();
    await this.#ending.idle();
    if (term !== null) await this.#resign(term.holder);
  }

  async #renew(): Promise<void> {
    const { runtime, store, faults, server, ttl } = this.#deps;
    const sent = runtime.monotonic();
    // A server that had to start over under a new id no longer holds what its old id held. And one that stood still while
    // its lease ran out, and gets it again, is a new leader: others may have been out of reach as long.
    const holder = server();
    if (this.#term !== null && (this.#term.holder !== holder || !this.#holds())) this.#stepDown();
    try {
      const lead = (): ReturnType<Store["lead"]> => store.lead({ name: LEASE, holder, ttl });
      const { held } = await withDeadline(runtime, "lead", ttl / 3, lead);
      if (!held) return this.#stepDown();
      this.#until = sent + ttl;
      if (this.#term === null) this.#start(holder);
    } catch (error) {
      faults.report("lead", error);
      // The next try would come after the lease has run out.
      if (this.#term !== null && this.#until <= runtime.monotonic() + ttl / 3) this.#stepDown();
    }
  }

  #start(holder: string): void {
    const { runtime, faults, rescueDelay, rescueInterval } = this.#deps;
    const duties = new Background((name, error) => faults.report(name, error));
    const term: Term = { holder, abort: new AbortController(), duties };
    this.#term = term;
    runtime.mark("became leader");
    duties.start("recurring", () => this.#recurring.run(term.abort.signal));
    this.#duty(term, "rescue", rescueDelay, rescueInterval, () => this.#rescue(term));
    this.#duty(term, "sweep", 0, SWEEP_INTERVAL, () => this.#sweep());
    this.#duty(term, "prune", 0, PRUNE_INTERVAL, () => this.#prune());
  }

  /** The lease can't have run out: it has not by this server's own clock. */
  #holds(): boolean {
    return this.#deps.runtime.monotonic() < this.#until;
  }

  /** Does not wait for calls that may never be answered: meanwhile it stands for election again. */
  #stepDown(): void {
    const term = this.#term;
    if (term === null) return;
    this.#term = null;
    term.abort.abort();
    this.#ending.start("step down", () => term.duties.idle());
  }

  async #resign(holder: string): Promise<void> {
    const { runtime, store, faults } = this.#deps;
    try {
      await withDeadline(runtime, "resign", RESIGN_DEADLINE, () => store.resign({ name: LEASE, holder }));
    } catch (error) {
      faults.report("resign", error);
    }
  }

  /** Runs `work` after `delay` and then every `interval` milliseconds, at once again when it says that there is more. */
  #duty(term: Term, name: string, delay: number, interval: number, work: () => Promise<boolean>): void {
    const { runtime, faults } = this.#deps;
    const { signal } = term.abort;
    term.duties.start(name, async () => {
      await sleep(runtime, delay, signal);
      while (!signal.aborted) {
        let more = false;
        try {
          if (this.#holds()) more = await withDeadline(runtime, name, CALL_DEADLINE, work);
        } catch (error) {
          faults.report(name, error);
        }
        // Even with more to do others get their turn in between.
        if (more) await runtime.turn();
        else await sleep(runtime, interval, signal);
      }
    });
  }

  async #rescue(term: Term): Promise<boolean> {
    const { store, rescuePolicy, onRescued } = this.#deps;
    const orphans = await store.orphans(RESCUE_LIMIT);
    if (orphans.length === 0 || term.abort.signal.aborted) return false;
    const outcomes = orphans.map((orphan) => rescueOutcome(orphan, rescuePolicy));
    const results = await store.finish(term.holder, outcomes);
    let applied = 0;
    results.forEach((result, index) => {
      const [outcome, orphan] = [outcomes[index], orphans[index]];
      if (result.status !== "applied" || outcome === undefined || orphan === undefined) return;
      applied += 1;
      onRescued(orphan, outcome, result.state);
    });
    return orphans.length === RESCUE_LIMIT && applied > 0;
  }

  async #sweep(): Promise<boolean> {
    return (await this.#deps.store.sweep(SWEEP_LIMIT)) >= SWEEP_LIMIT;
  }

  async #prune(): Promise<boolean> {
    const { store, retention } = this.#deps;
    const servers = SERVER_RETENTION;
    const removed = await store.prune({ ...retention, servers, stats: STATS_RETENTION, limit: PRUNE_LIMIT });
    return removed >= PRUNE_LIMIT;
  }
}
