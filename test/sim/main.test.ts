/** The command line: every verb and every exit code. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";
import { Server } from "kiln";
import { MemoryStore } from "kiln/memory";
import { History, Violation } from "../../sim/run/history.ts";
import { parseCase } from "../../sim/scenario/case.ts";
import { PLAIN_SERVER, type Scenario } from "../../sim/scenario/scenario.ts";
import { exitCodeOf, worst } from "../../sim/search/exit.ts";
import { type Found, search } from "../../sim/search/search.ts";
import { Incarnation } from "../../sim/world/process.ts";
import { NEVER_STARTS, planted, scenarioWith, sim, simProcess } from "./support.ts";

const folder = await mkdtemp(join(tmpdir(), "kiln-sim-"));
after(() => rm(folder, { recursive: true, force: true }));

async function file(name: string, content: unknown): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

/** Seconds long, so that what is tried with it takes no time. */
const SHORT: Scenario = scenarioWith([{ at: 1_000 }], { duration: 10_000, servers: [PLAIN_SERVER], seed: 3 });
const short = await file("short.json", SHORT);
const failing = await file("failing.json", { what: "", stores: ["memory"], scenario: NEVER_STARTS });

it("says how it is used", async () => {
  const help = await sim("--help");
  assert.equal(help.code, 0);
  for (const verb of ["run", "replay", "shrink", "diff", "check-determinism", "regress", "mutants", "marks"]) {
    assert.match(help.stdout, new RegExp(`^${verb} `, "m"));
  }
});

const WRONG: readonly (readonly [args: readonly string[], said: RegExp])[] = [
  [[], /no verb; there is run, replay/],
  [["explode"], /unknown verb explode/],
  [["run", "--speed", "9"], /--speed/],
  [["run", "--store", "oracle"], /--store must be one of memory, sqlite, got "oracle"/],
  [["run", "--profile", "chaos"], /--profile must be one of swarm/],
  [["run", "--seed", "x"], /--seed must be a whole number/],
  [["run", "--time", "soon"], /--time must be a duration/],
  [["run", "--jobs", "0"], /--jobs must be an integer from 1/],
  [["replay"], /FILE or SEED must be given/],
  [["replay", join(folder, "none.json")], /file must be readable/],
  [["diff", short, "--stores", "memory"], /--stores must name at least two/],
  [["regress", join(folder, "none")], /DIR must be a folder/],
];

it("ends with 20 for wrong arguments, and says which", async () => {
  await Promise.all(
    WRONG.map(async ([args, said]) => {
      const { code, stderr } = await sim(...args);
      assert.match(stderr, said);
      assert.equal(code, 20, stderr);
      assert.doesNotMatch(stderr, /\n +at /);
    }),
  );
});

it("ends with 20 for files that are no scenarios, and names the field", async () => {
  const text = JSON.stringify(SHORT);
  const cut = await sim("replay", await file("cut.json", text.slice(0, -20)));
  assert.deepEqual([cut.code, /cut off/.test(cut.stderr)], [20, true], cut.stderr);
  const unknown = { ...SHORT, faults: [{ type: "flood", at: 0 }] };
  const wrong = await sim("replay", await file("wrong.json", unknown));
  assert.deepEqual([wrong.code, /faults\[0\]\.type must be one of/.test(wrong.stderr)], [20, true], wrong.stderr);
});

it("replays a file on every store that it names, up to where it is told, with all that happens", async () => {
  const all = await sim("replay", short);
  assert.equal(all.code, 0, all.stderr);
  const digests = [...all.stdout.matchAll(/^ok {2}store=(\w+) .* digest (\d+)$/gm)];
  assert.deepEqual(
    digests.map(([, store]) => store),
    ["memory", "sqlite"],
  );
  assert.equal(digests[0]?.[2], digests[1]?.[2]);
  const some = await sim("replay", short, "--store", "memory", "--until", "1500ms", "--trace");
  assert.equal(some.code, 0, some.stderr);
  assert.match(some.stdout, /commit n0\.1\/claim#\d+ job 1 changed state=processing/);
  assert.match(some.stdout, /▶ job 1 claim 1 attempt 1/);
  assert.doesNotMatch(some.stdout, /■ job 1/);
});

it("ends with 11 for what never ends, and shows the job's life", async () => {
  const { code, stdout } = await sim("replay", failing);
  assert.equal(code, 11, stdout);
  const [head = "", lanes = ""] = stdout.split("\n");
  assert.match(head, /^FAIL L4 jobs that do not end, throttled: 1 {2}job=1 {2}seed=5 .*store=memory .*replay: npm run/);
  assert.match(lanes, /^ +t {2}database +n\d/);
  assert.match(stdout, /job 1 throttled → processing claim 1 attempt 1/);
});

it("shrinks a file into one that fails in the same way", async () => {
  const out = join(folder, "small.json");
  const { code, stdout } = await sim("shrink", failing, "--runs", "25", "--out", out);
  assert.equal(code, 11, stdout);
  assert.match(stdout, /shrunk 0 faults → 0, 1 jobs → 1, 3 servers → 1 \(\d+ runs\)/);
  const { scenario, signature } = parseCase(await readFile(out, "utf8"));
  assert.equal(scenario.servers.length, 1);
  assert.equal(signature, "L4 jobs that do not end, throttled: #");
  const fine = await sim("shrink", short);
  assert.deepEqual([fine.code, /does not fail/.test(fine.stdout)], [0, true]);
});

it("compares stores", async () => {
  const { code, stdout } = await sim("diff", short);
  assert.equal(code, 0, stdout);
  assert.match(stdout, /^ok {2}memory and sqlite do the same: \d+ lines/);
});

it("names the first event that differs between stores", async ({ mock }) => {
  const { insert } = MemoryStore.prototype;
  mock.method(MemoryStore.prototype, "insert", function (this: MemoryStore, jobs: Parameters<typeof insert>[0]) {
    return insert.call(
      this,
      jobs.map((job) => ({ ...job, queue: "b" })),
    );
  });
  const { code, stdout } = await sim("diff", short);
  assert.equal(code, 10, stdout);
  assert.match(stdout, /^FAIL line \d+ is the first that differs: .*commit client\.1\/insert#1 .*queue=b/m);
});

it("searches, and counts what it did", async () => {
  const { code, stdout } = await sim("run", "--profile", "lite", "--seed", "1", "--time", "500ms", "--out", folder);
  assert.equal(code, 0, stdout);
  const [, scenarios, hours] = /^(\d+) scenarios, 0 failed, \d+ faults, ([\d.]+) simulated hours, /m.exec(stdout) ?? [];
  assert.ok(Number(scenarios) >= 1 && Number(hours) > 0.1, stdout);
  assert.match(stdout, /^reached: .*became leader/m);
});

it("ends with 10 for a promise that two processes see broken, and keeps it once as a small file", async () => {
  const out = join(folder, "canary");
  const args = ["run", "--profile", "lite", "--seed", "1", "--time", "100ms", "--jobs", "2", "--out", out];
  const { code, stdout } = await planted("canary", () => sim(...args));
  assert.equal(code, 10, stdout);
  assert.equal(stdout.match(/^FAIL/gm)?.length, 1);
  assert.match(stdout, /^FAIL S0 a canary has died .* commit=\w+ {2}store=memory {2}shrunk \d+ faults → 0, /m);
  const [name = "", ...others] = await readdir(out);
  assert.deepEqual(others, []);
  const { scenario, signature, stores } = parseCase(await readFile(join(out, name), "utf8"));
  assert.deepEqual([scenario.jobs, scenario.faults, signature, stores], [[], [], "S0 a canary has died", ["memory"]]);
  assert.equal((await sim("replay", join(out, name))).code, 0);
});

it("ends with 13 for what is thrown", async ({ mock }) => {
  mock.method(Server.prototype, "run", async () => {
    throw new TypeError("planted");
  });
  const { code, stdout } = await sim("replay", short, "--store", "memory");
  assert.equal(code, 13, stdout);
  assert.match(stdout, /^FAIL error TypeError: planted/);
});

it("ends with 13 for a run that gets stuck, and says in which scenario", async () => {
  const out = join(folder, "stuck");
  const args = ["run", "--profile", "lite", "--seed", "1", "--time", "60s", "--patience", "3s", "--out", out];
  const { code, stdout } = await planted("loop", () => sim(...args));
  assert.equal(code, 13, stdout);
  assert.match(stdout, /^FAIL error a run did not end within 3 s of real time/m);
  const [name = ""] = await readdir(out);
  assert.equal(parseCase(await readFile(join(out, name), "utf8")).scenario.servers.length, 3);
});

it("ends with 12 where real time is read, and names the line", async ({ mock }) => {
  const { timer } = Incarnation.prototype;
  mock.method(Incarnation.prototype, "timer", function (this: Incarnation, ...args: Parameters<typeof timer>) {
    Date.now();
    return timer.apply(this, args);
  });
  const { code, stdout } = await sim("replay", short, "--store", "memory");
  assert.equal(code, 12, stdout);
  assert.match(stdout, /^FAIL tripwire Date\.now at test\/sim\/main\.test\.ts:\d+ /);
});

it("finds what makes two processes differ, and names it", async () => {
  const same = await sim("check-determinism", short);
  assert.equal(same.code, 0, same.stdout);
  const { code, stdout } = await planted("leak", () => sim("check-determinism", short));
  assert.equal(code, 12, stdout);
  assert.match(stdout, /^FAIL line \d+ is the first that differs: [\d.]+ +\w+\.1\/timer#\d+ \| [\d.]+ +\w+\.1/m);
  assert.match(stdout, /^ +first {2}/m);
});

it("takes a failure that is not seen again for the worst of all", async ({ mock }) => {
  let first = true;
  mock.method(History.prototype, "end", () => {
    if (!first) return;
    first = false;
    throw new Violation("S0", "a mayfly has died");
  });
  const { found } = await search({
    ...{ store: "memory", profile: "lite", seed: 1, shrinkFor: 1_000 },
    expired: () => !first,
  });
  assert.equal(found.length, 1);
  assert.match(found[0]?.failure.message ?? "", /^S0 a mayfly has died was seen once; the second time it was kept/);
  assert.equal(exitCodeOf((found[0] as Found).failure), 12);
});

it("names the worst of what was found by its exit code", () => {
  assert.equal(worst([0, 0]), 0);
  assert.equal(worst([11, 13, 10, 12]), 12);
  assert.equal(worst([11, 13, 10]), 10);
  assert.equal(worst([0, 11]), 11);
  for (const [invariant, code] of [
    ["S3", 10],
    ["L4", 11],
    ["engine", 10],
    ["error", 13],
    ["tripwire", 12],
  ] as const) {
    assert.equal(exitCodeOf({ invariant }), code);
  }
});

it("is a program", async () => {
  const { code, stdout, stderr } = await simProcess("replay", failing);
  assert.deepEqual([code, stderr], [11, ""]);
  assert.match(stdout, /^FAIL L4 /);
});

it("runs all files of a folder again", async () => {
  const mixed = await mkdtemp(join(folder, "cases-"));
  await writeFile(join(mixed, "a.json"), JSON.stringify(SHORT));
  const fine = await sim("regress", mixed);
  assert.deepEqual([fine.code, fine.stdout], [0, "2 runs, 0 failed"]);
  await writeFile(join(mixed, "b.json"), await readFile(failing, "utf8"));
  const { code, stdout } = await sim("regress", mixed);
  assert.equal(code, 11, stdout);
  assert.match(stdout, /^FAIL L4 .*b\.json/m);
  assert.match(stdout, /^3 runs, 1 failed$/m);
});
