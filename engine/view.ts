/** Jobs as the client shows them: what the store keeps, with its JSON decoded. */
import { StoreError } from "./errors.ts";
import { decodeJson } from "./json.ts";
import type { HistoryEntry, JobId, JobRecord, JobState, JsonText } from "./store.ts";

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
  /** Checkpoints that its attempts saved. */
  readonly params: Readonly<Record<string, unknown>>;
  /** What the handler returned; undefined when it returned nothing or has not succeeded. */
  readonly output: unknown;
  /** Jobs that it waits for, or has waited for. */
  readonly parents: readonly JobId[];
  /** How many of them it still waits for; 0 unless `awaiting`. */
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
