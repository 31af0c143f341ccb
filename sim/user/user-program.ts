/** A user's handlers and workload as a program of the simulated world. */
import { sleep } from "../../engine/async.ts";
import { Client } from "../../engine/client.ts";
import { type Duration, parseDuration } from "../../engine/duration.ts";
import type { Handler } from "../../engine/job.ts";
import type { Running } from "../cluster/cluster.ts";
import { recorded } from "../run/handlers.ts";
import type { MakeProgram } from "../run/program.ts";
import type { Incarnation } from "../world/process.ts";

/** What a handler or a workload needs of its process in place of the real clock. */
export interface SimContext<State> {
  /** What the world outside remembers of this run. */
  readonly state: State;
  /** Waits in virtual time; rejects with the signal's reason when that aborts. */
  sleep(duration: Duration, signal?: AbortSignal): Promise<void>;
  /** Milliseconds since 1970 by the clock of this process. */
  now(): number;
  /** Uniform in [0, 1), the same whenever the run is repeated. */
  random(): number;
  /** A line for the timeline that a failure shows, for example `charged order 7`. */
  note(text: string): void;
}

export interface WorkloadContext<State> extends SimContext<State> {
  readonly client: Client;
}

export interface UserCode<State> {
  readonly state: () => State;
  readonly handlers: (sim: SimContext<State>) => readonly Handler[];
  readonly workload: (sim: WorkloadContext<State>) => void | Promise<void>;
  readonly check: (state: State) => void;
  readonly queues: readonly string[];
  /** Milliseconds. */
  readonly patience: number;
}

/** One for each wait: a killed process never ends its own, and a signal for all would keep its whole world alive. */
const never = (): AbortSignal => new AbortController().signal;

export function userProgram<State>(code: UserCode<State>): MakeProgram {
  return ({ world, history, database }) => {
    const state = code.state();
    let done = false;
    const contextOf = (incarnation: Incarnation): SimContext<State> => ({
      state,
      async sleep(duration, signal = never()) {
        await sleep(incarnation, parseDuration(duration) ?? 0, signal);
        if (signal.aborted) throw signal.reason;
      },
      now: () => incarnation.now(),
      random: () => incarnation.random(),
      note: (text) => history.add({ type: "note", at: world.now, incarnation: incarnation.name, text }),
    });
    return {
      queues: code.queues,
      backoff: null,
      handlers: (running: Running) =>
        code.handlers(contextOf(running.incarnation)).map((handler) => recorded({ world, history }, running, handler)),
      start(incarnation) {
        const client = new Client(database.connect(incarnation, { patient: true }), { runtime: incarnation });
        const work = async (): Promise<void> => {
          await code.workload({ ...contextOf(incarnation), client });
          done = true;
        };
        work().catch((error: unknown) => world.fail(error));
      },
      get done(): boolean {
        return done;
      },
      heal() {},
      work: () => code.patience,
      check: () => code.check(state),
    };
  };
}
