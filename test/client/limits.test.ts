/** Limits as users give them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { defineJob } from "../../engine/job.ts";
import type { LimitOptions } from "../../engine/limit.ts";
import { hostileProxy, problemsOf, rulesOf, throwingGetter, world } from "./support.ts";

const limitOf = (limit: LimitOptions) => defineJob("charge", { limit }).options.limit;

test("what is left out: the kind as key, one at a time, a second, a burst of the rate", () => {
  assert.deepEqual(limitOf({}), { key: "charge", max: 1, rate: 0, per: 0, burst: 0 });
  assert.deepEqual(limitOf({ max: 0 }), { key: "charge", max: 1, rate: 0, per: 0, burst: 0 });
  assert.deepEqual(limitOf({ max: 5, key: "stripe" }), { key: "stripe", max: 5, rate: 0, per: 0, burst: 0 });
  assert.deepEqual(limitOf({ rate: 14 }), { key: "charge", max: 0, rate: 14, per: 1_000, burst: 14 });
  assert.deepEqual(limitOf({ rate: 100, per: "1m", burst: 10, max: 3 }), {
    ...{ key: "charge", max: 3, rate: 100, per: 60_000, burst: 10 },
  });
  assert.equal(defineJob("charge").options.limit, null);
});

test("a call's limit stands in place of the definition's", async () => {
  const { client, store } = await world();
  const charge = defineJob("charge", { limit: { key: "a", max: 2 } });
  const [first, second] = await client.enqueueMany([
    charge.spec({}),
    charge.spec({}, { limit: { rate: 5 }, priority: 1 }),
  ]);
  assert.deepEqual([first?.state, second?.state], ["throttled", "throttled"]);
  assert.equal((await client.get(first?.id ?? 0))?.limitKey, "a");
  assert.equal((await client.get(second?.id ?? 0))?.limitKey, "charge");
  assert.deepEqual(
    (await client.limits()).map(({ opensAt: _, ...limit }) => limit),
    [
      { key: "a", max: 2, rate: 0, per: 0, burst: 0, active: 0, throttled: 1 },
      { key: "charge", max: 0, rate: 5, per: 1_000, burst: 5, active: 0, throttled: 1 },
    ],
  );
  assert.deepEqual(
    (await client.limits({ after: "a" })).map(({ key }) => key),
    ["charge"],
  );
  assert.equal((await store.counts()).throttled, 2);
  assert.equal((await client.list({ state: "throttled" })).jobs.length, 2);
  assert.equal(await client.delete({ state: "throttled" }), 2);
});

test("what makes no sense is refused, with the field named", async () => {
  const rules: [object, string][] = [
    [{ max: -1 }, "limit.max"],
    [{ rate: -1 }, "limit.rate"],
    [{ rate: 1.5 }, "limit.rate"],
    [{ rate: Number.NaN }, "limit.rate"],
    [{ rate: 1_000_001 }, "limit.rate"],
    [{ rate: 1, per: 0 }, "limit.per"],
    [{ rate: 1, per: "-1s" }, "limit.per"],
    [{ rate: 1, per: "often" }, "limit.per"],
    [{ rate: 1, burst: 0 }, "limit.burst"],
    [{ rate: 1, burst: -1 }, "limit.burst"],
    [{ rate: 1, per: "100y", burst: 1_000 }, "limit.burst"],
    [{ per: "1s" }, "limit.per"],
    [{ burst: 3, max: 1 }, "limit.burst"],
    [{ key: "" }, "limit.key"],
    [{ key: "k".repeat(201) }, "limit.key"],
    [{ key: "\u0000" }, "limit.key"],
    [{ keys: "a" }, "limit.keys"],
    [hostileProxy(), "limit"],
    [throwingGetter("rate"), "limit.rate"],
  ];
  const { client, store } = await world();
  const plain = defineJob("charge");
  for (const [limit, field] of rules) {
    const named = async (call: () => unknown): Promise<string[]> =>
      (await problemsOf(call)).map((problem) => problem.field);
    assert.deepEqual(await named(() => defineJob("charge", { limit: limit as LimitOptions })), [field]);
    const specs = [plain.spec({}), plain.spec({}, { limit: limit as LimitOptions })];
    assert.deepEqual(await named(() => client.enqueueMany(specs)), [`jobs[1].${field}`]);
  }
  assert.deepEqual(await rulesOf(() => client.limits({ limit: 0 })), [
    "limit must be an integer from 1 to 9007199254740991",
  ]);
  assert.equal((await store.counts()).enqueued, 0);
});
