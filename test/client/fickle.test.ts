/** Options that say something else each time that they are asked: what was checked is what is enqueued. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { EnqueueOptions } from "../../engine/client.ts";
import { defineJob, type JobOptions } from "../../engine/job.ts";
import type { NewJob } from "../../engine/store.ts";
import { fickle } from "../conformance/hostile.ts";
import { world } from "./support.ts";

const task = defineJob<{ n: number[] }>("task");
const args = { n: [1, 2] };
const LATER = [undefined, null, -1, Number.NaN, "\u0000", "30s", Symbol("later"), {}];

const OPTIONS: EnqueueOptions = {
  ...{ queue: "mail", priority: 3, maxAttempts: 4, timeout: "5s", title: "title", tags: ["a", "b"], meta: { a: "1" } },
  ...{ deadline: new Date(1_000), limit: { key: "k", rate: 2, per: "3s", burst: 4, max: 5 }, after: [1, 2] },
  ...{ unique: { key: "u", for: "1h", replace: true }, delay: "10m", batch: 3, afterBatch: 4 },
};

/** What an interceptor gets of each call. */
async function enqueued(options: (value: object) => object): Promise<readonly NewJob[]> {
  const jobs: NewJob[] = [];
  const { client } = await world([
    async (given, _next) => {
      jobs.push(...given);
      return given.map(() => ({ id: 1, state: "enqueued" as const, duplicate: false, replaced: false }));
    },
  ]);
  await client.enqueue(task, args, options(OPTIONS));
  const { queue, priority, maxAttempts, timeout, title, limit } = OPTIONS;
  const general = { queue, priority, maxAttempts, timeout, title, limit } as JobOptions;
  await client.enqueueMany([
    task.spec(args, options({ ...OPTIONS, needs: [1] })),
    defineJob("general", options(general)).spec({}, options({})),
    task.spec(args, options({ unique: options({ debounce: "1m" }) })),
  ]);
  return jobs;
}

test("every option is read once", async () => {
  const expected = await enqueued((value) => value);
  for (const later of LATER) assert.deepEqual(await enqueued((value) => fickle(value, later)), expected);
});

test("every option of a recurring job is read once", async () => {
  const { client } = await world();
  const { after: _after, unique: _unique, delay: _delay, deadline: _deadline, ...rest } = OPTIONS;
  const { batch: _batch, afterBatch: _afterBatch, ...template } = rest;
  const options = { ...template, cron: "@daily", timeZone: "Europe/London", misfire: "skip", overlap: false } as const;
  await client.setRecurring("plain", task, args, options);
  for (const later of LATER) await client.setRecurring("fickle", task, args, fickle(options, later));
  await client.syncRecurring("group", [task.recurring("synced", args, fickle(options, "\u0000"))]);
  const shown = (await client.recurring()).map(
    ({ id: _id, group: _group, createdAt: _created, updatedAt: _updated, ...fields }) => fields,
  );
  assert.equal(shown.length, 3);
  for (const fields of shown) assert.deepEqual(fields, shown[0]);
});
