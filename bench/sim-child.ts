/** `sim-child.ts`: for each message, simulates these scenarios and answers when it has. Ends when it is told to stop. */
import { scenarioFrom } from "../sim/generate/generate.ts";
import { allCheckers } from "../sim/invariants/index.ts";
import { run } from "../sim/run/run.ts";

export interface Share {
  readonly seeds: readonly number[];
  /** Milliseconds until a scenario is healed. */
  readonly duration: number;
  readonly checked: boolean;
}

process.on("message", async ({ seeds, duration, checked }: Share) => {
  for (const seed of seeds) {
    await run(
      { ...scenarioFrom(seed, "swarm"), duration },
      { store: "memory", ...(checked && { checkers: allCheckers }) },
    );
  }
  process.send?.("done");
});
