/** Writes down what servers claim and finish in a store. */
import { decodeJson } from "../json.ts";
import { reasonOf } from "../rules/outcome.ts";
import type { ClaimQuery, ClaimReply, FinishResult, JobId, JobRef, JobState, Outcome, Store } from "../store.ts";

/** One attempt that has ended. */
export interface AttemptRun {
  /** Its number, from 1. */
  readonly attempt: number;
  readonly startedAt: Date;
  /** Where the job went: `scheduled` or `enqueued` to run again, `succeeded`, `failed` or `deleted`. */
  readonly state: JobState;
  /** As in the job's history; null for a plain success. */
  readonly reason: string | null;
  /** What went wrong, as the job's history says it; null when nothing did. */
  readonly error: string | null;
  /** Milliseconds until the job was to run again; 0 = at once, or not at all. */
  readonly delay: number;
  /** What the handler returned, as it comes back from JSON; undefined = nothing. */
  readonly output: unknown;
}

/** A job that runs so often at one instant, for example because it snoozes for no time at all, will never end. */
const ENDLESS = 1_000;

export class WatchedStore {
  /** For servers, in place of the store itself. */
  readonly store: Store;
  /** Calls of `finish` so far. */
  finishes = 0;
  /** A job that ran again and again; nothing is claimed any more once there is one. */
  endless: JobId | null = null;
  readonly #onStart: (ref: JobRef) => void;
  readonly #onEnd: (ref: JobRef) => void;
  readonly #running = new Map<string, { readonly attempt: number; readonly startedAt: Date }>();
  readonly #ended = new Map<JobId, AttemptRun[]>();

  /** `onStart` is called as a job is claimed, `onEnd` once its outcome is stored or refused. */
  constructor(store: Store, onStart: (ref: JobRef) => void, onEnd: (ref: JobRef) => void) {
    this.#onStart = onStart;
    this.#onEnd = onEnd;
    const watched = {
      claim: async (query: ClaimQuery) =>
        this.endless === null ? this.#claimed(await store.claim(query)) : { known: true, jobs: [], nextIn: null },
      finish: async (server: string, outcomes: readonly Outcome[]) =>
        this.#finished(outcomes, await store.finish(server, outcomes)),
    };
    this.store = new Proxy(store, {
      get: (target, name) => {
        if (name === "claim" || name === "finish") return watched[name];
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }

  /** Attempts that have ended, by job, in the order in which the first of each did. */
  get runs(): ReadonlyMap<JobId, readonly AttemptRun[]> {
    return this.#ended;
  }

  #claimed(reply: ClaimReply): ClaimReply {
    for (const job of reply.jobs) {
      this.#running.set(keyOf(job), { attempt: job.attempt, startedAt: job.attemptedAt });
      this.#onStart(job);
    }
    return reply;
  }

  #finished(outcomes: readonly Outcome[], results: FinishResult[]): FinishResult[] {
    this.finishes += 1;
    for (const [index, outcome] of outcomes.entries()) {
      const result = results[index];
      // What is busy or rejected is sent again.
      if (result?.status !== "applied" && result?.status !== "stale") continue;
      const started = this.#running.get(keyOf(outcome));
      this.#running.delete(keyOf(outcome));
      if (result.status === "applied" && started) this.#add(outcome, { ...started, state: result.state });
      this.#onEnd(outcome);
    }
    return results;
  }

  #add(outcome: Outcome, { state, ...started }: Pick<AttemptRun, "attempt" | "startedAt" | "state">): void {
    const { id, error } = outcome;
    const runs = this.#ended.get(id) ?? [];
    const delay = state === "scheduled" ? outcome.delay : 0;
    const output = outcome.output === null ? undefined : decodeJson(outcome.output);
    runs.push({ ...started, state, reason: reasonOf(outcome, state), error, delay, output });
    this.#ended.set(id, runs);
    const since = runs.at(-ENDLESS)?.startedAt.getTime();
    if (since === started.startedAt.getTime()) this.endless = id;
  }
}

const keyOf = ({ id, claim }: JobRef): string => `${id}:${claim}`;
