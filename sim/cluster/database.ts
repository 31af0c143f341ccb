/**
 * The database. Each call of a process goes its way in steps, at each of which a fault may strike:
 *
 *     send → (lost, late) → the database's door → execute and commit → (lost, late) → reply
 *
 * Calls are executed one at a time and wholly, as by a database with one writer; what the store does is done by the real
 * store. A process that was killed gets no reply; what it has sent is executed all the same.
 */
import { StoreError } from "../../engine/errors.ts";
import type { Runtime } from "../../engine/runtime.ts";
import type { Store, StoreEvent, StoreListener, Writer } from "../../engine/store.ts";
import type { History, Part } from "../run/history.ts";
import { type Incarnation, type Observer, SimProcess } from "../world/process.ts";
import type { Event, Label, Micros, World } from "../world/world.ts";
import { type Audit, auditOf, type Change } from "./audit.ts";
import { type Call, connect, Subscriber } from "./connection.ts";
import type { FaultInjector } from "./faults.ts";

export type { Call } from "./connection.ts";

export type StoreKind = "memory" | "sqlite";
export const STORE_KINDS = ["memory", "sqlite"] as const satisfies readonly StoreKind[];

export type OpenStore = (runtime: Runtime) => Promise<Store>;

export interface DatabaseDeps {
  readonly world: World;
  readonly observer: Observer;
  readonly history: History;
  /** Longest way, milliseconds. */
  readonly latency: number;
  /** A process has got the answer to a call. */
  readonly onReply: (call: Call, result: unknown) => void;
  readonly faults: FaultInjector;
}

const MS = 1_000;

export class Database {
  /** Its clock. Never paused, killed or cut off as processes are; `down` and `stall` are its own ways to fail. */
  readonly process: SimProcess;
  readonly #deps: DatabaseDeps;
  readonly #runtime: Incarnation;
  #waiting: Call[] = [];
  readonly #turns: Label;
  #store: Store | null = null;
  #audit: Audit | null = null;
  #busy = false;
  #down = false;
  /** It does nothing before. */
  #stalledUntil: Micros = 0;
  /** Ends the stall that calls wait for. */
  #waking: Event | null = null;
  readonly #subscribers = new Set<Subscriber>();

  constructor(deps: DatabaseDeps) {
    this.#deps = deps;
    this.process = new SimProcess(deps.world, "database", deps.observer);
    this.#runtime = this.process.start();
    this.#turns = deps.world.label("database/next");
  }

  /** To be called while the world stands still. */
  async open(open: OpenStore): Promise<void> {
    const store = await open(this.#runtime);
    this.#store = store;
    this.#audit = auditOf(store as Parameters<typeof auditOf>[0]);
    store.subscribe((event) => this.#publish(event));
  }

  async close(): Promise<void> {
    await this.#store?.close();
  }

  /** The store itself, for looking at it when a run is over. */
  get store(): Store {
    if (this.#store === null) throw new Error("the database is not open");
    return this.#store;
  }

  get down(): boolean {
    return this.#down;
  }

  /** Nobody can reach it for `ms` milliseconds. */
  stop(ms: number): void {
    if (this.#down) return;
    this.#down = true;
    const impatient = this.#waiting.filter(({ route }) => !route.patient);
    this.#waiting = this.#waiting.filter(({ route }) => route.patient);
    for (const call of impatient) this.#refuse(call, "the database has stopped");
    for (const subscriber of this.#subscribers) subscriber.connection(false);
    this.#deps.world.add(this.#deps.world.now + ms * MS, this.#deps.world.label("database/start"), null, () =>
      this.heal(),
    );
  }

  /** Ends whatever is wrong with it. */
  heal(): void {
    this.#stalledUntil = 0;
    this.#wake();
    if (!this.#down) return;
    this.#down = false;
    for (const subscriber of this.#subscribers) subscriber.connection(true);
    this.#next();
  }

  /** It does nothing for `ms` milliseconds; calls wait. */
  stall(ms: number): void {
    const { world } = this.#deps;
    this.#stalledUntil = Math.max(this.#stalledUntil, world.now + ms * MS);
  }

  /** What one process gets in place of the store; `patient` calls wait for a database that is down. */
  connect(from: Incarnation, { patient = false } = {}): Store {
    return connect(this, this.#deps, from, this.store, patient);
  }

  subscribe(from: Incarnation, listener: StoreListener): () => Promise<void> {
    const subscriber = new Subscriber(this.#deps, from, listener);
    this.#subscribers.add(subscriber);
    if (!this.#down) subscriber.connection(true);
    return async () => {
      subscriber.stop();
      this.#subscribers.delete(subscriber);
    };
  }

  #publish(event: StoreEvent): void {
    for (const subscriber of [...this.#subscribers]) {
      if (subscriber.alive) subscriber.send(event);
      else this.#subscribers.delete(subscriber);
    }
  }

  /** A call has reached the database's door. */
  arrive(call: Call): void {
    if (this.#down && !call.route.patient) this.#refuse(call, "the database can't be reached");
    else if (this.#deps.faults.failsBefore(call)) this.#refuse(call, "a fault before the work");
    else {
      this.#waiting.push(call);
      this.#next();
    }
  }

  #next(): void {
    const { world } = this.#deps;
    if (this.#busy || this.#down || this.#waiting.length === 0) return;
    if (this.#stalledUntil > world.now) {
      this.#busy = true;
      this.#waking = world.add(this.#stalledUntil, this.#turns, null, () => this.#wake());
      return;
    }
    const call = this.#waiting.shift() as Call;
    this.#busy = true;
    void this.#execute(call);
  }

  #wake(): void {
    if (this.#waking === null) return;
    this.#deps.world.cancel(this.#waking);
    this.#waking = null;
    this.#busy = false;
    this.#next();
  }

  async #execute(call: Call): Promise<void> {
    const { world, history, faults } = this.#deps;
    const clock = this.process.wallClock;
    const args = faults.limited(call);
    const parts: Part[] = [];
    let result: unknown;
    let error: unknown;
    try {
      const method = this.store[call.op as keyof Store] as (...args: readonly unknown[]) => Promise<unknown>;
      result = await method.apply(this.store, (call.op === "transaction" ? recording(args, parts) : args) as unknown[]);
      if (call.op !== "transaction") parts.push({ op: call.op, args, result });
    } catch (caught) {
      error = caught;
      parts.length = 0;
    }
    const changes: readonly Change[] = this.#audit?.drain() ?? [];
    const number = history.nextCommit();
    history.add({ type: "commit", at: world.now, clock, number, call, args, result, error, parts, changes });
    const slow = faults.commitTakes(call);
    if (slow > 0) this.stall(slow);
    if (error === undefined && faults.failsAfter(call)) error = unavailable("a fault after the work");
    this.#reply(call, result, error, slow);
    this.#busy = false;
    this.#next();
  }

  #refuse(call: Call, why: string): void {
    this.#reply(call, undefined, unavailable(why), 0);
  }

  /** `after`: milliseconds until the answer is sent. */
  #reply(call: Call, result: unknown, error: unknown, after: number): void {
    const { world, faults, history, latency } = this.#deps;
    const way = faults.replyTakes(call, latency);
    if (way === null) return;
    world.add(world.now + (after + way) * MS, call.route.replies, call.from, () => {
      if (call.answered) return;
      call.answered = true;
      const { from } = call;
      const ok = error === undefined;
      history.add({ type: "reply", at: world.now, incarnation: from.name, call, ok, result: ok ? result : undefined });
      if (ok) {
        this.#deps.onReply(call, result);
        call.resolve(result);
      } else call.reject(error);
    });
  }
}

const unavailable = (why: string): StoreError => new StoreError("store_unavailable", `simulated: ${why}`);

/** Arguments of a transaction that writes down what its work does. The work is the application's; here it runs at once and wholly. */
function recording([work]: readonly unknown[], parts: Part[]): readonly unknown[] {
  const recorded = (writer: Writer): Writer =>
    new Proxy(writer, {
      get(target, op) {
        const value: unknown = Reflect.get(target, op, target);
        if (typeof value !== "function" || typeof op !== "string") return value;
        return async (...args: unknown[]): Promise<unknown> => {
          const result: unknown = await value.apply(target, args);
          parts.push({ op, args, result });
          return result;
        };
      },
    });
  return [(writer: Writer) => (work as (writer: Writer) => unknown)(recorded(writer))];
}
