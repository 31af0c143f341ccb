/** Whether a server does its work, for readiness and liveness probes. */
import type { ServerStats } from "./stats.ts";

export interface Health {
  readonly healthy: boolean;
  /** Why not, in words for an operator. Empty when healthy. */
  readonly problems: readonly string[];
}

/** Outcomes that wait longer than this are piling up, milliseconds. */
const PILING_UP = 30_000;

/** `oldest` is how long the oldest undecided outcome has waited; half of `deadAfter` is how old a heartbeat may be. */
export function healthOf(running: boolean, stats: ServerStats, oldest: number, deadAfter: number): Health {
  const problems: string[] = [];
  const age = stats.heartbeatAge;
  if (!running) problems.push("the server is not running");
  else if (age === null) problems.push("the server has not been able to register");
  else if (age > deadAfter / 2) problems.push(`no heartbeat got through for ${Math.round(age)} ms`);
  if (stats.fenced) problems.push("the server has fenced itself: it can't prove that it holds its jobs");
  if (oldest > PILING_UP) {
    problems.push(`${stats.pending} results wait to be stored, the oldest for ${Math.round(oldest)} ms`);
  }
  return { healthy: problems.length === 0, problems };
}
