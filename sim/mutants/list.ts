import { BATCHES } from "./batches.ts";
import { CLAIMS } from "./claims.ts";
import { LEADER } from "./leader.ts";
import type { Mutant } from "./mutant.ts";
import { RUNNING } from "./running.ts";
import { SERVERS } from "./servers.ts";
import { SIMULATOR } from "./simulator.ts";
import { WAITING } from "./waiting.ts";

/** By number. */
export const MUTANTS: readonly Mutant[] = [
  ...CLAIMS,
  ...SERVERS,
  ...LEADER,
  ...WAITING,
  ...BATCHES,
  ...RUNNING,
  ...SIMULATOR,
].sort((a, b) => a.number - b.number);
