/** Draws the faults of one run of a user's simulation. `generate.ts` does it for the engine's own tests, more cruelly. */

import { EMPTY_SCENARIO, type Fault, PLAIN_SERVER, type Scenario, type SimConfig } from "../scenario/scenario.ts";
import { Stream } from "../world/random.ts";

/** What may go wrong in a user's simulation. */
export const FAULT_NAMES = [
  "crash",
  "shutdown",
  "pause",
  "partition",
  "lostReply",
  "databaseDown",
  "databaseStall",
] as const;
export type FaultName = (typeof FAULT_NAMES)[number];

export interface Draw {
  readonly seed: number;
  readonly servers: number;
  readonly duration: number;
  readonly config: SimConfig;
  readonly faults: readonly FaultName[];
}

const MOST_FAULTS = 5;
/** Calls of a server for its jobs. */
const CALLS = ["finish", "claim", "setParams", "heartbeat"] as const;
/** The first half of a run gets most of the faults: there most of the work is done. */
const EARLY = 0.7;

export function drawScenario({ seed, servers, duration, config, faults }: Draw): Scenario {
  const chance = new Stream(seed, "draw");
  const count = faults.length === 0 ? 0 : 1 + Math.floor(chance.unit() * MOST_FAULTS);
  const drawn = Array.from({ length: count }, () => {
    const name = faults[Math.floor(chance.unit() * faults.length)] as FaultName;
    return drawFault(name, chance, servers, duration, config);
  });
  return {
    ...EMPTY_SCENARIO,
    ...{ seed, duration, config, servers: Array.from({ length: servers }, () => PLAIN_SERVER), faults: drawn },
  };
}

function drawFault(name: FaultName, chance: Stream, servers: number, duration: number, config: SimConfig): Fault {
  const early = chance.unit() < EARLY;
  const at = Math.floor(chance.between(0, early ? duration / 4 : duration));
  const target = Math.floor(chance.unit() * servers);
  const { heartbeatInterval, deadAfter } = config;
  const edges = [1_000, heartbeatInterval, deadAfter / 2, deadAfter, deadAfter + 2 * heartbeatInterval] as const;
  const length = edges[Math.floor(chance.unit() * edges.length)] as number;
  switch (name) {
    case "crash":
      return { type: "crash", target, at, restartAfter: chance.unit() < 0.7 ? length : null };
    case "shutdown":
      return { type: "shutdown", target, at, restartAfter: length };
    case "pause":
      return { type: "pause", target, at, for: length };
    case "partition":
      return { type: "partition", target, at, for: length, ways: "both" };
    case "lostReply": {
      const op = CALLS[Math.floor(chance.unit() * CALLS.length)] as string;
      return { type: "loseReply", target, op, nth: 0, at };
    }
    case "databaseDown":
      return { type: "databaseDown", at, for: length };
    case "databaseStall":
      return { type: "databaseStall", at, for: Math.min(length, 20_000) };
  }
}
