/** Queues, pools, workers, weights and batches of a server's config. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type PoolConfig, resolveConfig, type ServerConfig } from "../../engine/server/config.ts";
import { BASE, handler, problemsOf, refused } from "./config-support.ts";

const pools = (...given: PoolConfig[]): ServerConfig => ({ handlers: [handler()], pools: given });

test("make a pool each, by name, after the pools", () => {
  const config = resolveConfig({
    handlers: [handler()],
    queues: { mail: 3, batch: 700 },
    pools: [
      { queues: ["z", "a"], workers: 5 },
      { queues: ["b", "c"], workers: 2, weights: { c: 9 } },
    ],
  });
  assert.deepEqual(config.pools, [
    { queues: ["z", "a"], workers: 5, fetchBatch: 5, weights: null },
    { queues: ["b", "c"], workers: 2, fetchBatch: 2, weights: new Map([["c", 9]]) },
    { queues: ["batch"], workers: 700, fetchBatch: 500, weights: null },
    { queues: ["mail"], workers: 3, fetchBatch: 3, weights: null },
  ]);
});

test("are needed", () => {
  for (const none of [{}, { queues: {} }, { pools: [] }, { queues: {}, pools: [] }, { queues: { mail: undefined } }]) {
    refused({ queues: undefined, ...none }, "queues", /or pools must name at least one queue/);
  }
  refused({ pools: [{ queues: [], workers: 1 }] }, "pools[0].queues", /at least one queue/);
  refused({ pools: [{ workers: 1 }] }, "pools[0].queues", /is required/);
});

test("have from 1 to 10,000 workers", () => {
  for (const workers of [1, 10_000]) {
    assert.equal(resolveConfig({ ...BASE, queues: { mail: workers } }).pools[0]?.workers, workers);
    assert.equal(resolveConfig(pools({ queues: ["mail"], workers })).pools[0]?.workers, workers);
  }
  for (const workers of [0, -1, 10_001, 1.5, "5", Number.NaN, null]) {
    refused({ queues: { mail: workers } }, "queues.mail", /integer from 1 to 10000/);
    refused({ pools: [{ queues: ["mail"], workers }] }, "pools[0].workers", /integer from 1 to 10000|is required/);
  }
  refused({ pools: [{ queues: ["mail"] }] }, "pools[0].workers", /is required/);
});

test("have names that every store takes", () => {
  for (const name of ["a", "...", "a.b_c:d-9", "__proto__", "q".repeat(64)]) {
    assert.deepEqual(resolveConfig({ ...BASE, queues: { [name]: 1 } }).pools[0]?.queues, [name]);
  }
  for (const name of ["", ".", "..", "BAD", "Mail Out", "é", "q".repeat(65)]) {
    refused({ queues: { [name]: 1 } }, "queues", /lowercase letters/);
  }
  for (const name of ["BAD", "", 5, null, undefined, {}, ["mail"]]) {
    refused({ pools: [{ queues: ["ok", name], workers: 1 }] }, "pools[0].queues[1]", /lowercase/);
  }
});

test("are in one pool only", () => {
  const [a, b] = [
    { queues: ["mail", "sms"], workers: 1 },
    { queues: ["push", "mail"], workers: 1 },
  ];
  refused({ pools: [a, b] }, "pools[1].queues[1]", /in one pool only/);
  refused({ pools: [a], queues: { sms: 1 } }, "queues", /in one pool only/);
  refused({ pools: [{ queues: ["mail", "mail"], workers: 1 }] }, "pools[0].queues[1]", /one pool only/);
  assert.equal(problemsOf({ ...BASE, pools: [a, b] })[0]?.value, '"mail"');
});

test("have weights from 1 to 1,000, of their own pool", () => {
  const weighted = (weights: unknown): object => ({ pools: [{ queues: ["mail", "sms"], workers: 1, weights }] });
  for (const weight of [1, 1_000]) assert.deepEqual(problemsOf({ ...BASE, ...weighted({ mail: weight }) }), []);
  assert.deepEqual(resolveConfig({ ...BASE, ...weighted({}) }).pools[0]?.weights, new Map());
  for (const weight of [0, -1, 1_001, 1.5, "2", null]) {
    refused(weighted({ mail: weight }), "pools[0].weights.mail", /integer from 1 to 1000/);
  }
  refused(weighted({ push: 2 }), "pools[0].weights.push", /must be a queue of its pool/);
  for (const weights of [[], 5, null]) refused(weighted(weights), "pools[0].weights", /an object/);
});

test("that are no object, and pools that are no array of objects, are refused", () => {
  const fieldsOf = (fields: object): string[] => problemsOf({ ...BASE, ...fields }).map(({ field }) => field);
  for (const value of [["mail"], "mail", 5, null]) assert.ok(fieldsOf({ queues: value }).includes("queues"));
  for (const value of [{ mail: 1 }, "mail", 5, null]) assert.ok(fieldsOf({ pools: value }).includes("pools"));
  for (const value of ["mail", 5, null, undefined]) assert.ok(fieldsOf({ pools: [value] }).includes("pools[0]"));
});

test("are claimed from in batches of at most fetchBatch, the pool's workers and 500", () => {
  const batches = (fetchBatch?: number): unknown =>
    resolveConfig({
      handlers: [handler()],
      queues: { a: 2, b: 100, c: 9_000 },
      ...(fetchBatch !== undefined && { fetchBatch }),
    }).pools.map((pool) => pool.fetchBatch);
  assert.deepEqual(batches(), [2, 100, 500]);
  assert.deepEqual(batches(1), [1, 1, 1]);
  assert.deepEqual(batches(50), [2, 50, 50]);
  assert.deepEqual(batches(500), [2, 100, 500]);
  for (const fetchBatch of [0, -1, 501, 1.5, "5", null]) refused({ fetchBatch }, "fetchBatch", /from 1 to 500/);
});
