/** Histories that are made by hand, to see that checkers find what is wrong in them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Outcome } from "kiln";
import type { Snapshot } from "../../sim/cluster/audit.ts";
import type { Call } from "../../sim/cluster/database.ts";
import { protocolCheckers } from "../../sim/invariants/index.ts";
import { View } from "../../sim/invariants/view.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../../sim/run/history.ts";
import {
  DEFAULT_CONFIG,
  EMPTY_SCENARIO,
  type Fault,
  PLAIN_SERVER,
  type Scenario,
} from "../../sim/scenario/scenario.ts";
import type { Micros } from "../../sim/world/world.ts";

const ROW: Snapshot = {
  ...{ state: "enqueued", claim: 0, attempt: 0, maxAttempts: 25, server: null, runAt: 0, finalizedAt: null },
  ...{ cancelRequested: false, queue: "a", kind: "planned", args: '{"plan":0}' },
  ...{ limitKey: null, uniqueKey: null, recurringId: null, priority: 0, reason: null },
};

export const OUTCOME: Omit<Outcome, "id" | "claim"> = {
  ...{ state: "succeeded", delay: 0, refund: false, reason: null, error: null, trace: null, output: null },
};

type Edit = Partial<Snapshot> | null;

export interface Answer {
  readonly result?: unknown;
  readonly error?: unknown;
  readonly changes?: Readonly<Record<number, Edit>>;
  /** False: the answer gets lost. */
  readonly reply?: boolean;
  /** Milliseconds before now at which it was sent. */
  readonly sent?: number;
}

/** Names: process `n0.1` runs server `s0`, and so on. */
export class Story {
  readonly scenario: Scenario;
  readonly events: HistoryEvent[] = [];
  readonly rows = new Map<number, Snapshot>();
  now = 0;
  /** Milliseconds that the store's clock is ahead. */
  ahead = 0;
  #commits = 0;

  constructor(scenario: Partial<Scenario> = {}) {
    this.scenario = { ...EMPTY_SCENARIO, servers: [PLAIN_SERVER, PLAIN_SERVER, PLAIN_SERVER], ...scenario };
  }

  get at(): Micros {
    return this.now * 1_000;
  }

  get clock(): number {
    return this.now + this.ahead;
  }

  /** What the checkers say of it: `S3 …`, or null when they find nothing. */
  get verdict(): string | null {
    const view = new View(this.scenario);
    const checkers: readonly Checker[] = [...protocolCheckers(view, this.scenario), view];
    try {
      for (const event of this.events) for (const checker of checkers) checker.see(event);
      for (const checker of checkers) checker.end?.();
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

  fault(fault: Fault, target = "database"): this {
    return this.#add({ type: "fault", at: this.at, target, what: fault.type, fault });
  }

  up(...servers: readonly number[]): this {
    for (const server of servers) {
      this.#add({ type: "up", at: this.at, incarnation: `n${server}.1` });
      const { deadAfter, heartbeatInterval } = this.scenario.config;
      this.call(server, "register", [{ id: `s${server}`, deadAfter: deadAfter + heartbeatInterval }]);
    }
    return this;
  }

  down(server: number, how: "killed" | "stopped" | "stopping", armed = 0): this {
    return this.#add({ type: "down", at: this.at, incarnation: `n${server}.1`, how, armed });
  }

  pause(server: number): this {
    return this.#add({ type: "paused", at: this.at, incarnation: `n${server}.1` });
  }

  resume(server: number): this {
    return this.#add({ type: "resumed", at: this.at, incarnation: `n${server}.1` });
  }

  run(type: "start" | "abort" | "end", server: number, job: number, claim = this.#row(job).claim): this {
    const of = { at: this.at, incarnation: `n${server}.1`, job, claim, attempt: 1 };
    if (type === "start") return this.#add({ type, ...of });
    return this.#add(type === "abort" ? { type, ...of, reason: "FencedError" } : { type, ...of, how: "returned" });
  }

  call(server: number, op: string, args: readonly unknown[], answer: Answer = {}): this {
    const { result, error, changes = {}, reply = true, sent = 0 } = answer;
    const incarnation = `n${server}.1`;
    const call = { op, args, from: { name: incarnation }, sentAt: (this.now - sent) * 1_000 } as unknown as Call;
    if (sent === 0) this.#add({ type: "send", at: this.at, incarnation, call });
    this.#commits += 1;
    const edits = Object.entries(changes).map(([id, edit]) => this.#edit(Number(id), edit));
    const { at, clock } = this;
    const parts = error === undefined ? [{ op, args, result }] : [];
    this.#add({ type: "commit", number: this.#commits, changes: edits, at, clock, call, args, result, error, parts });
    if (reply) this.#add({ type: "reply", at: this.at, incarnation, call, ok: error === undefined, result });
    return this;
  }

  insert(id: number, edit: Partial<Snapshot> = {}): this {
    const result = [{ id, state: edit.state ?? "enqueued", duplicate: false, replaced: false }];
    return this.call(9, "insert", [[{}]], { result, changes: { [id]: edit } });
  }

  claim(server: number, id: number, edit: Partial<Snapshot> = {}): this {
    const { claim, attempt } = this.#row(id);
    const row = { state: "processing" as const, claim: claim + 1, attempt: attempt + 1, server: `s${server}`, ...edit };
    const result = { known: true, jobs: [{ id, claim: row.claim, attempt: row.attempt }], nextIn: null };
    return this.call(server, "claim", [{ server: `s${server}`, limit: 4 }], { result, changes: { [id]: row } });
  }

  finish(server: number, id: number, outcome: Partial<Outcome>, edit: Partial<Snapshot>): this {
    const sent = { ...OUTCOME, id, claim: this.#row(id).claim, ...outcome };
    const result = [{ status: "applied", state: edit.state ?? this.#row(id).state }];
    return this.call(server, "finish", [`s${server}`, [sent]], { result, changes: { [id]: edit } });
  }

  succeed(server: number, id: number): this {
    return this.finish(server, id, {}, { state: "succeeded", finalizedAt: this.clock });
  }

  /** By a leader. */
  rescue(server: number, id: number, outcome: Partial<Outcome> = {}, edit: Partial<Snapshot> = {}): this {
    const error = `server ${this.#row(id).server} was declared dead`;
    return this.finish(
      server,
      id,
      { state: "enqueued", reason: "orphaned", error, ...outcome },
      { state: "enqueued", runAt: this.clock, ...edit },
    );
  }

  orphans(server: number, ...ids: readonly number[]): this {
    const result = ids.map((id) => ({ id, claim: this.#row(id).claim, server: this.#row(id).server }));
    return this.call(server, "orphans", [1_000], { result });
  }

  beat(server: number, answer: Answer = {}): this {
    const held = [...this.rows].filter(([, row]) => row.state === "processing" && row.server === `s${server}`);
    const leases = held.map(([id, { claim }]) => ({ id, claim, sequence: 1, cancelRequested: false }));
    const result = { known: true, leases, pausedQueues: [] };
    return this.call(server, "heartbeat", [{ server: `s${server}`, running: held.length }], { result, ...answer });
  }

  lead(server: number, held: boolean, heldFor = 0): this {
    const { leaderTtl: ttl } = this.scenario.config;
    return this.call(server, "lead", [{ name: "kiln.leader", holder: `s${server}`, ttl }], {
      result: { held, heldFor },
    });
  }

  /** Time passes, in which these servers beat and the first of them leads. */
  pass(ms: number, leader: number, ...others: readonly number[]): this {
    const from = this.now;
    const { heartbeatInterval } = this.scenario.config;
    for (let at = from; at <= from + ms; at += heartbeatInterval) {
      this.now = at;
      this.lead(leader, true, at - this.leads);
      for (const server of [leader, ...others]) this.beat(server);
    }
    this.now = from + ms;
    return this;
  }

  /** Since when the leader leads. */
  leads = 0;

  #row(id: number): Snapshot {
    const row = this.rows.get(id);
    if (row === undefined) throw new Error(`no job ${id}`);
    return row;
  }

  #edit(id: number, edit: Edit): Commit["changes"][number] {
    const before = this.rows.get(id) ?? null;
    const after = edit === null ? null : { ...(before ?? { ...ROW, runAt: this.clock }), ...edit };
    if (after === null) this.rows.delete(id);
    else this.rows.set(id, after);
    return { id, before, after };
  }

  #add(event: HistoryEvent): this {
    this.events.push(event);
    return this;
  }
}

/** A test that the checkers find nothing. */
export function right(what: string, story: Story): void {
  test(`nothing is wrong when ${what}`, () => assert.equal(story.verdict, null));
}

/** A test that they find this. */
export function wrong(expected: RegExp, what: string, story: Story): void {
  test(`${expected.source.slice(1).split(" ")[0]}: ${what}`, () =>
    assert.match(story.verdict ?? "nothing was found", expected));
}

export const story = (...args: ConstructorParameters<typeof Story>): Story => new Story(...args);

/** Two servers, and a job that the first one runs. */
export const running = (): Story => story().up(0, 1).insert(1).claim(0, 1).run("start", 0, 1);

export const PROMISE = DEFAULT_CONFIG.deadAfter + DEFAULT_CONFIG.heartbeatInterval;

/** Server 1 leads, and server 0 dies while it runs job 1. */
export const dies = (led = 70_000): Story =>
  story().up(1).lead(1, true).pass(led, 1).up(0).insert(1).claim(0, 1).beat(0).pass(20_000, 1, 0).down(0, "killed");
