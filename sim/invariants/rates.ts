/**
 * S10: no window admits more than its rate says, and handlers do not start more often than that and the start slack allow.
 *
 * Of a key with rate R per P, burst B, T = P/R rounded up to a microsecond and tau = (B-1)·T, any n admissions satisfy
 * (n-1)·T ≤ tau + (time of the last - time of the first) by the database's clock without its steps back. That is checked for
 * all pairs at once. What users are promised follows from it and is checked by itself, by true time: a window of length P
 * holds at most R + B admissions, and ⌈Φ/T⌉ more where the clock stepped forward by Φ; and R + B + ⌈R·slack/P⌉ starts.
 * Where the numbers of a key change, the admissions under each rule are held to that rule: so a window which spans the
 * change holds at most what both allow together.
 */
import type { JobId, Limit } from "../../engine/store.ts";
import { type Checker, type HistoryEvent, type ProcessEvent, Violation } from "../run/history.ts";
import type { Micros } from "../world/world.ts";
import { taken } from "./commits.ts";
import { DatabaseClock, type Forward } from "./database-clock.ts";
import { type LimitKey, LimitKeys } from "./limit-keys.ts";
import { START_SLACK } from "./promises.ts";

/** Microseconds between admissions at the steady pace. */
export const intervalOf = ({ per, rate }: Limit): number => Math.ceil((per * 1_000) / rate);

/** The database's clock has whole milliseconds, so that a reading may be that old. */
const RESOLUTION = 1_000;

/** Admissions, or starts, under one rule of one key. */
class Rule {
  readonly limit: Limit;
  readonly interval: number;
  readonly admissions: Window;
  readonly starts: Window;
  /** Least of (number · T - reading) over the admissions so far: how far the next one must be from all of them. */
  #least = Number.POSITIVE_INFINITY;
  #count = 0;

  constructor(limit: Limit) {
    this.limit = limit;
    this.interval = intervalOf(limit);
    this.admissions = new Window(limit.per * 1_000);
    this.starts = new Window(limit.per * 1_000);
  }

  admit(job: JobId, reading: Forward): void {
    const { interval, limit } = this;
    const phase = this.#count * interval - reading;
    this.#least = Math.min(this.#least, phase);
    this.#count += 1;
    const early = phase - this.#least - (limit.burst - 1) * interval;
    if (early > 0) throw violation(limit, job, `admission ${this.#count} comes ${early} µs too early`);
  }

  /** More than that many in a window are too many; `forward`: microseconds that the clock stepped forward in it. */
  most(forward: number): number {
    const { limit, interval } = this;
    const stale = interval < RESOLUTION ? RESOLUTION : 0;
    return limit.rate + limit.burst + Math.ceil((forward + stale) / interval);
  }
}

/** The latest events of one kind, as far back as a window reaches. */
class Window {
  readonly #length: Micros;
  #times: Micros[] = [];

  constructor(length: Micros) {
    this.#length = length;
  }

  /** How many there are in the closed window that ends at `at`, and since when. */
  add(at: Micros): { readonly count: number; readonly since: Micros } {
    this.#times.push(at);
    const first = this.#times.findIndex((time) => at - time <= this.#length);
    if (first > 0) this.#times = this.#times.slice(first);
    return { count: this.#times.length, since: this.#times[0] ?? at };
  }
}

function violation({ key, rate, per, burst }: Limit, job: JobId, what: string): Violation {
  return new Violation("S10", `key ${key} (${rate} per ${per} ms, burst ${burst}): ${what}`, job);
}

interface Admission {
  readonly rule: Rule;
  readonly at: Micros;
}

/** What admissions are held to, shared by the checkers of this file. */
class Admissions {
  readonly clock = new DatabaseClock();
  readonly #keys = new LimitKeys();
  readonly #rules = new Map<string, Rule>();
  /** By job and claim: those whose handlers may still start. */
  readonly #admitted = new Map<string, Admission>();

  /** Returns the admissions of a commit. */
  see(event: HistoryEvent): readonly (Admission & { readonly job: JobId; readonly reading: Forward })[] {
    if (event.type !== "commit") return [];
    this.clock.see(event);
    this.#keys.see(event);
    const reading = this.clock.reading(event);
    return taken(event).flatMap(({ id, row }) => {
      const key = row.limitKey === null ? undefined : this.#keys.keys.get(row.limitKey);
      if (key === undefined || key.doubtful || key.limit.rate === 0) return [];
      const admission = { rule: this.#ruleOf(key), at: event.at };
      this.#admitted.set(`${id}:${row.claim}`, admission);
      return [{ ...admission, job: id, reading }];
    });
  }

  /** The admission that a handler starts by. */
  of({ job, claim }: Extract<ProcessEvent, { type: "start" }>): Admission | undefined {
    return this.#admitted.get(`${job}:${claim}`);
  }

  #ruleOf({ name, epoch, limit }: LimitKey): Rule {
    const id = JSON.stringify([name, epoch]);
    let rule = this.#rules.get(id);
    if (rule === undefined) {
      rule = new Rule(limit);
      this.#rules.set(id, rule);
    }
    return rule;
  }
}

/** The promise to users: windows of admissions, by true time. */
export class AdmissionWindows implements Checker {
  readonly name = "admission windows";
  readonly #admissions = new Admissions();

  see(event: HistoryEvent): void {
    for (const { rule, job, at } of this.#admissions.see(event)) {
      const { count, since } = rule.admissions.add(at);
      const most = rule.most(this.#admissions.clock.forwardSince(since));
      if (count > most) throw violation(rule.limit, job, `${count} admissions in one window, at most ${most} may be`);
    }
  }
}

/** How it is kept: windows of all lengths at once, by the database's clock. */
export class AdmissionSpacing implements Checker {
  readonly name = "admission spacing";
  readonly #admissions = new Admissions();

  see(event: HistoryEvent): void {
    for (const { rule, job, reading } of this.#admissions.see(event)) rule.admit(job, reading);
  }
}

/** Windows of handlers' starts. */
export class StartWindows implements Checker {
  readonly name = "start windows";
  readonly #admissions = new Admissions();

  see(event: HistoryEvent): void {
    this.#admissions.see(event);
    if (event.type !== "start") return;
    const admission = this.#admissions.of(event);
    if (admission === undefined) return;
    const { rule } = admission;
    const { limit } = rule;
    const { count, since } = rule.starts.add(event.at);
    const forward = this.#admissions.clock.forwardSince(since - 2 * START_SLACK);
    const most = rule.most(forward) + Math.ceil((limit.rate * START_SLACK) / (limit.per * 1_000));
    if (count > most) throw violation(limit, event.job, `${count} starts in one window, at most ${most} may be`);
  }
}

/** Clocks of servers may run wrong by so much. */
const DRIFT = 1.001;

/** How a bound of starts is kept at all: each start follows its admission soon, or never comes. */
export class StartSlack implements Checker {
  readonly name = "start slack";
  readonly #admissions = new Admissions();

  see(event: HistoryEvent): void {
    this.#admissions.see(event);
    if (event.type !== "start") return;
    const admission = this.#admissions.of(event);
    if (admission === undefined || event.at - admission.at <= START_SLACK * DRIFT) return;
    const late = Math.round((event.at - admission.at) / 1e3);
    throw violation(admission.rule.limit, event.job, `its handler starts ${late} ms after its admission`);
  }
}
