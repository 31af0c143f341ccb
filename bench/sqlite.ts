/** The suite `sqlite`: what kiln promises of its SQLite store. */
import { join } from "node:path";
import { withDirectory } from "./measure.ts";
import type { Report, Row } from "./report.ts";
import { claim } from "./sqlite/claim.ts";
import { delay } from "./sqlite/delay.ts";
import { drain } from "./sqlite/drain.ts";
import { DURABILITY, makeFile } from "./sqlite/files.ts";
import { idle } from "./sqlite/idle.ts";
import { insert } from "./sqlite/insert.ts";
import { memory } from "./sqlite/memory.ts";
import { wakeUp } from "./sqlite/wake-up.ts";

export async function run(): Promise<Report> {
  const rows = [
    ...(await drain()),
    ...(await insert()),
    ...(await amongAMillion()),
    ...(await wakeUp()),
    ...(await delay()),
    ...(await idle()),
  ];
  return { suite: "sqlite", rows, facts: { durability: DURABILITY, durabilityOfClaims: "normal" } };
}

const OTHERS = { kinds: Array.from({ length: 20 }, (_, index) => `other_${index}`), count: 1_000_000 } as const;

/** What is measured beside a million ready jobs, of which half stand before all that is added later. */
function amongAMillion(): Promise<Row[]> {
  return withDirectory(async (directory) => {
    const empty = join(directory, "empty.db");
    const full = join(directory, "full.db");
    await makeFile(empty);
    await makeFile(full, [{ ...OTHERS, priorities: [10, 0] }]);
    return [...(await memory(empty, full, OTHERS.kinds[0] ?? "")), ...(await claim(empty, full))];
  });
}
