/**
 * S15: each occurrence of a recurring job fires at most once, whatever leaders believe; those that were due fire or are
 * skipped as `misfire` and `overlap` say, none is forgotten. L8: while a leader lives, they do so in time.
 */
import type {
  DueRecurring,
  FireRecurring,
  InsertedJob,
  JobId,
  JobState,
  NewJob,
  PutRecurring,
} from "../../engine/store.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { ENDS } from "./commits.ts";
import { FIRE_AT_ONCE, SKIP_LATE, SKIPPED_COUNTED } from "./promises.ts";
import { isSlot, latestSlot, type Slots, slotsOf } from "./schedules.ts";
import { SteadyLeader } from "./steady-leader.ts";

interface Plan {
  readonly put: PutRecurring;
  /** Null for schedules that can't be worked out here. */
  readonly slots: Slots | null;
  /** Highest version that has been replaced by another one: nobody may fire the row as it was then. */
  over: number;
  /** Milliseconds since 1970. */
  next: number | null;
  last: number | null;
  lastJob: JobId | null;
  readonly fired: Set<number>;
  /** When it was written last. */
  changedAt: Micros;
}

/** A leader is told of what was set, or looks by itself within this time, microseconds. */
const NOTICED = 16_000_000;
/** What is due fires within this time when a leader knows of it, microseconds. */
const IN_TIME = 2_000_000;

export class Recurrences implements Checker {
  readonly name = "recurring";
  readonly #plans = new Map<string, Plan>();
  /** By recurring job and version: the clock's reading when a leader looked what is due. */
  readonly #looks = new Map<string, number>();
  readonly #states = new Map<JobId, JobState>();
  readonly #leader: SteadyLeader;
  /** Microseconds for which a leader must have led undisturbed before it can be blamed. */
  readonly #settled: Micros;

  constructor(scenario: Scenario) {
    this.#leader = new SteadyLeader(scenario);
    this.#settled = (3 * scenario.config.leaderTtl + 30_000) * 1_000;
  }

  see(event: HistoryEvent): void {
    const led = this.#leader.see(event);
    if (event.type !== "commit") return;
    if (led !== null && led > this.#settled) this.#checkInTime(event);
    if (event.error === undefined) this.#take(event);
    this.#checkOrigins(event);
    for (const { id, after } of event.changes) {
      if (after === null) this.#states.delete(id);
      else this.#states.set(id, after.state);
    }
  }

  #take(commit: Commit): void {
    const { call, args, result } = commit;
    if (call.op === "putRecurring") this.#put(args[0] as PutRecurring, commit.at);
    else if (call.op === "removeRecurring") this.#plans.delete(args[0] as string);
    else if (call.op === "dueRecurring") {
      const { now, rows } = result as DueRecurring;
      for (const { id, version } of rows) this.#looks.set(lookOf(call.from.name, id, version), now.getTime());
    } else if (call.op === "fireRecurring") this.#fire(commit, args[0] as FireRecurring, result as InsertedJob[]);
  }

  #put(put: PutRecurring, changedAt: Micros): void {
    const next = put.nextRunAt?.getTime() ?? null;
    const before = this.#plans.get(put.id);
    const slots = next === null ? null : slotsOf(put.cron, next);
    const { last, lastJob, fired } = before ?? { last: null, lastJob: null, fired: new Set<number>() };
    this.#plans.set(put.id, { put, slots, over: put.version, next, last, lastJob, fired, changedAt });
    if (next === null || slots === null) return;
    if (!isSlot(slots, next)) throw violation(put.id, `it is to run at ${at(next)}, which is no time of ${put.cron}`);
    if (last !== null && next <= last) throw violation(put.id, `it is to run at ${at(next)} again`);
  }

  #fire({ call, changes, at: changedAt }: Commit, firing: FireRecurring, inserted: readonly InsertedJob[]): void {
    const { id, version, jobs } = firing;
    const plan = this.#plans.get(id);
    if (plan === undefined) throw violation(id, "it was fired although there is none");
    if (version <= plan.over) throw violation(id, `its version ${version} was fired, which is over`);
    const looked = this.#looks.get(lookOf(call.from.name, id, version));
    if (looked === undefined) throw violation(id, "it was fired by a leader that has not seen it due");
    const occurrences = jobs.map(occurrenceOf);
    if (plan.slots !== null && plan.next !== null) {
      checkOccurrences(plan, plan.slots, plan.next, looked, firing, occurrences);
    }
    this.#checkOverlap(plan, jobs, inserted);
    for (const [index, { id: job, duplicate }] of inserted.entries()) {
      const slot = occurrences[index]?.at ?? 0;
      if (duplicate) throw violation(id, "a run is said to be a duplicate", job);
      if (plan.fired.has(slot)) throw violation(id, `${at(slot)} has fired twice`, job);
      plan.fired.add(slot);
      const row = changes.find((change) => change.id === job)?.after;
      if (row?.recurringId !== id || row.runAt !== slot)
        throw violation(id, "a run is not that of its occurrence", job);
    }
    plan.over = version;
    plan.next = firing.nextRunAt?.getTime() ?? null;
    plan.last = firing.lastRunAt?.getTime() ?? null;
    plan.lastJob = inserted.at(-1)?.id ?? plan.lastJob;
    plan.changedAt = changedAt;
  }

  #checkOverlap({ put, lastJob }: Plan, jobs: readonly NewJob[], inserted: readonly InsertedJob[]): void {
    const state = lastJob === null ? undefined : this.#states.get(lastJob);
    const unfinished = state !== undefined && !ENDS.has(state);
    const most = put.overlap ? jobs.length : unfinished ? 0 : Math.min(jobs.length, 1);
    if (inserted.length === most) return;
    throw violation(put.id, `${inserted.length} jobs were added, not ${most}; the last one is ${state ?? "gone"}`);
  }

  /** Runs of recurring jobs come from nothing but their firing. */
  #checkOrigins({ call, changes, args }: Commit): void {
    for (const { id, before, after } of changes) {
      if (before !== null || after === null || after.recurringId === null) continue;
      const fires = call.op === "fireRecurring" && (args[0] as FireRecurring).id === after.recurringId;
      if (!fires) throw violation(after.recurringId, `a run of it came from ${call.op}`, id);
    }
  }

  #checkInTime({ at: now, clock }: Commit): void {
    for (const { put, next, changedAt } of this.#plans.values()) {
      if (put.paused || next === null) continue;
      const grace = now - changedAt < NOTICED ? NOTICED : IN_TIME;
      if (next + grace / 1e3 >= clock) continue;
      throw new Violation("L8", `recurring job ${put.id} was due at ${at(next)} and has not fired by ${at(clock)}`);
    }
  }
}

interface Occurrence {
  readonly at: number;
  readonly skipped: number;
}

function occurrenceOf({ meta }: NewJob): Occurrence {
  return { at: Date.parse(meta["kiln.occurrence"] ?? ""), skipped: Number(meta["kiln.skipped"]) };
}

/** That a leader which has looked at `looked` fires what it must, when `due` is the first that is due. */
function checkOccurrences(
  { put }: Plan,
  slots: Slots,
  due: number,
  looked: number,
  { lastRunAt, nextRunAt }: FireRecurring,
  occurrences: readonly Occurrence[],
): void {
  const { id } = put;
  const missed = Math.floor((looked - due) / slots.step) + 1;
  if (missed < 1) throw violation(id, `${at(due)} was fired at ${at(looked)}, too early`);
  const all = put.misfire === "all" && put.overlap;
  const count = all ? Math.min(missed, FIRE_AT_ONCE) : missed;
  const last = due + (count - 1) * slots.step;
  if (!all && last !== latestSlot(slots, looked)) throw violation(id, "its schedule is out of step");
  const skipped = Math.min(missed - 1, SKIPPED_COUNTED);
  const fires = put.misfire !== "skip" || looked - last <= SKIP_LATE;
  const expected: readonly Occurrence[] = all
    ? Array.from({ length: count }, (_, index) => ({ at: due + index * slots.step, skipped: 0 }))
    : fires
      ? [{ at: last, skipped }]
      : [];
  if (list(occurrences) !== list(expected)) {
    throw violation(id, `it fires ${list(occurrences)} instead of ${list(expected)} by ${put.misfire}`);
  }
  if (lastRunAt?.getTime() !== last || nextRunAt?.getTime() !== last + slots.step) {
    throw violation(id, `after ${at(last)} comes ${nextRunAt?.toISOString()}`);
  }
}

const lookOf = (leader: string, id: string, version: number): string => JSON.stringify([leader, id, version]);
const at = (instant: number): string => new Date(instant).toISOString();
const list = (all: readonly Occurrence[]): string => all.map((one) => `${at(one.at)}+${one.skipped}`).join(", ");
const violation = (id: string, what: string, job: JobId | null = null): Violation =>
  new Violation("S15", `recurring job ${id}: ${what}`, job);
