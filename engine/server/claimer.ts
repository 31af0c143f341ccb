/**
 * One pool's claim loop: claims as many jobs as it has free workers, at most `fetchBatch`, and otherwise sleeps until
 * something wakes it, until the store said that something becomes ready, or for `pollInterval`, whichever comes first.
 */
import { Background, Wakeup, withDeadline } from "../async.ts";
import { weightedOrder } from "../rules/weighted-order.ts";
import type { Runtime } from "../runtime.ts";
import type { ClaimedJob, ClaimReply, Store } from "../store.ts";
import type { Pool } from "./config.ts";
import type { Faults } from "./faults.ts";
import type { Heartbeat } from "./heartbeat.ts";

export interface ClaimerDeps {
  readonly runtime: Runtime;
  readonly store: Store;
  readonly faults: Faults;
  readonly heartbeat: Heartbeat;
  readonly kinds: readonly string[];
  readonly pollInterval: number;
  /** Milliseconds that one claim may take. */
  readonly claimDeadline: number;
  /** Numbers the claim calls of all pools of this server. */
  readonly nextSequence: () => number;
  readonly claimsInFlight: Set<number>;
  /** Runs one job, whose claim was sent at that monotonic millisecond; resolves when its worker is free again. */
  readonly start: (job: ClaimedJob, claimSent: number) => Promise<void>;
  /** Gives back jobs that came too late to be run here. */
  readonly handBack: (jobs: readonly ClaimedJob[]) => void;
}

/** How long a busy pool waits for more workers to become free, so that a backlog is not claimed one by one; milliseconds. */
const REFILL_PAUSE = 5;

export class Claimer {
  readonly pool: Pool;
  readonly #deps: ClaimerDeps;
  readonly #wakeup: Wakeup;
  readonly #runs: Background;
  #running = 0;
  #stopped = false;
  /** There may be something to claim now. */
  #ready = true;
  /** When to look even if nobody calls; monotonic milliseconds. */
  #lookAt = 0;
  /** The earliest moment that an event named while a claim was under way. */
  #hint = Number.POSITIVE_INFINITY;

  constructor(deps: ClaimerDeps, pool: Pool) {
    this.#deps = deps;
    this.pool = pool;
    this.#wakeup = new Wakeup(deps.runtime);
    this.#runs = new Background((name, error) => deps.faults.report(name, error));
  }

  /** Workers that are busy. */
  get running(): number {
    return this.#running;
  }

  /** Something is ready, or will be in `delay` milliseconds. */
  wake(delay: number): void {
    if (delay > 0) {
      const at = this.#deps.runtime.monotonic() + delay;
      this.#hint = Math.min(this.#hint, at);
      this.#lookAt = Math.min(this.#lookAt, at);
    } else {
      this.#ready = true;
    }
    this.#wakeup.wake();
  }

  /** Claims nothing from now on; `run` ends once a claim that is under way has been answered. */
  stop(): void {
    this.#stopped = true;
    this.#wakeup.wake();
  }

  /** Resolves when none of its jobs is running. */
  idle(): Promise<void> {
    return this.#runs.idle();
  }

  async run(): Promise<void> {
    const { runtime, heartbeat, pollInterval } = this.#deps;
    let full = false;
    while (!this.#stopped) {
      const free = this.pool.workers - this.#running;
      if (free === 0 || !heartbeat.mayClaim) {
        await this.#wakeup.wait(null);
        continue;
      }
      if (full) await this.#refill();
      else await this.#idle();
      if (this.#stopped || !heartbeat.mayClaim) continue;
      this.#ready = false;
      this.#hint = Number.POSITIVE_INFINITY;
      const limit = Math.min(this.pool.workers - this.#running, this.pool.fetchBatch);
      const reply = await this.#claim(limit);
      full = reply !== null && reply.jobs.length === limit;
      this.#lookAt = Math.min(runtime.monotonic() + Math.min(pollInterval, reply?.nextIn ?? pollInterval), this.#hint);
    }
  }

  /** Sleeps until there may be something to claim. */
  async #idle(): Promise<void> {
    while (!this.#ready && !this.#stopped) {
      const left = this.#lookAt - this.#deps.runtime.monotonic();
      if (left <= 0) return;
      await this.#wakeup.wait(left);
    }
  }

  /** After a full claim more is likely to be ready: goes on at once when half a batch is free, else a little later. */
  async #refill(): Promise<void> {
    const { runtime } = this.#deps;
    const enough = Math.max(Math.floor(this.pool.fetchBatch / 2), 1);
    const until = runtime.monotonic() + REFILL_PAUSE;
    while (this.pool.workers - this.#running < enough && !this.#stopped) {
      const left = until - runtime.monotonic();
      if (left <= 0) return;
      await this.#wakeup.wait(left);
    }
  }

  async #claim(limit: number): Promise<ClaimReply | null> {
    const { runtime, store, faults, heartbeat, kinds, claimDeadline, claimsInFlight } = this.#deps;
    const sequence = this.#deps.nextSequence();
    const server = heartbeat.id;
    const query = { server, sequence, queues: this.#queues(), kinds, limit };
    claimsInFlight.add(sequence);
    const sent = runtime.monotonic();
    try {
      const call = (): Promise<ClaimReply> => store.claim(query);
      const reply = await withDeadline(runtime, "claim", claimDeadline, call, { late: (late) => this.#late(late) });
      if (!reply.known) {
        if (server === heartbeat.id) heartbeat.declaredDead();
      } else if (this.#stopped || !heartbeat.mayClaim || server !== heartbeat.id) {
        this.#deps.handBack(reply.jobs);
      } else {
        for (const job of reply.jobs) this.#start(job, sent);
      }
      return reply;
    } catch (error) {
      faults.report("claim", error);
      return null;
    } finally {
      // From here on a lease of this claim that nobody here knows of is a lost one.
      claimsInFlight.delete(sequence);
    }
  }

  #late(reply: ClaimReply): void {
    this.#deps.runtime.mark("claim answered after its deadline");
    this.#deps.handBack(reply.jobs);
  }

  #queues(): readonly string[] {
    const { queues, weights } = this.pool;
    return weights === null ? queues : weightedOrder(queues, weights, () => this.#deps.runtime.random());
  }

  #start(job: ClaimedJob, claimSent: number): void {
    this.#running += 1;
    this.#runs.start("run", async () => {
      await this.#deps.start(job, claimSent);
      this.#running -= 1;
      this.#wakeup.wake();
    });
  }
}
