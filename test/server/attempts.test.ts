import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../engine/client.ts";
import { Attempt } from "../../engine/server/attempt.ts";
import { Attempts } from "../../engine/server/attempts.ts";
import { Faults } from "../../engine/server/faults.ts";
import type { JobRef } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { claimed } from "../rules/support.ts";

const runtime = new VirtualTime().runtime();
const store = new MemoryStore({ runtime });
const clientFor = (ref: JobRef): Client => Client.whileHeld(new Client(store), ref);
const faults = new Faults(runtime, console);
const deps = { runtime, store, clientFor, logger: console, faults, interceptors: [], killGrace: 5, timeout: 0 };
const attempt = (id: number, claim: number): Attempt =>
  new Attempt(deps, undefined, { job: claimed({ id, claim }), claimSent: 0, knownSince: 0 });

test("an attempt is found by its job and its claim, and by no other", () => {
  const attempts = new Attempts();
  const [a, b] = [attempt(1, 1), attempt(2, 4)];
  attempts.add(a);
  attempts.add(b);
  assert.equal(attempts.get({ id: 1, claim: 1 }), a);
  assert.equal(attempts.get({ id: 2, claim: 4 }), b);
  for (const ref of [
    { id: 1, claim: 2 },
    { id: 2, claim: 1 },
    { id: 3, claim: 1 },
  ]) {
    assert.equal(attempts.get(ref), undefined);
  }
  assert.deepEqual([attempts.has(1), attempts.has(2), attempts.has(3), attempts.size], [true, true, false, 2]);
});

test("two claims of one job are two attempts", () => {
  const attempts = new Attempts();
  const [old, current] = [attempt(1, 1), attempt(1, 2)];
  attempts.add(old);
  attempts.add(current);
  assert.equal(attempts.size, 2);
  assert.deepEqual([...attempts], [old, current]);
  attempts.remove(old);
  assert.deepEqual([attempts.size, attempts.has(1)], [1, true]);
  assert.equal(attempts.get({ id: 1, claim: 1 }), undefined);
  assert.equal(attempts.get({ id: 1, claim: 2 }), current);
  attempts.remove(current);
  assert.deepEqual([attempts.size, attempts.has(1), [...attempts]], [0, false, []]);
});

test("all are passed over once, also while some leave", () => {
  const attempts = new Attempts();
  const all = [attempt(1, 1), attempt(2, 1), attempt(2, 2), attempt(3, 1), attempt(4, 1)];
  for (const one of all) attempts.add(one);
  const seen: Attempt[] = [];
  for (const one of attempts) {
    seen.push(one);
    attempts.remove(one);
  }
  assert.deepEqual(seen, all);
  assert.equal(attempts.size, 0);
});
