/** A job's history: one entry for each transition that has a reason, the latest 16, each text cut to size. */
import type { HistoryEntry, JobState } from "../store.ts";
import { ERROR_MAX_BYTES, HISTORY_MAX_ENTRIES, REASON_MAX_BYTES, TRACE_MAX_BYTES } from "./limits.ts";
import { cutText } from "./text.ts";

/** An entry as the stores keep it: JSON with short keys, instants in milliseconds, nothing that is null. */
interface StoredEntry {
  at: number;
  state: JobState;
  attempt: number;
  reason: string;
  error?: string;
  trace?: string;
  server?: string;
}

export function historyEntry(
  why: { readonly reason: string; readonly error?: string | null; readonly trace?: string | null },
  state: JobState,
  attempt: number,
  server: string | null,
  now: number,
): HistoryEntry {
  const cut = (text: string | null | undefined, max: number): string | null =>
    text == null ? null : cutText(text, max);
  return {
    at: new Date(now),
    state,
    attempt,
    reason: cutText(why.reason, REASON_MAX_BYTES),
    error: cut(why.error, ERROR_MAX_BYTES),
    trace: cut(why.trace, TRACE_MAX_BYTES),
    server,
  };
}

export function appendHistory<Entry>(history: readonly Entry[], entry: Entry): Entry[] {
  return [...history.slice(Math.max(history.length - HISTORY_MAX_ENTRIES + 1, 0)), entry];
}

export function encodeHistory(history: readonly HistoryEntry[]): string {
  const stored = history.map(
    ({ at, state, attempt, reason, error, trace, server }): StoredEntry => ({
      at: at.getTime(),
      state,
      attempt,
      reason,
      ...(error !== null && { error }),
      ...(trace !== null && { trace }),
      ...(server !== null && { server }),
    }),
  );
  return JSON.stringify(stored);
}

export function decodeHistory(text: string): HistoryEntry[] {
  return (JSON.parse(text) as StoredEntry[]).map(({ at, state, attempt, reason, error, trace, server }) => ({
    at: new Date(at),
    state,
    attempt,
    reason,
    error: error ?? null,
    trace: trace ?? null,
    server: server ?? null,
  }));
}
