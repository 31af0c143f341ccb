/** Unique keys: who holds one, and what a duplicate does to the holder. Instants are the store's, in milliseconds since 1970. */
import type { JobId, JobState, NewJob, UniqueKey } from "../store.ts";
import { LONGEST_DURATION } from "./limits.ts";
import { dueAt } from "./state.ts";

const KEY = /^[0-9a-f]{32}$/;
const ON_CONFLICT: readonly unknown[] = ["keep", "replace", "debounce"] satisfies UniqueKey["onConflict"][];

/** What a unique key must be; `check` adds a problem with a field unless `ok`. */
export function checkUnique(
  { key, window, onConflict }: Partial<UniqueKey>,
  check: (ok: boolean, field: string, value: unknown, rule: string) => void,
): void {
  check(typeof key === "string" && KEY.test(key), "unique.key", key, "must be 32 lowercase hex digits");
  const windowFits = window === null || (typeof window === "number" && window > 0 && window <= LONGEST_DURATION);
  check(windowFits, "unique.window", window, "must be null, or more than 0 and at most a hundred years");
  check(ON_CONFLICT.includes(onConflict), "unique.onConflict", onConflict, `must be one of ${ON_CONFLICT.join(", ")}`);
}

/** When a key that is taken now becomes free whatever its job does; null = when the job ends. */
export function keyExpiry({ window }: UniqueKey, now: number): number | null {
  return window === null ? null : now + Math.ceil(window);
}

/** True while a key with this expiry is held. Without one it is held until it is released. */
export function isHeld(expiresAt: number | null, now: number): boolean {
  return expiresAt === null || expiresAt > now;
}

/** The key that a job releases when it ends and takes again when it is requeued; a window runs by itself. */
export function keptKey(unique: UniqueKey | null): string | null {
  return unique === null || unique.window !== null ? null : unique.key;
}

/** True for the states that release a key without a window. */
export function releasesKey(state: JobState): boolean {
  return state === "succeeded" || state === "failed" || state === "deleted";
}

/** When a new job is due; debouncing goes by `delay` alone. */
export function uniqueDueAt(job: Pick<NewJob, "runAt" | "delay" | "unique">, now: number): number {
  return job.unique?.onConflict === "debounce" ? dueAt({ runAt: null, delay: job.delay }, now) : dueAt(job, now);
}

/** Who has the key of a job that is not added. */
export type Holder =
  /** A job from before the call. `first`: this duplicate is the call's first of that key, the only one that may replace. */
  | { readonly id: JobId; readonly first: boolean }
  /** An earlier job of the call. */
  | { readonly position: number };

/** For each job of a call the holder that it is a duplicate of, or null. `heldBy` tells who held a key before the call. */
export function findHolders(
  jobs: readonly Pick<NewJob, "unique">[],
  heldBy: (key: string) => JobId | undefined,
): (Holder | null)[] {
  const inCall = new Map<string, Holder>();
  return jobs.map(({ unique }, position) => {
    if (unique === null) return null;
    const repeated = inCall.get(unique.key);
    if (repeated !== undefined) return repeated;
    const id = heldBy(unique.key);
    inCall.set(unique.key, id === undefined ? { position } : { id, first: false });
    return id === undefined ? null : { id, first: true };
  });
}

/** Where a holder goes that takes a duplicate's payload. */
export interface Replacement {
  readonly state: JobState;
  readonly runAt: number;
}

/** Null = the holder stays as it is. */
export function replacement(
  holder: { readonly state: JobState; readonly runAt: number },
  job: Pick<NewJob, "runAt" | "delay" | "unique">,
  now: number,
): Replacement | null {
  const { state } = holder;
  const runAt = uniqueDueAt(job, now);
  switch (job.unique?.onConflict) {
    case "debounce":
      return state === "scheduled" ? { state, runAt } : null;
    case "replace":
      if (state === "scheduled" || state === "awaiting") return { state, runAt };
      if (state !== "enqueued" && state !== "throttled") return null;
      return runAt > now ? { state: "scheduled", runAt } : { state, runAt: holder.runAt };
    default:
      return null;
  }
}
