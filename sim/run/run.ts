/**
 * Runs one scenario: first the time of its faults, in which nothing may go wrong that must not; then all that was not
 * broken for ever is healed, and everything must come to its end within a bound.
 */

import type { JobId } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import type { Snapshot } from "../cluster/audit.ts";
import { Cluster } from "../cluster/cluster.ts";
import { Database, type OpenStore, type StoreKind } from "../cluster/database.ts";
import { FaultInjector } from "../cluster/faults.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { onUnhandledRejection } from "../world/drain.ts";
import type { Observer } from "../world/process.ts";
import { Stream } from "../world/random.ts";
import { watch } from "../world/tripwire.ts";
import { type Event, World } from "../world/world.ts";
import { type Checker, History, type HistoryEvent, Violation, withoutNumbers } from "./history.ts";
import { Jobs } from "./jobs.ts";
import { type MakeProgram, type Program, planned } from "./program.ts";

export interface RunOptions {
  readonly store: StoreKind;
  /** Made anew for each run. */
  readonly checkers?: (scenario: Scenario) => readonly Checker[];
  /** Default: what the plans of the scenario say. */
  readonly program?: MakeProgram;
  /** Called for each event of the world before it happens. */
  readonly onEvent?: (event: Event) => void;
  /** Milliseconds of virtual time after which all is left as it is, without a judgement. Default: never. */
  readonly until?: number;
}

export interface RunResult {
  /** Null = every promise was kept. */
  readonly failure: Failure | null;
  readonly digest: number;
  readonly events: number;
  readonly commits: number;
  readonly faults: number;
  /** Milliseconds of virtual time. */
  readonly simulated: number;
  readonly marks: ReadonlySet<string>;
  readonly history: readonly HistoryEvent[];
}

export interface Failure {
  /** A promise that was broken, or `error` for what should never be thrown. */
  readonly invariant: string;
  readonly message: string;
  /** The same for failures of the same kind. */
  readonly signature: string;
  readonly job: number | null;
  /** Milliseconds since the beginning. */
  readonly at: number;
  readonly cause: unknown;
}

/** What of a failure can be sent to another process. */
export type PlainFailure = Omit<Failure, "cause">;

export const OPEN: Readonly<Record<StoreKind, OpenStore>> = {
  memory: (runtime) => MemoryStore.open({ runtime }),
  sqlite: (runtime) => SqliteStore.open({ path: ":memory:", runtime, durability: "normal" }),
};

const MS = 1_000;
/** What a run that was stopped has failed with. */
const STOPPED = Symbol("stopped");

export async function run(scenario: Scenario, options: RunOptions): Promise<RunResult> {
  const running = new Run(scenario, options);
  const { world } = running;
  const off = onUnhandledRejection((reason) => world.fail(reason));
  const unwatch = watch(world, ({ api, where }) => world.fail(new Violation("tripwire", `${api} at ${where}`)));
  try {
    return await running.run();
  } finally {
    unwatch();
    off();
  }
}

class Run {
  readonly world: World;
  readonly #scenario: Scenario;
  readonly #open: OpenStore;
  readonly #history: History;
  readonly #jobs = new Jobs();
  readonly #marks = new Set<string>();
  readonly #faults: FaultInjector;
  readonly #database: Database;
  readonly #program: Program;
  readonly #cluster: Cluster;

  constructor(scenario: Scenario, options: RunOptions) {
    const { store, checkers, program = planned, onEvent, until = Number.POSITIVE_INFINITY } = options;
    const world = new World(scenario.seed);
    if (onEvent !== undefined || until !== Number.POSITIVE_INFINITY) {
      world.onEvent = (event) => {
        if (event.at > until * MS) world.fail(STOPPED);
        onEvent?.(event);
      };
    }
    this.world = world;
    this.#scenario = scenario;
    this.#open = OPEN[store];
    this.#history = new History([this.#jobs, ...(checkers?.(scenario) ?? [])], (violation) => world.fail(violation));
    const history = this.#history;
    this.#faults = new FaultInjector(world, history);
    this.#database = new Database({
      ...{ world, history, faults: this.#faults, latency: scenario.config.latency },
      observer: this.#observer("database"),
      onReply: (call, result) => this.#cluster.replied(call, result),
    });
    this.#program = program({ world, history, database: this.#database, scenario });
    this.#cluster = new Cluster(
      {
        ...{ world, history, database: this.#database },
        observerOf: (server) => this.#observer(server),
        clientObserver: this.#observer("client"),
        program: this.#program,
      },
      scenario,
    );
  }

  async run(): Promise<RunResult> {
    const { duration, faults } = this.#scenario;
    await this.#database.open(this.#open);
    try {
      this.#faults.plan(faults, this.#database, this.#cluster);
      await this.world.run(duration * MS, () => false);
      if (!this.world.failed) await this.#comeToAnEnd();
      if (!this.world.failed) this.#guarded(() => this.#history.end());
      if (!this.world.failed) this.#guarded(() => this.#program.check());
    } finally {
      await this.#database.close();
    }
    return this.#result();
  }

  /** Nothing goes wrong any more; what has to end, ends. */
  async #comeToAnEnd(): Promise<void> {
    const { servers } = this.#scenario;
    const chance = new Stream(this.world.seed, "core");
    const core = new Set([...servers.keys()].filter(() => chance.unit() < 0.6));
    if (core.size === 0) core.add(Math.floor(chance.unit() * servers.length));
    this.#history.add({ type: "healed", at: this.world.now });
    this.#faults.heal();
    this.#database.heal();
    this.#program.heal();
    this.#cluster.settle(core, () => chance.unit() < 0.5);
    const ended = (): boolean => this.#jobs.open === 0 && this.#program.done;
    if (!(await this.world.run(this.world.now + this.#bound() * MS, ended))) {
      this.#guarded(() => this.#reportOpen());
      return;
    }
    await this.#stopServers();
  }

  /** Milliseconds within which everything must end; `docs/simulator.md` says why. */
  #bound(): number {
    const { deadAfter, heartbeatInterval, leaderTtl, pollInterval } = this.#scenario.config;
    const rescue = 2 * (deadAfter + 2 * heartbeatInterval) + 2 * leaderTtl;
    const work = this.#program.work(this.#openJobs().map(([, job]) => job));
    return 2 * (rescue + work) + 60_000 + 10 * pollInterval + this.#setBack();
  }

  /** Milliseconds that the database's clock was set back by: what was due then becomes due so much later. */
  #setBack(): number {
    return this.#scenario.faults.reduce(
      (sum, fault) => sum + (fault.type === "databaseClock" ? Math.max(-fault.by, 0) : 0),
      0,
    );
  }

  #openJobs(): [JobId, Snapshot][] {
    return [...this.#jobs.rows].filter(([, { state }]) => state !== "succeeded" && state !== "deleted");
  }

  #reportOpen(): never {
    const open = this.#openJobs();
    const [first] = open;
    if (first === undefined) throw new Violation("L4", "the application could not do what it had planned");
    const [id, { state }] = first;
    // Of one state only: the same failure is then the same with fewer jobs.
    const alike = open.filter(([, other]) => other.state === state).map(([other]) => other);
    throw new Violation("L4", `jobs that do not end, ${state}: ${alike.join(", ")}`, id);
  }

  async #stopServers(): Promise<void> {
    const { shutdownTimeout, killGrace, heartbeatInterval } = this.#scenario.config;
    const stopping = this.#cluster.running.filter(({ incarnation }) => !incarnation.paused);
    for (const running of stopping) this.#guarded(() => this.#cluster.stop(running));
    const ended = (): boolean => stopping.every(({ incarnation }) => !incarnation.alive);
    const bound = this.world.now + (shutdownTimeout + killGrace + heartbeatInterval + 40_000) * MS;
    if (await this.world.run(bound, ended)) return;
    if (!this.world.failed) this.world.fail(new Violation("S19", "a server does not stop"));
  }

  #guarded(fn: () => void): void {
    try {
      fn();
    } catch (error) {
      this.world.fail(error);
    }
  }

  #observer(of: number | "database" | "client"): Observer {
    const { servers } = this.#scenario;
    const without = new Set<string>(
      typeof of === "number" ? servers[of]?.without : servers.flatMap((server) => server.without),
    );
    return {
      mark: (name) => this.#marks.add(name),
      broken: (name) => this.world.fail(new Violation("engine", name)),
      buggify: (site) => without.has(site),
      stands: (incarnation, still) =>
        this.#history.add({ ...{ at: this.world.now, incarnation }, type: still ? "paused" : "resumed" }),
    };
  }

  #result(): RunResult {
    const { world } = this;
    return {
      failure: world.failed && world.failure !== STOPPED ? failureOf(world.failure, world.now / MS) : null,
      digest: world.digest,
      events: world.events,
      commits: this.#history.commits,
      faults: this.#faults.count,
      simulated: world.now / MS,
      marks: this.#marks,
      history: this.#history.events,
    };
  }
}

function failureOf(cause: unknown, at: number): Failure {
  if (cause instanceof Violation) {
    const { invariant, message, signature, job } = cause;
    return { invariant, message, signature, job, at, cause };
  }
  const message = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
  return { invariant: "error", message, signature: `error ${withoutNumbers(message)}`, job: null, at, cause };
}
