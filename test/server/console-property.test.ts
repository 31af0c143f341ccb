/** Whatever handlers log and report, and whenever they do: what the store keeps is what they said, in order, up to its limit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { defineJob } from "../../engine/job.ts";
import { constant } from "../../engine/retry.ts";
import { consoleLine, percentOf, TRUNCATED } from "../../engine/rules/console.ts";
import { CONSOLE } from "../../engine/rules/limits.ts";
import type { ConsoleLine, JobId } from "../../engine/store.ts";
import { MINUTE, SECOND, World } from "./support.ts";

type Step =
  | { readonly type: "wait"; readonly ms: number }
  | { readonly type: "log"; readonly message: string; readonly times: number }
  | { readonly type: "progress"; readonly percent: number };

const message = fc.oneof(
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.constantFrom("", "\n", "\u0000", "\ud800", "a\u0000\ud83d\n", "__proto__", "'; --"),
  fc.tuple(fc.constantFrom("x", "é", "😀", "\ud83d", "\n"), fc.nat(6_000)).map(([unit, n]) => unit.repeat(n)),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ type: fc.constant("wait"), ms: fc.oneof(fc.constantFrom(0, 1, 249, 250, 251), fc.nat(1_000)) }),
  fc.record({
    type: fc.constant("log"),
    message,
    times: fc.oneof({ weight: 20, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.nat(1_200) }),
  }),
  fc.record({ type: fc.constant("progress"), percent: fc.oneof(fc.constantFrom(0, 0, 100, 5), fc.double()) }),
);
const attempt = fc.record({ steps: fc.array(step, { maxLength: 15 }), fails: fc.boolean() });
const scenario = fc.record({
  attempts: fc.array(attempt, { minLength: 1, maxLength: 3 }),
  /** How long the store takes for each write, milliseconds; together the last two stay within the deadline. */
  latency: fc.constantFrom(0, 0, 1, 100, 990),
});
type Attempt = typeof attempt extends fc.Arbitrary<infer T> ? T : never;

function expectedLines({ steps }: Attempt): string[] {
  const all = steps.flatMap((each) =>
    each.type === "log" ? Array.from({ length: each.times }, () => consoleLine(each.message)) : [],
  );
  return all.length <= CONSOLE.maxLines ? all : [...all.slice(0, CONSOLE.maxLines), TRUNCATED];
}

/** What the last valid report of all attempts was. */
function expectedProgress(attempts: readonly Attempt[]): number | null {
  const reports = attempts.flatMap(({ steps }) =>
    steps.map((each) => (each.type === "progress" ? each.percent : null)),
  );
  return reports.map(percentOf).findLast((percent) => percent !== null) ?? null;
}

async function allLines(world: World, id: JobId): Promise<ConsoleLine[]> {
  const lines: ConsoleLine[] = [];
  for (;;) {
    const page = await world.client.console(id, { after: lines.at(-1)?.seq ?? 0, limit: CONSOLE.page.max });
    if (page.length === 0) return lines;
    lines.push(...page);
  }
}

test("while the store works nothing is lost, doubled or out of order, and the job ends as it would have", async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ attempts, latency }) => {
      const world = await World.make();
      const kind = defineJob("task", { backoff: constant("1s"), maxAttempts: attempts.length });
      const handler = kind.handler(async (job) => {
        const { steps, fails } = attempts[job.attempt - 1] as Attempt;
        for (const each of steps) {
          if (each.type === "wait") await world.work(each.ms);
          else if (each.type === "progress") job.progress(each.percent);
          else for (let n = 0; n < each.times; n++) job.log(each.message);
        }
        if (fails) throw new Error("as it was told to");
      });
      const running = world.start([handler]);
      running.link.delay.set("writeConsole", latency);
      const id = await world.client.enqueue(kind, {});
      const last = attempts.findIndex(({ fails }) => !fails);
      const made = last === -1 ? attempts : attempts.slice(0, last + 1);
      const record = await world.reach(id, last === -1 ? "failed" : "succeeded", 5 * MINUTE);
      assert.equal(record.attempt, made.length);
      assert.equal(record.progress, expectedProgress(made));
      const lines = await allLines(world, id);
      const expected = made.flatMap((each, index) => expectedLines(each).map((text) => ({ attempt: index + 1, text })));
      assert.equal(lines.length, expected.length);
      lines.forEach((line, index) => {
        assert.equal(line.attempt, expected[index]?.attempt);
        assert.ok(line.text === expected[index]?.text, `line ${index}`);
      });
      assert.equal(running.server.stats().faults, 0);
      await running.stop(10 * SECOND);
      assert.equal(world.time.armed, 0);
    }),
    { numRuns: Number(process.env["RUNS"] ?? 60) },
  );
});
