/** What becomes of a job whose server was declared dead. */

import { type Backoff, retryDelay } from "../retry.ts";
import type { Orphan, Outcome } from "../store.ts";
import type { Reason } from "./reasons.ts";

export interface RescuePolicy {
  /** The wait of the job's kind, if it is known here, else the server's. */
  readonly backoffOf: (kind: string) => Backoff;
  readonly random: () => number;
}

/**
 * The attempt counts. The first rescue goes straight back to the queue; a job rescued twice in a row waits for its backoff,
 * so that one which takes down the process running it does not go from worker to worker without a pause.
 */
export function rescueOutcome(orphan: Orphan, policy: RescuePolicy): Outcome {
  const again = orphan.lastReason === ("orphaned" satisfies Reason);
  const error = `server ${orphan.server} was declared dead`;
  const outcome = { id: orphan.id, claim: orphan.claim, refund: false, error, trace: null, output: null, delay: 0 };
  if (orphan.cancelRequested) return { ...outcome, state: "deleted", reason: "cancelled" };
  if (orphan.attempt >= orphan.maxAttempts) return { ...outcome, state: "failed", reason: "orphaned" };
  if (!again) return { ...outcome, state: "enqueued", reason: "orphaned" };
  const delay = retryDelay(policy.backoffOf(orphan.kind), orphan.attempt, new Error(error), policy.random);
  return { ...outcome, state: "scheduled", reason: "orphaned", delay };
}
