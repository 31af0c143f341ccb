/** Makes the faults of a scenario happen. Only this file knows how; the rest of the world asks it at each step. */

import type { History } from "../run/history.ts";
import type { Fault, NthCall, Target } from "../scenario/scenario.ts";
import type { Incarnation } from "../world/process.ts";
import type { World } from "../world/world.ts";
import type { Call, Database } from "./database.ts";

type CallFault = Extract<Fault, NthCall>;
type Lasting = Extract<Fault, { readonly for: number }>;

/** What happens to whole processes. */
export interface Machines {
  kill(target: Target, restartAfter: number | null): void;
  shutDown(target: number, restartAfter: number | null): void;
  pause(target: Target, ms: number): void;
  stepWallClock(target: Target, by: number): void;
}

const MS = 1_000;
export const nameOf = (target: Target): string => (target === "client" ? "client" : `n${target}`);

export class FaultInjector {
  readonly #world: World;
  readonly #history: History;
  /** Per process and kind of call: faults that wait for their call, with how many calls they still let pass. */
  readonly #armed = new Map<string, { readonly fault: CallFault; left: number }[]>();
  /** Of calls that a fault has chosen, by call. */
  readonly #struck = new Map<Call, CallFault[]>();
  readonly #lasting = new Set<Fault>();
  #healed = false;
  /** How many have happened. */
  count = 0;

  constructor(world: World, history: History) {
    this.#world = world;
    this.#history = history;
  }

  /** Puts the faults into the world. */
  plan(faults: readonly Fault[], database: Database, machines: Machines): void {
    for (const [index, fault] of faults.entries()) {
      const label = this.#world.label(`fault${index}`);
      this.#world.add(fault.at * MS, label, null, () => {
        if (!this.#healed) this.#begin(fault, database, machines);
      });
    }
  }

  /** From now on nothing goes wrong any more, apart from what has been broken for ever. */
  heal(): void {
    this.#healed = true;
    this.#armed.clear();
    this.#struck.clear();
    this.#lasting.clear();
  }

  #begin(fault: Fault, database: Database, machines: Machines): void {
    if ("nth" in fault) {
      const key = `${nameOf(fault.target)}/${fault.op}`;
      const armed = this.#armed.get(key) ?? [];
      armed.push({ fault, left: fault.nth });
      this.#armed.set(key, armed);
      return;
    }
    this.#note(fault);
    if (fault.type === "crash") machines.kill(fault.target, fault.restartAfter);
    else if (fault.type === "shutdown") machines.shutDown(fault.target, fault.restartAfter);
    else if (fault.type === "pause") machines.pause(fault.target, fault.for);
    else if (fault.type === "wallClock") machines.stepWallClock(fault.target, fault.by);
    else if (fault.type === "databaseDown") database.stop(fault.for);
    else if (fault.type === "databaseStall") database.stall(fault.for);
    else if (fault.type === "databaseClock") database.process.stepWallClock(fault.by);
    else this.#last(fault);
  }

  #last(fault: Lasting): void {
    this.#lasting.add(fault);
    const end = (): void => {
      this.#lasting.delete(fault);
    };
    this.#world.add(this.#world.now + fault.for * MS, this.#world.label("fault/end"), null, end);
  }

  #note(fault: Fault, call?: Call): void {
    this.count += 1;
    const target = "target" in fault ? nameOf(fault.target) : "database";
    const { type, ...rest } = fault;
    const { target: _target, at: _at, ...said } = rest as Record<string, unknown>;
    const what = [type, ...Object.entries(said).map(([name, value]) => `${name}=${value}`), call?.id].filter(Boolean);
    this.#history.add({ type: "fault", at: this.#world.now, target, what: what.join(" "), fault });
  }

  #chosen<Type extends CallFault["type"]>(call: Call, type: Type): Extract<CallFault, { type: Type }> | undefined {
    if (this.#struck.size === 0) return undefined;
    const found = this.#struck.get(call)?.find((fault) => fault.type === type);
    return found as Extract<CallFault, { type: Type }> | undefined;
  }

  /** Which faults strike this call; asked once for each, as it is sent. */
  #choose(call: Call): void {
    if (this.#armed.size === 0) return;
    const armed = this.#armed.get(call.route.name);
    if (armed === undefined || armed.length === 0) return;
    const now = armed.filter((entry) => entry.left === 0);
    for (const entry of armed) entry.left -= 1;
    if (now.length === 0) return;
    for (const { fault } of now) {
      armed.splice(
        armed.findIndex((entry) => entry.fault === fault),
        1,
      );
      this.#note(fault, call);
    }
    this.#struck.set(
      call,
      now.map(({ fault }) => fault),
    );
  }

  #is(call: Call, ways: "requests" | "replies"): boolean {
    if (this.#lasting.size === 0) return false;
    const { name } = call.from.process;
    return [...this.#lasting].some(
      (fault) =>
        fault.type === "partition" && nameOf(fault.target) === name && (fault.ways === "both" || fault.ways === ways),
    );
  }

  /** Milliseconds, or null when it gets lost. */
  requestTakes(call: Call, latency: number): number | null {
    this.#choose(call);
    if (this.#is(call, "requests") || this.#chosen(call, "loseRequest")) return null;
    return this.#way(call, latency) + (this.#chosen(call, "delayRequest")?.for ?? 0);
  }

  replyTakes(call: Call, latency: number): number | null {
    if (this.#is(call, "replies") || this.#chosen(call, "loseReply")) return null;
    const way = this.#way(call, latency) + (this.#chosen(call, "delayReply")?.for ?? 0);
    this.#struck.delete(call);
    return way;
  }

  #way({ route }: Call, latency: number): number {
    return route.ways.between(0, latency);
  }

  failsBefore(call: Call): boolean {
    return this.#chosen(call, "errorBefore") !== undefined || this.#storm(call);
  }

  failsAfter(call: Call): boolean {
    return this.#chosen(call, "errorAfter") !== undefined || this.#storm(call);
  }

  #storm(call: Call): boolean {
    for (const fault of this.#lasting) {
      if (fault.type === "errors" && call.route.chances.unit() < fault.probability) return true;
    }
    return false;
  }

  /** Milliseconds. */
  commitTakes(call: Call): number {
    return this.#chosen(call, "slowCommit")?.for ?? 0;
  }

  /** The call's arguments, with no more than one row asked for if a fault says so. */
  limited(call: Call): readonly unknown[] {
    if (this.#chosen(call, "limitOne") === undefined) return call.args;
    return call.args.map((value) => {
      if (typeof value === "number") return 1;
      const asks = typeof value === "object" && value !== null && "limit" in value;
      return asks ? { ...value, limit: 1 } : value;
    });
  }

  /** When an event reaches a process, in milliseconds from now: never, once or several times. */
  deliveries(to: Incarnation, way: number): readonly number[] {
    let ways = [way];
    for (const fault of this.#lasting) {
      if (fault.type === "loseEvents") return [];
      if (fault.type === "partition" && nameOf(fault.target) === to.process.name && fault.ways !== "requests")
        return [];
      if (fault.type === "doubleEvents") ways = [way, way + 1];
      if (fault.type === "lateEvents") ways = ways.map((ms) => ms + fault.by);
    }
    return ways;
  }
}
