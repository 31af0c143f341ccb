/** Jobs as the client shows them: what the store keeps, with its JSON decoded. */
import { StoreError } from "./errors.ts";
import { decodeJson } from "./json.ts";
import type { Misfire } from "./rules/misfire.ts";
import type { BatchId, HistoryEntry, JobId, JobRecord, JobState, JsonText, RecurringRecord } from "./store.ts";

export interface JobView {
  readonly id: JobId;
  readonly kind: string;
  readonly queue: string;
  readonly state: JobState;
  /** As they were enqueued: the schema's input, not its output. */
  readonly args: unknown;
  readonly priority: number;
  /** Number of the current or latest attempt; 0 before the first. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Milliseconds per attempt; 0 = none, null = the kind's or the server's. */
  readonly timeout: number | null;
  readonly createdAt: Date;
  /** When it is, or last became, due. */
  readonly runAt: Date;
  readonly deadline: Date | null;
  readonly attemptedAt: Date | null;
  /** Set while succeeded, failed or deleted. */
  readonly finalizedAt: Date | null;
  readonly title: string | null;
  readonly tags: readonly string[];
  readonly meta: Readonly<Record<string, string>>;
  /** The recurring job that it is a run of. */
  readonly recurringId: string | null;
  /** Of the job's limit; null = none. */
  readonly limitKey: string | null;
  /** Checkpoints that its attempts saved. */
  readonly params: Readonly<Record<string, unknown>>;
  /** What the handler returned; undefined when it returned nothing or has not succeeded. */
  readonly output: unknown;
  /** Percent, 0 to 100: what an attempt reported last. Null = nothing yet. */
  readonly progress: number | null;
  /** Jobs that it waits for, or has waited for. */
  readonly parents: readonly JobId[];
  /** The batch that it is a member of. */
  readonly batch: BatchId | null;
  /** The batch that it waits for, or has waited for. */
  readonly afterBatch: BatchId | null;
  /** How many of its parents it still waits for, the batch among them; 0 unless `awaiting`. */
  readonly pendingParents: number;
  /** Jobs that wait, or have waited, for this one, by id; the first 1,000. */
  readonly children: readonly JobId[];
  /** Id of the server that claimed it last. */
  readonly server: string | null;
  /** It was deleted while it ran and has been asked to stop. */
  readonly cancelRequested: boolean;
  /** Oldest first, the latest 16. A plain success leaves no entry. */
  readonly history: readonly HistoryEntry[];
}

/** @throws StoreError `store_corrupt` when the store holds something that is not JSON */
export function viewJob({ claim: _, ...record }: JobRecord): JobView {
  const decode = (what: string, text: JsonText): unknown => {
    try {
      return decodeJson(text);
    } catch (cause) {
      throw new StoreError("store_corrupt", `${what} of job ${record.id} is not JSON`, { cause });
    }
  };
  const params = Object.entries(record.params).map(([key, text]) => [key, decode(`param ${key}`, text)] as const);
  return {
    ...record,
    args: decode("args", record.args),
    params: Object.fromEntries(params),
    output: record.output === null ? undefined : decode("output", record.output),
  };
}

/** A recurring job as it is now. */
export interface RecurringView {
  readonly id: string;
  /** That of `syncRecurring`; null when it was set by itself. */
  readonly group: string | null;
  /** In its canonical form. */
  readonly cron: string;
  readonly timeZone: string;
  readonly misfire: Misfire;
  readonly overlap: boolean;
  readonly paused: boolean;
  readonly kind: string;
  readonly queue: string;
  /** As they were given; undefined when what the store holds is not JSON. */
  readonly args: unknown;
  readonly priority: number;
  readonly maxAttempts: number;
  /** Milliseconds per attempt; 0 = none, null = the kind's or the server's. */
  readonly timeout: number | null;
  readonly title: string | null;
  readonly tags: readonly string[];
  readonly meta: Readonly<Record<string, string>>;
  /** When it is due next; null = never. Says nothing while it is paused. */
  readonly nextRunAt: Date | null;
  /** Latest occurrence that ran or was passed over. */
  readonly lastRunAt: Date | null;
  /** Latest job that it made, which may be gone. */
  readonly lastJobId: JobId | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export function viewRecurring({ template, version: _, ...row }: RecurringRecord): RecurringView {
  const { kind, queue, priority, maxAttempts, timeout, title, tags, meta } = template;
  return {
    ...row,
    ...{ kind, queue, priority, maxAttempts, timeout, title, tags, meta },
    args: decodeIfJson(template.args),
  };
}

/** One damaged row must not hide the others. */
function decodeIfJson(text: JsonText): unknown {
  try {
    return decodeJson(text);
  } catch {
    return undefined;
  }
}
