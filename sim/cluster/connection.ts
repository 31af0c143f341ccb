/** What a process has of the database: its calls, and its subscription to events. */
import type { Store, StoreEvent, StoreListener } from "../../engine/store.ts";
import type { Incarnation } from "../world/process.ts";
import { Stream } from "../world/random.ts";
import type { Label, Micros, World } from "../world/world.ts";
import type { Database, DatabaseDeps } from "./database.ts";

const MS = 1_000;

/** What all calls of one method by one start of a process have in common. */
export interface Route {
  /** For example `n0/claim`, whichever start of the process. */
  readonly name: string;
  readonly requests: Label;
  readonly replies: Label;
  /** How long their ways take. */
  readonly ways: Stream;
  /** Which of them fail where some do. */
  readonly chances: Stream;
  /** They wait for a database that is down instead of failing. */
  readonly patient: boolean;
}

/** One call of a store's method by a process. */
export interface Call {
  /** For example `n0.1/claim#17`. */
  readonly id: string;
  readonly op: string;
  readonly args: readonly unknown[];
  readonly route: Route;
  readonly from: Incarnation;
  readonly sentAt: Micros;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  answered: boolean;
}

/** The other end of a subscription. */
export class Subscriber {
  readonly #deps: DatabaseDeps;
  readonly #from: Incarnation;
  readonly #listener: StoreListener;
  readonly #label: Label;
  readonly #latency: Stream;
  #stopped = false;

  constructor(deps: DatabaseDeps, from: Incarnation, listener: StoreListener) {
    this.#deps = deps;
    this.#from = from;
    this.#listener = listener;
    this.#label = deps.world.label(`${from.name}/event`);
    this.#latency = new Stream(deps.world.seed, `${from.name}/event`);
  }

  get alive(): boolean {
    return !this.#stopped && this.#from.alive;
  }

  stop(): void {
    this.#stopped = true;
  }

  connection(up: boolean): void {
    this.#deliver({ type: up ? "connected" : "disconnected" }, this.#latency.between(0, this.#deps.latency));
  }

  send(event: StoreEvent): void {
    const { faults, latency } = this.#deps;
    for (const way of faults.deliveries(this.#from, this.#latency.between(0, latency))) this.#deliver(event, way);
  }

  #deliver(event: StoreEvent, ms: number): void {
    const { world, history } = this.#deps;
    world.add(world.now + ms * MS, this.#label, this.#from, () => {
      if (this.#stopped) return;
      history.add({ type: "told", at: world.now, incarnation: this.#from.name, event });
      this.#listener(event);
    });
  }
}

/** What one process gets in place of the store. */
export function connect(
  database: Database,
  deps: DatabaseDeps,
  from: Incarnation,
  store: Store,
  patient: boolean,
): Store {
  const { world, history, faults, latency } = deps;
  const send = (route: Route, op: string, args: readonly unknown[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (!from.alive) world.fail(new Error(`${from.name} is gone and sends ${op}`));
      const { requests } = route;
      const id = `${requests.text}#${requests.count + 1}`;
      const call: Call = { id, op, args, route, from, sentAt: world.now, resolve, reject, answered: false };
      history.add({ type: "send", at: world.now, incarnation: from.name, call });
      const way = faults.requestTakes(call, latency);
      // A request that is on its way arrives, whatever becomes of the process that has sent it.
      if (way === null) requests.count += 1;
      else world.add(world.now + way * MS, requests, null, () => database.arrive(call));
    });
  const methods = new Map<string, (...args: unknown[]) => Promise<unknown>>();
  return new Proxy(store, {
    get(target, name) {
      const known = methods.get(name as string);
      if (known) return known;
      if (name === "subscribe") return (listener: StoreListener) => database.subscribe(from, listener);
      if (name === "close") return async () => {};
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function" || typeof name !== "string") return value;
      const route = routeOf(world, from, name, patient);
      const method = (...args: unknown[]): Promise<unknown> => send(route, name, args);
      methods.set(name, method);
      return method;
    },
  });
}

function routeOf(world: World, from: Incarnation, op: string, patient: boolean): Route {
  const text = `${from.name}/${op}`;
  return {
    name: `${from.process.name}/${op}`,
    requests: world.label(text),
    replies: world.label(`${text}/reply`),
    ways: new Stream(world.seed, `${text}/way`),
    chances: new Stream(world.seed, `${text}/chance`),
    patient,
  };
}
