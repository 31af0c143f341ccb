/** What a store makes of the jobs that it is given: the bounds that it holds them to, and that it keeps copies. */
import assert from "node:assert/strict";
import { META, TAGS } from "../../engine/rules/limits.ts";
import type { NewJob } from "../../engine/store.ts";
import { openBatch } from "./batches-support.ts";
import { fickle, storedExactlyOrRefused } from "./hostile.ts";
import { type Group, HOUR, insertOne, newJob, record, refused, register, snapshot, stateOf } from "./support.ts";

export const insertInputCases: Group = {
  /** The most that a job may have of tags and meta, of which kiln's own has as much room again. */
  async Bounds({ store }) {
    await register(store);
    const tags = Array.from({ length: TAGS.max }, (_, n) => `${n}`.padStart(TAGS.maxBytes, "x"));
    const keys = (count: number, start: string): [string, string][] =>
      Array.from({ length: count }, (_, n) => [`${start}${n}`, ""]);
    const [keyBytes, ownBytes] = [Buffer.byteLength("key"), Buffer.byteLength("kiln.key")];
    const good: Partial<NewJob>[] = [
      { tags },
      { tags: ["é".repeat(TAGS.maxBytes / 2)] },
      { meta: Object.fromEntries([...keys(META.maxKeys, "k"), ...keys(META.maxKeys, "kiln.")]) },
      { meta: { key: "m".repeat(META.maxBytes - keyBytes), "kiln.key": "m".repeat(META.maxBytes - ownBytes) } },
    ];
    await storedExactlyOrRefused(store, good);
    const before = await snapshot(store);
    assert.equal((await store.counts()).deleted, good.length, "none is refused");
    for (const tags of [
      [""],
      ["x".repeat(TAGS.maxBytes + 1)],
      ["é".repeat(TAGS.maxBytes / 2 + 1)],
      keys(33, "").flat(),
    ])
      await refused(store.insert([newJob(), newJob({ tags })]), "jobs[1].tags");
    for (const meta of [
      { "": "a" },
      Object.fromEntries(keys(META.maxKeys + 1, "k")),
      Object.fromEntries(keys(META.maxKeys + 1, "kiln.")),
      { key: "m".repeat(META.maxBytes - keyBytes + 1) },
      { "kiln.key": "é".repeat((META.maxBytes - ownBytes) / 2 + 1) },
    ])
      await refused(store.insert([newJob(), newJob({ meta })]), "jobs[1].meta");
    assert.deepEqual(await snapshot(store), before);
  },

  /** What was checked is what is stored, also when an object says something else each time that it is asked. */
  async Fickle({ store }) {
    await register(store);
    const parent = await insertOne(store, { queue: "other" });
    const [batch, afterBatch] = [await openBatch(store), await openBatch(store)];
    const job = newJob({
      ...{ kind: "fickle", args: '{"a":1}', priority: 3, timeout: 1_000, tags: ["a", "b"], meta: { a: "1" } },
      ...{ title: "title", recurringId: "r", limit: { key: "k", max: 1, rate: 2, per: 3, burst: 4 } },
      ...{ parents: [{ id: parent, on: ["succeeded", "failed"] }], batch, afterBatch },
    });
    const expected = pick(await record(store, await insertOne(store, job)), { ...job, parents: [], limitKey: "" });
    const unique = { key: "0".repeat(32), window: null, onConflict: "keep" } as const;
    for (const later of [undefined, null, -1, Number.NaN, "\u0000", "X", "processing", Symbol("later")]) {
      const id = await insertOne(store, fickle(job, later));
      assert.deepEqual(pick(await record(store, id), { ...job, parents: [], limitKey: "" }), expected);
      const holder = await insertOne(store, fickle(newJob({ unique, delay: HOUR }), later));
      assert.equal(await insertOne(store, { unique }), holder);
      assert.equal(await stateOf(store, holder), "scheduled");
      await store.delete({ ids: [id, holder] });
    }
  },
};

/** The part of `value` that `like` has too. */
function pick(value: object, like: object): unknown {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key in like));
}
