import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { describe, test } from "node:test";
import { hunt } from "../../sim/mutants/hunt.ts";
import { MUTANTS } from "../../sim/mutants/list.ts";
import { type Mutant, mutate } from "../../sim/mutants/mutant.ts";

const ROOT = new URL("../../", import.meta.url);
const read = (file: string): string => readFileSync(new URL(file, ROOT), "utf8");

/** Fast ones, of which each is caught by another kind of invariant; all others are for `npm run sim -- mutants`. */
const CANARIES = ["finish-any-claim", "no-fence", "late-starts", "eight-ticks"];

describe("the list of mutants", () => {
  test("fits the source", () => {
    for (const mutant of MUTANTS) {
      const source = read(mutant.file);
      const mutated = mutate(mutant, source);
      assert.notEqual(mutated, source);
      assert.doesNotThrow(() => stripTypeScriptTypes(mutated), mutant.id);
    }
  });

  test("names each once, in the documentation too", () => {
    assert.equal(new Set(MUTANTS.map(({ id }) => id)).size, MUTANTS.length);
    const documented = read("docs/simulator-mutants.md").match(/^\| \d+ \|.*$/gm);
    assert.deepEqual(documented, MUTANTS.map(rowOf));
  });

  test("has every number of the plan", () => {
    const numbers = new Set(MUTANTS.map(({ number }) => number));
    for (let number = 1; number <= 24; number++) assert.ok(numbers.has(number), `no mutant ${number}`);
  });
});

function rowOf({ number, id, what, invariants, random }: Mutant): string {
  const search = typeof random === "string" ? `\`${random}\`` : `no: ${random.not}`;
  return `| ${number} | \`${id}\` | ${what} | ${invariants.join(", ")} | ${search} |`;
}

describe("a mutant's place", () => {
  const mutant = { id: "m", file: "f.ts", find: "a", replace: "b" };

  test("is replaced", () => {
    assert.equal(mutate(mutant, "x a y"), "x b y");
  });

  for (const [times, source] of [
    [0, "x y"],
    [2, "a a"],
  ] as const) {
    test(`that stands ${times} times in the source is refused`, () => {
      assert.throws(() => mutate(mutant, source), new RegExp(`mutant m: .* stands ${times} times in f.ts, not once`));
    });
  }
});

test("canaries are caught", async () => {
  const canaries = MUTANTS.filter(({ id }) => CANARIES.includes(id));
  assert.equal(canaries.length, CANARIES.length);
  const verdicts = await hunt(canaries, { random: null, jobs: 2, onVerdict: () => {} });
  assert.deepEqual(
    verdicts.filter(({ caught }) => !caught).map(({ mutant, text }) => `${mutant.id}: ${text}`),
    [],
  );
});

describe("the loader of mutants", () => {
  async function load(mutant: string): Promise<{ code: number; said: string }> {
    const preload = new URL(`sim/mutants/preload.ts?mutant=${mutant}`, ROOT);
    // Loads nothing of the engine.
    const child = fork(new URL("engine/version.ts", ROOT), [], { execArgv: ["--import", preload.href], silent: true });
    let said = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
    const [code] = (await once(child, "close")) as [number];
    return { code, said };
  }

  test("refuses one that is not in the list", async () => {
    assert.deepEqual(await load("none"), { code: 20, said: "no mutant none\n" });
  });

  test("refuses to let one pass whose file is never loaded", async () => {
    const { code, said } = await load("no-fence");
    assert.equal(code, 20);
    assert.match(said, /engine\/server\/heartbeat\.ts was never loaded/);
  });
});
