import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Client, type EnqueueOptions, type SpecOptions } from "../../engine/client.ts";
import { Flow } from "../../engine/flow.ts";
import { defineJob, type JobSpec } from "../../engine/job.ts";
import { type NewJob, PARENT_STATES, type Parent } from "../../engine/store.ts";
import { hostileProxy, revokedProxy, rulesOf, throwingGetter, world } from "./support.ts";

const mail = defineJob<{ to: string }>("mail");
const to = { to: "a" };

/** The parents that the client hands to the store, without their existence being looked at. */
async function sent(specs: (ids: readonly number[]) => readonly JobSpec[]): Promise<(readonly Parent[])[]> {
  let seen: readonly NewJob[] = [];
  const { client } = await world([
    (jobs, next) => {
      seen = jobs;
      return next(jobs);
    },
  ]);
  const ids = [await client.enqueue(mail, to), await client.enqueue(mail, to)];
  await client.enqueueMany(specs(ids));
  return seen.map(({ parents }) => parents);
}

test("options become the store's parents", async () => {
  const parents = await sent(([one = 0, two = 0]) => [
    mail.spec(to),
    mail.spec(to, { after: one }),
    mail.spec(to, { after: [one, two], afterFinished: two }),
    mail.spec(to, { needs: [0, 1], afterFinished: [one] }),
    mail.spec(to, { after: [], needs: [] }),
  ]);
  const success = { on: ["succeeded"] };
  assert.deepEqual(parents, [
    [],
    [{ id: 1, ...success }],
    [
      { id: 1, ...success },
      { id: 2, ...success },
      { id: 2, on: PARENT_STATES },
    ],
    [
      { id: 1, on: PARENT_STATES },
      { index: 0, ...success },
      { index: 1, ...success },
    ],
    [],
  ]);
});

test("a flow knows the positions of its jobs", async () => {
  const { client, record } = await world();
  const flow = new Flow();
  assert.deepEqual(flow.specs, []);
  const first = flow.add(mail.spec(to));
  const second = flow.add(mail.spec(to, { needs: [first] }));
  flow.add(mail.spec(to, { needs: [first, second] }));
  const inserted = await client.enqueueMany(flow.specs);
  assert.deepEqual(
    inserted.map(({ state }) => state),
    ["enqueued", "awaiting", "awaiting"],
  );
  const [one, two, three] = inserted.map(({ id }) => id);
  assert.deepEqual((await record(three ?? 0)).parents, [one, two]);
  assert.deepEqual((await client.get(one ?? 0))?.children, [two, three]);
  assert.equal((await client.get(three ?? 0))?.pendingParents, 2);
  assert.deepEqual(
    (await client.list({ state: "awaiting" })).jobs.map(({ id }) => id),
    [three, two],
  );
});

test("every bad parent is named, and nothing is stored", async () => {
  const { client } = await world();
  const rules = (options: unknown): Promise<string[]> =>
    rulesOf(() => client.enqueueMany([mail.spec(to), mail.spec(to, options as SpecOptions)]));
  const id = `must be an integer from 1 to ${Number.MAX_SAFE_INTEGER}`;
  for (const field of ["after", "afterFinished"]) {
    for (const value of [0, -3, 1.5, Number.NaN, 2 ** 53]) {
      assert.deepEqual(await rules({ [field]: value }), [`jobs[1].${field} ${id}`]);
      assert.deepEqual(await rules({ [field]: [1, value] }), [`jobs[1].${field}[1] ${id}`]);
    }
    for (const value of ["1", 1n, {}, null, true, hostileProxy(), revokedProxy(), hostileProxy([])]) {
      const [rule = "", ...more] = await rules({ [field]: value });
      assert.match(rule, new RegExp(`^jobs\\[1\\]\\.${field} must be `));
      assert.deepEqual(more, []);
    }
    assert.deepEqual(await rules(throwingGetter(field)), [`jobs[1].${field} must be readable`]);
  }
  for (const value of [1, 2, -1, 0.5, Number.NaN, "0", null]) {
    const rule = "jobs[1].needs[0] must be the position of another job of the call";
    assert.deepEqual(await rules({ needs: [value] }), [rule]);
  }
  assert.deepEqual(await rules({ needs: 0 }), ["jobs[1].needs must be an array"]);
  const [single = "", ...more] = await rulesOf(() => client.enqueue(mail, to, { needs: [0] } as EnqueueOptions));
  assert.match(single, /^needs is unknown/);
  assert.deepEqual(more, []);
  assert.deepEqual((await client.counts()).enqueued, 0);
});

test("cycles and unknown parents are refused as a whole", async () => {
  const { client } = await world();
  const cycle = [mail.spec(to), mail.spec(to, { needs: [2] }), mail.spec(to, { needs: [1] })];
  assert.deepEqual(await rulesOf(() => client.enqueueMany(cycle)), [
    "jobs[1].parents must not wait for itself (jobs 1 → 2 → 1 of the call)",
  ]);
  await assert.rejects(client.enqueueMany([mail.spec(to), mail.spec(to, { after: 99 })]), {
    code: "not_found",
    message: "can't insert: jobs[1].parents[0]: there is no job 99",
  });
  await assert.rejects(client.enqueue(mail, to, { afterFinished: [99] }), { code: "not_found" });
  assert.equal((await client.counts()).enqueued, 0);
});

test("whatever is given is refused or stored, never thrown on", async () => {
  const { store } = await world();
  const client = new Client(store);
  const any = fc.oneof(fc.anything(), fc.array(fc.anything()));
  await fc.assert(
    fc.asyncProperty(fc.record({ after: any, afterFinished: any, needs: any }), async (options) => {
      await rulesOf(async () => {
        const call = client.enqueueMany([mail.spec(to, options as SpecOptions)]);
        await call.catch((error: { code?: string }) => {
          if (error.code !== "not_found") throw error;
        });
      });
    }),
  );
});
