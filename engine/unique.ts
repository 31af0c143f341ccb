/** Unique jobs as users ask for them. */
import { createHash } from "node:crypto";
import type { Duration } from "./duration.ts";
import type { OptionsChecker } from "./enqueue.ts";
import { LONGEST_DURATION } from "./rules/limits.ts";
import type { JsonText, UniqueKey } from "./store.ts";

/** While a job holds the key, enqueueing another of its kind with the same key adds nothing and gives the holder's id. */
export interface UniqueOptions {
  /** Non-empty, of any length. Default: the args, so that two jobs with equal JSON are the same. */
  readonly key?: string;
  /**
   * How long the key is held, counted from the enqueueing, whatever becomes of the job; at least 1ms. Default: until the
   * job succeeds, fails for good or is deleted.
   */
  readonly for?: Duration;
  /** A holder that still waits takes the newer args, meta, tags, title, priority and run time. Not with `debounce`. */
  readonly replace?: boolean;
  /** The job runs so long after it was enqueued last, with the latest args; at least 1ms. Not with `delay` or `runAt`. */
  readonly debounce?: Duration;
}

const UNIQUE_OPTIONS = ["key", "for", "replace", "debounce"] as const satisfies readonly (keyof UniqueOptions)[];

/** What the options of one job say: its key, and the delay that debouncing gives it. */
export interface ReadUnique {
  readonly unique: UniqueKey;
  /** Null = as without. */
  readonly delay: number | null;
}

/** Null when the job is not unique. `args` is what the default key is made of. */
export function readUnique(check: OptionsChecker, kind: string, args: JsonText): ReadUnique | null {
  if (!check.has("unique")) return null;
  if (check.value("unique") === true) return { unique: uniqueKey(kind, args, null, "keep"), delay: null };
  if (typeof check.value("unique") !== "object") {
    check.refuse("unique", "must be true or an object with key, for, replace or debounce");
    return null;
  }
  const options = check.record("unique", UNIQUE_OPTIONS);
  if (options === undefined) return null;
  const range = { min: 1, max: LONGEST_DURATION } as const;
  const key = options.text("key", { default: args });
  const window = options.duration("for", { ...range, default: null });
  const replace = options.boolean("replace", { default: false });
  const delay = options.duration("debounce", { ...range, default: null });
  if (options.has("debounce")) {
    if (replace) options.refuse("debounce", "can't be given together with replace");
    for (const field of ["delay", "runAt"] as const) {
      if (check.has(field)) check.refuse(field, "can't be given together with unique.debounce");
    }
  }
  const onConflict = delay !== null ? "debounce" : replace ? "replace" : "keep";
  return { unique: uniqueKey(kind, key, window, onConflict), delay };
}

/** The same key is another for each kind. */
function uniqueKey(kind: string, key: string, window: number | null, onConflict: UniqueKey["onConflict"]): UniqueKey {
  const hash = createHash("sha256").update(`${kind}\u0000${key}`).digest("hex").slice(0, 32);
  return { key: hash, window, onConflict };
}
