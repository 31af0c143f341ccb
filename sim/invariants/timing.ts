/** What promises about time have in common. */
import type { Outcome } from "../../engine/store.ts";
import type { SimConfig } from "../scenario/scenario.ts";

/** Microseconds in a millisecond: the world counts the former, configurations the latter. */
export const MS = 1_000;

/** How far apart the clocks of two machines may run: far more than real ones do. */
export const CLOCK_ERROR = 1e-3;

/** Milliseconds for `trips` ways between a process and the database, and for rounding. */
export const slack = ({ latency }: SimConfig, trips: number): number => trips * latency + 5;

/** What a leader does for a dead server, whichever end it makes of the job: see `rescueOutcome`. */
export const isRescue = ({ reason, error }: Outcome): boolean =>
  reason === "orphaned" || (reason === "cancelled" && (error?.endsWith("was declared dead") ?? false));
