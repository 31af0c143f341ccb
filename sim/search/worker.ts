/**
 * A process that searches or traces for another one, which can end it when it does not get on: an endless loop can't be
 * seen from inside. Started by `pool.ts` with what it is to do as its argument.
 */

import type { StoreKind } from "../cluster/database.ts";
import { allCheckers } from "../invariants/index.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { BLOCK, hashesOf, trace } from "../tell/trace.ts";
import { after, type Found, type SearchOptions, type SearchResult, type Statistics, search } from "./search.ts";

export type Task =
  | ({ readonly type: "search" /** Milliseconds. */; readonly time: number } & Pick<
      SearchOptions,
      "store" | "profile" | "seed" | "first" | "step" | "shrinkFor"
    >)
  | { readonly type: "trace"; readonly scenario: Scenario; readonly store: StoreKind };

export type Report =
  /** Before each run. */
  | { readonly type: "at"; readonly scenario: Scenario; readonly statistics: Statistics }
  | { readonly type: "found"; readonly found: Found }
  | { readonly type: "searched"; readonly result: SearchResult }
  | { readonly type: "traced"; readonly hashes: readonly number[]; readonly lines: number }
  | { readonly type: "block"; readonly lines: readonly string[] };

/** What a process that has traced is asked for: the lines of one block. */
export interface BlockRequest {
  readonly block: number;
}

const report = (message: Report): void => {
  process.send?.(message);
};

async function work(task: Task): Promise<void> {
  if (task.type === "search") {
    const result = await search({
      ...task,
      expired: after(task.time),
      onRun: (scenario, statistics) => report({ type: "at", scenario, statistics }),
      onFound: (found) => report({ type: "found", found }),
    });
    report({ type: "searched", result });
    return process.disconnect();
  }
  const { lines } = await trace(task.scenario, { store: task.store, checkers: allCheckers });
  report({ type: "traced", hashes: hashesOf(lines), lines: lines.length });
  process.on("message", ({ block }: BlockRequest) =>
    report({ type: "block", lines: lines.slice(block * BLOCK, (block + 1) * BLOCK) }),
  );
}

// Whoever wants to know has ended.
process.on("disconnect", () => process.exit());
await work(JSON.parse(process.argv[2] ?? "") as Task);
