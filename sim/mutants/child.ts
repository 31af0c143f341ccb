/** The process in which one mutant lives: `child.ts ID [SEED FIRST SECONDS]`, random with a seed. Prints a `Trial`. */
import { MUTANTS } from "./list.ts";
import { atRandom, directed } from "./trial.ts";

const [id, ...search] = process.argv.slice(2);
const mutant = MUTANTS.find((one) => one.id === id);
if (mutant === undefined) throw new Error(`no mutant ${id}`);
const [seed = 0, first = 0, seconds = 0] = search.map(Number);
const { random } = mutant;
const trial =
  search.length > 0 && typeof random === "string"
    ? await atRandom(mutant, random, { seed, first, seconds })
    : await directed(mutant);
console.log(JSON.stringify(trial));
