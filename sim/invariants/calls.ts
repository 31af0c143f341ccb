/** What the calls in a history are about, with their types. */
import type { Beat, ClaimQuery, ClaimReply, FinishResult, Outcome } from "../../engine/store.ts";
import type { Commit, HistoryEvent } from "../run/history.ts";

export type Of<Type extends HistoryEvent["type"]> = Extract<HistoryEvent, { readonly type: Type }>;
export type Send = Of<"send">;
export type Reply = Of<"reply">;

/** For example `n0` of `n0.2`. */
export const processOf = (incarnation: string): string => incarnation.slice(0, incarnation.indexOf("."));

export const claimQuery = ({ args }: { readonly args: readonly unknown[] }): ClaimQuery => args[0] as ClaimQuery;
export const beatOf = ({ args }: { readonly args: readonly unknown[] }): Beat => args[0] as Beat;
/** Null when it was refused. */
export const claimReply = ({ error, result }: Commit): ClaimReply | null =>
  error === undefined ? (result as ClaimReply) : null;

/** Each outcome of a call of `finish` with what became of it; none when the call was refused. */
export function finished(commit: Commit): readonly { readonly outcome: Outcome; readonly result: FinishResult }[] {
  if (commit.call.op !== "finish" || commit.error !== undefined) return [];
  const results = commit.result as readonly FinishResult[];
  return (commit.args[1] as readonly Outcome[]).flatMap((outcome, index) => {
    const result = results[index];
    return result === undefined ? [] : [{ outcome, result }];
  });
}
