/**
 * S4: a job never runs twice at once as long as its handler obeys its signal. A process that stands still runs nothing; when
 * it goes on after others have taken its jobs, its handlers are told to stop at once and have `killGrace` to return.
 *
 * Excused, by the documents:
 * - a handler that ignores its signal, or takes `killGrace` or longer to obey, for JavaScript can't be stopped from outside;
 * - a server from which the scenario has taken the fence: there the claim numbers must hold alone (S3);
 * - a store whose clock was set forward by more than the two heartbeats that lie between the last moment at which a fenced
 *   handler may run and the first at which others may take its job: all instants are the store's.
 */
import type { JobId } from "../../engine/store.ts";
import { type Checker, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario, SimConfig } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { type Of, processOf } from "./calls.ts";
import { CLOCK_ERROR, MS } from "./timing.ts";
import type { ProcessState, View } from "./view.ts";

interface Run {
  readonly incarnation: string;
  readonly job: JobId;
  readonly claim: number;
  readonly startedAt: Micros;
  /** When it must have ended since another run of its job has begun; null = there is none. */
  endBy: Micros | null;
  /** Its server was declared dead by a clock that was set forward, or its handler does not obey its signal. */
  excused: boolean;
}

export class Overlap implements Checker {
  readonly name = "S4 overlap";
  readonly #view: View;
  readonly #config: SimConfig;
  readonly #scenario: Scenario;
  readonly #runs = new Map<JobId, Run[]>();
  /** Those that a younger run of their job has overtaken while their process stood still. */
  readonly #overtaken = new Set<Run>();

  constructor(view: View, scenario: Scenario) {
    this.#view = view;
    this.#scenario = scenario;
    this.#config = scenario.config;
  }

  see(event: HistoryEvent): void {
    switch (event.type) {
      case "start":
        this.#start(event);
        return;
      case "end":
        this.#end(event);
        return;
      case "down":
        if (event.how !== "stopping") this.#forget(event.incarnation);
        return;
      case "resumed":
        this.#resumed(event);
        return;
      case "commit":
        if (event.call.op === "orphans" && event.error === undefined) this.#declaredDead(event);
    }
  }

  end(): void {
    for (const run of this.#overtaken) this.#checkEnded(run, this.#view.now);
  }

  #start({ at, incarnation, job, claim }: Of<"start">): void {
    const others = this.#runs.get(job) ?? [];
    for (const other of others) this.#overtake(other, at);
    const run: Run = { incarnation, job, claim, startedAt: at, endBy: null, excused: this.#isStubborn(job) };
    this.#runs.set(job, [...others, run]);
  }

  #overtake(older: Run, at: Micros): void {
    const process = this.#view.processes.get(older.incarnation);
    if (process === undefined || this.#isExcused(older)) return;
    const endBy = this.#endBy(process);
    if (!process.paused && at > endBy) {
      const since = (at - older.startedAt) / MS;
      throw new Violation("S4", `a job runs twice at once: the first run began ${since} ms ago and goes on`, older.job);
    }
    older.endBy ??= endBy;
    this.#overtaken.add(older);
  }

  #end({ at, job, incarnation, claim }: Of<"end">): void {
    const runs = this.#runs.get(job) ?? [];
    const run = runs.find((one) => one.claim === claim && one.incarnation === incarnation);
    if (run === undefined) return;
    const left = runs.filter((one) => one !== run);
    if (left.length > 0) this.#runs.set(job, left);
    else this.#runs.delete(job);
    if (this.#overtaken.delete(run)) this.#checkEnded(run, at);
  }

  #resumed({ incarnation, at }: Of<"resumed">): void {
    for (const run of this.#overtaken) {
      if (run.incarnation === incarnation) run.endBy = at + this.#grace;
    }
  }

  #checkEnded(run: Run, at: Micros): void {
    const process = this.#view.processes.get(run.incarnation);
    if (run.endBy === null || process === undefined || process.paused || at <= run.endBy) return;
    const late = (at - run.endBy) / MS;
    throw new Violation(
      "S4",
      `a run goes on ${late} ms longer than it may beside the one that has taken its place`,
      run.job,
    );
  }

  #forget(incarnation: string): void {
    for (const [job, runs] of this.#runs) {
      const left = runs.filter((run) => run.incarnation !== incarnation);
      if (left.length > 0) this.#runs.set(job, left);
      else this.#runs.delete(job);
    }
    for (const run of this.#overtaken) if (run.incarnation === incarnation) this.#overtaken.delete(run);
  }

  get #grace(): Micros {
    return this.#config.killGrace * (1 + CLOCK_ERROR) * MS + MS;
  }

  /** By when all that it runs for others' jobs must have ended; one that never stood still has no such time. */
  #endBy({ resumedAt, upAt }: ProcessState): Micros {
    return resumedAt === upAt ? Number.NEGATIVE_INFINITY : resumedAt + this.#grace;
  }

  #isExcused({ incarnation, excused }: Run): boolean {
    return excused || this.#scenario.servers[serverIndex(incarnation)]?.without.includes("heartbeat.no-fence") === true;
  }

  /** Asked as a run starts: while the job waits for its next one another may take its place and bring another plan. */
  #isStubborn(job: JobId): boolean {
    const { jobs } = this.#scenario;
    const row = this.#view.rows.get(job);
    if (row?.kind !== "planned") return false;
    const { obeys } = jobs[(JSON.parse(row.args) as { plan: number }).plan] ?? { obeys: 0 };
    return obeys === null || obeys >= this.#config.killGrace;
  }

  /** By the store's clock it has been silent for its promise, though really for so much less that it may not be fenced yet. */
  #declaredDead({ at, clock }: Of<"commit">): void {
    const spare = 2 * this.#config.heartbeatInterval * (1 - CLOCK_ERROR);
    for (const { dead, deadAfter, beatAt, beatClock, incarnation } of this.#view.servers.values()) {
      if (dead || clock - beatClock <= deadAfter || clock - beatClock - (at - beatAt) / MS < spare) continue;
      for (const run of [...this.#runs.values()].flat()) if (run.incarnation === incarnation) run.excused = true;
    }
  }
}

const serverIndex = (incarnation: string): number => Number(processOf(incarnation).slice(1));
