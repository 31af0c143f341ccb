/**
 * That limits hold back no more than they must (S10, S11 from below; L7): a claim with room left leaves nothing behind that
 * it could have taken, takes the most urgent of each key first, and says in time when to come again.
 *
 * What a key must still allow is worked out from the claims alone: `tat` is the latest of (reading of an admission + what
 * it and all after it use up). After the clock has stepped back, or once the numbers change, the key may be closed for at
 * most one interval more than it would be; lanes that a step back keeps closed are opened by the leader's next sweep.
 */
import type { ClaimQuery, ClaimReply, JobId } from "../../engine/store.ts";
import type { Snapshot } from "../cluster/audit.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import type { Micros } from "../world/world.ts";
import { PausedQueues, type Reading, type Taken, taken } from "./commits.ts";
import { DatabaseClock } from "./database-clock.ts";
import { type LimitKey, LimitKeys } from "./limit-keys.ts";
import { UNNOTICED_STEP } from "./promises.ts";
import { intervalOf } from "./rates.ts";

/** How much of its rate a key has used. */
interface Use {
  epoch: number;
  /** When the next admission is due at the steady pace, by the database's clock, microseconds since 1970. */
  tat: number;
  /**
   * `stepped`: the clock has stepped back, so that the key may stay closed until the next sweep. `swept`: the first claim
   * after that may still find it closed, but not for long.
   */
  state: "known" | "stepped" | "swept";
}

export class AdmissionFloor implements Checker {
  readonly name = "admission floor";
  readonly #clock = new DatabaseClock();
  readonly #keys = new LimitKeys();
  readonly #paused = new PausedQueues();
  readonly #uses = new Map<string, Use>();
  /** Jobs without a limit that are ready. */
  readonly #ready = new Map<JobId, Snapshot>();
  #steppedBackAt: Micros | null = null;

  see(event: HistoryEvent): void {
    if (event.type !== "commit") return;
    this.#clock.see(event);
    if (this.#clock.steppedBackAt !== this.#steppedBackAt) this.#stepBack();
    this.#keys.see(event);
    this.#paused.see(event);
    this.#changeRules(event);
    this.#changeReady(event);
    if (event.call.op === "sweep" && event.error === undefined) this.#swept();
    if (event.call.op !== "claim" || event.error !== undefined) return;
    const takenNow = taken(event);
    for (const { row } of takenNow) this.#use(row, event);
    const reply = event.result as ClaimReply;
    if (reply.known) this.#check(event, event.args[0] as ClaimQuery, reply, takenNow);
  }

  #check(commit: Commit, query: ClaimQuery, reply: ClaimReply, takenNow: readonly Taken[]): void {
    const full = reply.jobs.length >= query.limit;
    const asked = (row: Snapshot): boolean =>
      query.queues.includes(row.queue) &&
      !this.#paused.has(row.queue) &&
      (query.kinds.length === 0 || query.kinds.includes(row.kind));
    if (!full) {
      for (const [id, row] of this.#ready) {
        if (asked(row)) throw new Violation("L5", "a claim with room left leaves a ready job behind", id);
      }
    }
    for (const key of this.#keys.keys.values()) {
      if (key.doubtful) continue;
      const waiting = [...key.waiting].filter(([, row]) => asked(row));
      this.#checkOrder(key, waiting, takenNow);
      if (!full && waiting[0] !== undefined) this.#checkRoom(key, waiting[0][0], commit, reply);
    }
  }

  /** Of one key in one queue the most urgent go first. */
  #checkOrder({ name }: LimitKey, waiting: readonly (readonly [JobId, Snapshot])[], takenNow: readonly Taken[]): void {
    for (const { id, row } of takenNow) {
      if (row.limitKey !== name) continue;
      const better = waiting.find(([other, { queue, kind, priority }]) => {
        const urgent = priority > row.priority || (priority === row.priority && other < id);
        return queue === row.queue && kind === row.kind && urgent;
      });
      if (better === undefined) continue;
      throw new Violation("S10", `key ${name}: job ${id} was taken before job ${better[0]}, which is more urgent`, id);
    }
  }

  #checkRoom(key: LimitKey, job: JobId, { clock }: Commit, { nextIn }: ClaimReply): void {
    const { name, limit, running } = key;
    if (limit.max > 0 && running.size >= limit.max) return;
    const opensIn = limit.rate === 0 ? 0 : this.#opening(key, clock) - clock;
    if (opensIn <= 0) {
      throw new Violation("S10", `key ${name}: a claim with room left leaves behind what the limit allows`, job);
    }
    if (this.#uses.get(name)?.state === "stepped") return;
    if (nextIn === null || nextIn > opensIn) {
      throw new Violation("S10", `key ${name} opens in ${opensIn} ms, but the claim says ${nextIn}`, job);
    }
  }

  /** The whole millisecond at which the key must admit a job at last; a claim asks at `now`. */
  #opening({ name, limit }: LimitKey, now: Reading): Reading {
    const use = this.#uses.get(name);
    if (use === undefined) return now;
    if (use.state === "stepped") return Number.POSITIVE_INFINITY;
    const interval = intervalOf(limit);
    if (use.state === "swept") {
      use.state = "known";
      const opening = (now + UNNOTICED_STEP + 1) * 1_000 + Math.ceil(interval / 1_000) * 1_000;
      use.tat = Math.min(use.tat, opening + (limit.burst - 1) * interval);
    }
    return Math.ceil((use.tat - (limit.burst - 1) * interval) / 1_000);
  }

  #use(row: Snapshot, { clock }: Commit): void {
    const key = row.limitKey === null ? undefined : this.#keys.keys.get(row.limitKey);
    if (key === undefined || key.limit.rate === 0) return;
    const use = this.#useOf(key);
    use.tat = Math.max(use.tat, clock * 1_000) + intervalOf(key.limit);
    clamp(key, use, clock);
  }

  #useOf({ name, epoch }: LimitKey): Use {
    const use = this.#uses.get(name) ?? { epoch, tat: 0, state: "known" };
    this.#uses.set(name, use);
    return use;
  }

  #changeRules({ clock }: Commit): void {
    for (const [name, use] of this.#uses) {
      const key = this.#keys.keys.get(name);
      if (key === undefined || key.epoch === use.epoch) continue;
      use.epoch = key.epoch;
      clamp(key, use, clock);
    }
  }

  #stepBack(): void {
    this.#steppedBackAt = this.#clock.steppedBackAt;
    // Also of those that have not been used yet: their lanes open by the clock.
    for (const key of this.#keys.keys.values()) this.#useOf(key).state = "stepped";
  }

  #swept(): void {
    for (const use of this.#uses.values()) if (use.state === "stepped") use.state = "swept";
  }

  #changeReady({ changes }: Commit): void {
    for (const { id, after } of changes) {
      if (after?.state === "enqueued") this.#ready.set(id, after);
      else this.#ready.delete(id);
    }
  }
}

/** Whoever takes from a key, or changes its numbers, leaves it closed for at most one interval beyond its burst. */
function clamp({ limit }: LimitKey, use: Use, clock: Reading): void {
  use.state = "known";
  if (limit.rate > 0) use.tat = Math.min(use.tat, clock * 1_000 + limit.burst * intervalOf(limit));
}
