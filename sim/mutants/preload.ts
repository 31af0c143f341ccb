/**
 * Puts a mutant into the source as Node loads it, so that production code needs no switches:
 *
 *     node --conditions=kiln-source --import file:///…/sim/mutants/preload.ts?mutant=finish-any-claim …
 *
 * Ends the process with 20 when there is no such mutant, when its place is not in the source exactly once, or when the
 * program has never loaded the file.
 */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { MUTANTS } from "./list.ts";
import { mutate } from "./mutant.ts";

const HARNESS = 20;

function quit(why: string): never {
  console.error(why);
  process.exit(HARNESS);
}

const id = new URL(import.meta.url).searchParams.get("mutant");
const mutant = MUTANTS.find((one) => one.id === id) ?? quit(`no mutant ${id}`);
const url = new URL(`../../${mutant.file}`, import.meta.url);
let mutated: string;
try {
  mutated = mutate(mutant, readFileSync(url, "utf8"));
} catch (error) {
  quit((error as Error).message);
}

let loaded = false;
registerHooks({
  load(specifier, context, next) {
    const result = next(specifier, context);
    if (specifier !== url.href) return result;
    loaded = true;
    return { ...result, source: mutated };
  },
});
process.on("exit", (code) => {
  if (loaded || code !== 0) return;
  console.error(`mutant ${mutant.id}: ${mutant.file} was never loaded`);
  process.exitCode = HARNESS;
});
