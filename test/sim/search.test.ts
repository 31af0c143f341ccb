/** What every `npm test` spends on looking for new faults, with another seed for each commit. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { STORE_KINDS } from "../../sim/cluster/database.ts";
import { scenarioFrom } from "../../sim/generate/generate.ts";
import { allCheckers } from "../../sim/invariants/index.ts";
import { run } from "../../sim/run/run.ts";
import { parseSeed, seedOf } from "../../sim/scenario/seed.ts";
import { caseOf, distinct, shrunkText, statisticsLine } from "../../sim/search/report.ts";
import { after, type Found, search } from "../../sim/search/search.ts";
import { headline, timeline } from "../../sim/tell/timeline.ts";
import { commitHash } from "../../sim/verbs/verb.ts";

const TIME = { memory: 8_000, sqlite: 8_000 } as const;

const commit = await commitHash();
// Outside of a repository there is no commit to begin from.
const seed = parseSeed(commit ?? "1", new Date(0));

for (const store of STORE_KINDS) {
  it(`finds nothing on ${store} from seed ${seed}`, async (context) => {
    const { statistics, found } = await search({
      ...{ store, profile: "swarm", seed, shrinkFor: 20_000 },
      expired: after(TIME[store]),
    });
    context.diagnostic(statisticsLine(statistics));
    assert.ok(statistics.scenarios > 0);
    if (found.length > 0) assert.fail((await Promise.all(found.map(told))).join("\n\n"));
  });
}

/** With all that is needed to go on from here. */
async function told(found: Found): Promise<string> {
  const { scenario, failure, store } = found;
  const { history } = await run(scenario, { store, checkers: allCheckers });
  const replay = "put this into a file";
  const head = headline(failure, scenario, { store, commit, shrunk: shrunkText(found), replay });
  return `${head}\n${timeline(failure, scenario, history)}\n${JSON.stringify(caseOf(found, commit))}`;
}

it("shares the scenarios of a seed among several searches", async () => {
  const runs = async (first: number, step: number, count: number): Promise<number[]> => {
    const seeds: number[] = [];
    await search({
      ...{ store: "memory", profile: "lite", seed: 5, first, step, shrinkFor: 0 },
      expired: () => seeds.length === count,
      onRun: (scenario) => seeds.push(scenario.seed),
    });
    return seeds;
  };
  const all = await runs(0, 1, 4);
  assert.deepEqual(
    [await runs(0, 2, 2), await runs(1, 2, 2)],
    [
      [all[0], all[2]],
      [all[1], all[3]],
    ],
  );
  assert.equal(all[1], scenarioFrom(seedOf(5, 1), "lite").seed);
});

it("reads seeds", () => {
  const today = new Date("2026-11-29T23:59:00Z");
  assert.equal(parseSeed("today", today), 20261129);
  assert.equal(parseSeed("190733", today), 190733);
  assert.equal(parseSeed("1c2d1f50aa", today), 0x1c2d1f50aa);
  assert.equal(parseSeed("1c2d1f50aabbccddeeff00112233445566778899", today), 0x1c2d1f50aabb);
  for (const bad of ["", "-1", "1.5", "tomorrow", "abc"]) assert.throws(() => parseSeed(bad, today), /--seed/);
});

it("keeps the smallest of each kind of failure", () => {
  const large = scenarioFrom(1, "swarm");
  const small = { ...large, faults: [], jobs: [] };
  const failure = { invariant: "S1", message: "x", signature: "S1 x", job: null, at: 0 };
  const of = (scenario: typeof large, more = failure): Found => {
    return { store: "memory", drawn: large, scenario, failure: more, runs: 3 };
  };
  const other = of(large, { ...failure, signature: "S2 y" });
  assert.deepEqual(distinct([of(large), of(small), other, of(large)]), [of(small), other]);
});
