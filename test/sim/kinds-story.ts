/** Small histories of limits, unique keys, dependencies and recurring jobs, made by hand. */
import type { InsertedJob, Limit, NewJob } from "kiln";
import type { Change, Snapshot } from "../../sim/cluster/audit.ts";
import type { Call } from "../../sim/cluster/database.ts";
import { kindCheckers } from "../../sim/invariants/kinds.ts";
import { type Checker, type HistoryEvent, Violation } from "../../sim/run/history.ts";
import { EMPTY_SCENARIO, type Scenario } from "../../sim/scenario/scenario.ts";
import { START } from "../../sim/world/process.ts";

const ROW: Snapshot = {
  ...{ state: "enqueued", claim: 0, attempt: 0, maxAttempts: 25, server: null, runAt: START, finalizedAt: null },
  ...{ cancelRequested: false, queue: "a", priority: 0, kind: "planned", args: "{}", reason: null },
  ...{ limitKey: null, uniqueKey: null, recurringId: null },
};

export const NEW: NewJob = {
  ...{ kind: "planned", queue: "a", args: "{}", priority: 0, maxAttempts: 25, timeout: null, delay: 0, runAt: null },
  ...{ deadline: null, title: null, tags: [], meta: {}, limit: null, recurringId: null, unique: null, parents: [] },
  ...{ batch: null, afterBatch: null },
};

type Edits = Readonly<Record<number, Partial<Snapshot> | null>>;

export class KindsStory {
  readonly #scenario: Scenario;
  readonly #events: HistoryEvent[] = [];
  readonly #rows = new Map<number, Snapshot>();
  /** Milliseconds since the world began. */
  now = 0;
  /** Milliseconds that the database's clock is ahead. */
  ahead = 0;
  #last = 0;

  constructor(scenario: Partial<Scenario> = {}) {
    this.#scenario = { ...EMPTY_SCENARIO, duration: 1e9, ...scenario };
  }

  /** What the checkers say of it, or null. */
  get verdict(): string | null {
    return this.verdictOf(kindCheckers(this.#scenario));
  }

  verdictOf(checkers: readonly Checker[]): string | null {
    try {
      for (const event of this.#events) for (const checker of checkers) checker.see(event);
    } catch (error) {
      if (error instanceof Violation) return `${error.invariant} ${error.message}`;
      throw error;
    }
    return null;
  }

  wait(ms: number): this {
    this.now += ms;
    return this;
  }

  step(ms: number): this {
    this.ahead += ms;
    return this;
  }

  call(op: string, args: readonly unknown[], result: unknown, edits: Edits = {}): this {
    const changes = Object.entries(edits).map(([id, edit]): Change => {
      const before = this.#rows.get(Number(id)) ?? null;
      const after = edit === null ? null : { ...(before ?? ROW), ...edit };
      if (after === null) this.#rows.delete(Number(id));
      else this.#rows.set(Number(id), after);
      return { id: Number(id), before, after };
    });
    const call = { op, args, from: { name: "n0.1" }, sentAt: this.now * 1_000 } as unknown as Call;
    const clock = START + this.now + this.ahead;
    return this.add({
      ...{ type: "commit", at: this.now * 1_000, clock, number: this.#events.length },
      ...{ call, args, result, error: undefined, parts: [{ op, args, result }], changes },
    });
  }

  add(event: HistoryEvent): this {
    this.#events.push(event);
    return this;
  }

  /** With the next id. */
  insert(job: Partial<NewJob> = {}, edit: Partial<Snapshot> = {}): this {
    this.#last += 1;
    const id = this.#last;
    const limitKey = job.limit?.key ?? null;
    const uniqueKey = job.unique != null && job.unique.window === null ? job.unique.key : null;
    const { args = "{}", priority = 0, queue = "a" } = job;
    const row = {
      state: limitKey === null ? "enqueued" : "throttled",
      args,
      priority,
      queue,
      limitKey,
      uniqueKey,
    } as const;
    const inserted: InsertedJob = { id, state: edit.state ?? row.state, duplicate: false, replaced: false };
    return this.call("insert", [[{ ...NEW, ...job }]], [inserted], { [id]: { ...row, ...edit } });
  }

  limited(limit: Partial<Limit>, count = 1, job: Partial<NewJob> = {}): this {
    const rule = { key: "k", max: 0, rate: 0, per: 0, burst: 0, ...limit };
    for (let left = count; left > 0; left--) this.insert({ limit: rule, ...job });
    return this;
  }

  /** An insert that adds nothing. */
  duplicate(id: number, job: Partial<NewJob>, { replaced = false, edits = {} as Edits } = {}): this {
    const state = this.#rows.get(id)?.state ?? "deleted";
    return this.call("insert", [[{ ...NEW, ...job }]], [{ id, state, duplicate: true, replaced }], edits);
  }

  /** Takes exactly these, having asked for them and `room` more. */
  claim(ids: readonly number[], { room = 0, nextIn = null as number | null, server = "s0" } = {}): this {
    const query = { server, sequence: 1, queues: ["a", "b"], kinds: [], limit: Math.max(ids.length, 1) + room };
    const edits = ids.map((id): [number, Partial<Snapshot>] => {
      const claim = (this.#rows.get(id)?.claim ?? 0) + 1;
      return [id, { state: "processing", claim, server }];
    });
    const jobs = ids.map((id) => ({ id, claim: (this.#rows.get(id)?.claim ?? 0) + 1 }));
    return this.call("claim", [query], { known: true, jobs, nextIn }, Object.fromEntries(edits));
  }

  edit(op: string, edits: Edits): this {
    return this.call(op, [], null, edits);
  }

  start(job: number, incarnation = "n0.1"): this {
    const claim = this.#rows.get(job)?.claim ?? 0;
    return this.add({ type: "start", at: this.now * 1_000, incarnation, job, claim, attempt: 1 });
  }

  lead(): this {
    return this.call("lead", [{ name: "kiln.leader", holder: "s0", ttl: 15_000 }], { held: true, heldFor: 0 });
  }

  /** A leader leads for so long, and sweeps or not. */
  led(ms: number, sweeps = true): this {
    for (const end = this.now + ms; this.now < end; this.now += 5_000) {
      this.lead();
      if (sweeps) this.call("sweep", [1_000], 0);
    }
    return this;
  }
}
