/** `diff`: whether stores do the same, event for event and change for change. */
import { parseArgs } from "node:util";
import { invalid } from "../../engine/problems.ts";
import { STORE_KINDS } from "../cluster/database.ts";
import { EXIT } from "../search/exit.ts";
import { type Difference, firstDifference, trace } from "../tell/trace.ts";
import { caseFrom, type Io, oneOf, only, profileOf, type Verb } from "./verb.ts";

const OPTIONS = {
  stores: { type: "string", default: STORE_KINDS.join(",") },
  profile: { type: "string", default: "swarm" },
} as const;

export const diff: Verb = async (args, io) => {
  const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  const { scenario } = await caseFrom(only(positionals, "FILE or SEED"), profileOf(values.profile));
  const stores = values.stores.split(",").map((name) => oneOf("--stores", name, STORE_KINDS));
  const [first, ...others] = stores;
  if (first === undefined || others.length === 0) {
    throw invalid("can't compare", "--stores", values.stores, "must name at least two stores");
  }
  const { lines } = await trace(scenario, { store: first });
  for (const store of others) {
    const other = await trace(scenario, { store });
    const difference = firstDifference(lines, other.lines);
    if (difference === null) continue;
    sayDifference(io, difference, [first, store]);
    return EXIT.safety;
  }
  io.say(`ok  ${stores.join(" and ")} do the same: ${lines.length} lines`);
  return EXIT.ok;
};

/** `names`: whose line it is. */
export function sayDifference(io: Io, difference: Difference, [left, right]: readonly [string, string]): void {
  io.say(`FAIL line ${difference.index + 1} is the first that differs: ${difference.left} | ${difference.right}`);
  for (const line of difference.before) io.say(`   both  ${line}`);
  io.say(`   ${left}  ${difference.left}`);
  io.say(`   ${right}  ${difference.right}`);
}
