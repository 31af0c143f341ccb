/** Checkpoints of running jobs. The reference keeps them in a job's meta and calls the verb SetMeta. */
import assert from "node:assert/strict";
import { JSON_MAX_BYTES, PARAM_KEY_MAX_BYTES } from "../../engine/rules/limits.ts";
import type { JobRef, JsonText } from "../../engine/store.ts";
import { HOSTILE_JSON, HOSTILE_TEXTS } from "./hostile.ts";
import { claimOne, end, type Group, HOUR, insertOne, record, refused, register, running, snapshot } from "./support.ts";

export const paramsCases: Group = {
  async SetMeta({ store }) {
    await register(store);
    const job = await running(store, { meta: { a: "meta" } });
    assert.deepEqual(job.params, {});
    await store.setParams(job, { a: "1", b: '{"x": 1.0}' });
    await store.setParams(job, { b: "[2]", c: "null" });
    const expected = { a: "1", b: "[2]", c: "null" };
    const saved = await record(store, job.id);
    assert.deepEqual(saved.params, expected);
    assert.deepEqual(saved.meta, { a: "meta" }, "meta is something else");
    assert.equal(saved.state, "processing");
    await store.setParams(job, {});
    assert.deepEqual((await record(store, job.id)).params, expected);
  },

  async SetMetaLost({ store }) {
    await register(store);
    const idle = await insertOne(store);
    const job = await running(store);
    await store.setParams(job, { kept: "1" });
    const finished = await running(store);
    await end(store, finished, "succeeded");
    const failed = await running(store);
    await end(store, failed, "failed");
    const before = await snapshot(store);
    const lost: JobRef[] = [
      { id: job.id, claim: job.claim + 1 },
      { id: job.id, claim: job.claim - 1 },
      { id: job.id + 1_000, claim: 1 },
      { id: idle, claim: 0 },
      { id: idle, claim: 1 },
      finished,
      failed,
    ];
    for (const ref of lost) {
      await assert.rejects(store.setParams(ref, { lost: "1" }), { code: "claim_lost" });
      await assert.rejects(store.setParams(ref, {}), { code: "claim_lost" });
    }
    assert.deepEqual(await snapshot(store), before);
  },

  async AcrossAttempts({ store, advance }) {
    await register(store);
    const first = await running(store);
    await store.setParams(first, { at: "1" });
    await end(store, first, "scheduled", { delay: HOUR, reason: "retry" });
    assert.deepEqual((await record(store, first.id)).params, { at: "1" });
    await advance(HOUR);
    const second = await claimOne(store, { queues: [first.queue] });
    assert.deepEqual(second.params, { at: "1" });
    await assert.rejects(store.setParams(first, { at: "0" }), { code: "claim_lost" });
    await store.setParams(second, { at: "2" });
    await end(store, second, "succeeded");
    assert.deepEqual((await record(store, first.id)).params, { at: "2" });
    await store.requeue({ ids: [first.id] });
    assert.deepEqual((await claimOne(store, { queues: [first.queue] })).params, { at: "2" });
  },

  async Invalid({ store }) {
    await register(store);
    const job = await running(store);
    await store.setParams(job, { kept: "1" });
    const before = await snapshot(store);
    for (const value of ["", "{", "undefined", "NaN", '"\u0000"', "{} {}"]) {
      await refused(store.setParams(job, { good: "1", bad: value }));
    }
    assert.deepEqual(await snapshot(store), before, "a refused call writes nothing");
  },

  async Size({ store }) {
    await register(store);
    const job = await running(store);
    const largest = JSON.stringify("é".repeat((JSON_MAX_BYTES - 2) / 2));
    await store.setParams(job, { small: "1" });
    await refused(store.setParams(job, { large: `${largest} ` }));
    const longest = "é".repeat(PARAM_KEY_MAX_BYTES / 2);
    await refused(store.setParams(job, { other: "1", [`${longest}x`]: "1" }));
    assert.deepEqual((await record(store, job.id)).params, { small: "1" });
    await store.setParams(job, { [longest]: "1" });
    assert.deepEqual((await record(store, job.id)).params, { small: "1", [longest]: "1" });
  },

  async Hostile({ store }) {
    await register(store);
    const job = await running(store);
    const expected = new Map<string, JsonText>();
    const save = async (key: string, value: JsonText): Promise<void> => {
      const saved = await store.setParams(job, Object.fromEntries([[key, value]])).then(
        () => true,
        (error: { code?: unknown }) => {
          assert.equal(error.code, "invalid", `${JSON.stringify(key)}: ${value.slice(0, 100)}`);
          return false;
        },
      );
      if (saved) expected.set(key, value);
      const { params } = await record(store, job.id);
      assert.ok(Object.entries(params).length === expected.size, `${JSON.stringify(key)}: ${value.slice(0, 100)}`);
      for (const [name, text] of Object.entries(params)) assert.ok(text === expected.get(name), JSON.stringify(name));
    };
    for (const key of HOSTILE_TEXTS) await save(key, JSON.stringify(key));
    for (const value of HOSTILE_JSON) await save("value", value);
    await end(store, job, "enqueued");
    const again = await claimOne(store, { queues: [job.queue] });
    assert.equal(Object.keys(again.params).length, expected.size, "and the job can be claimed with them");
  },
};
