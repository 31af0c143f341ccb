/** The process in which one mutant lives: `child.ts ID directed`, or `child.ts ID random SEED SECONDS`. Prints a `Trial`. */
import { MUTANTS } from "./list.ts";
import { atRandom, directed } from "./trial.ts";

const [id, how, seed, seconds] = process.argv.slice(2);
const mutant = MUTANTS.find((one) => one.id === id);
if (mutant === undefined) throw new Error(`no mutant ${id}`);
const { random } = mutant;
const search = how === "random" && typeof random === "string";
const trial = search ? await atRandom(mutant, random, Number(seed), Number(seconds)) : await directed(mutant);
console.log(JSON.stringify(trial));
