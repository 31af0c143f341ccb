/** What the command line ends with. */
import type { Failure } from "../run/run.ts";

export const EXIT = {
  ok: 0,
  safety: 10,
  liveness: 11,
  nondeterminism: 12,
  /** Something was thrown that never should be, or a run did not come to its end. */
  error: 13,
  marks: 14,
  mutant: 15,
  /** Wrong arguments or files, or the simulator itself. */
  harness: 20,
} as const;

/** The first of these that was found counts. */
const WORST_FIRST: readonly number[] = [EXIT.nondeterminism, EXIT.safety, EXIT.error, EXIT.liveness];

export function exitCodeOf({ invariant }: Pick<Failure, "invariant">): number {
  if (invariant === "determinism" || invariant === "tripwire") return EXIT.nondeterminism;
  if (invariant === "error") return EXIT.error;
  return /^L\d/.test(invariant) ? EXIT.liveness : EXIT.safety;
}

export function worst(codes: readonly number[]): number {
  return WORST_FIRST.find((code) => codes.includes(code)) ?? codes.find((code) => code !== EXIT.ok) ?? EXIT.ok;
}
