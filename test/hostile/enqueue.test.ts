/** Every field of a job that is enqueued × every hostile value × every store. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { Batch } from "../../engine/batch.ts";
import { Client } from "../../engine/client.ts";
import { defineJob, type Job } from "../../engine/job.ts";
import type { NewJob } from "../../engine/store.ts";
import type { JobView } from "../../engine/view.ts";
import {
  FITTING,
  type Field,
  general,
  given,
  kinds,
  LENGTHS,
  milliseconds,
  named,
  option,
  plain,
  testFields,
} from "./fields.ts";
import { assertNotStuck, everything, refusalOf, runAll, STORES, serverOn } from "./support.ts";
import { JSON_VALUES, TEXT_NAMES, VALUES } from "./values.ts";

const MIB = 2 ** 20;
const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

const args = (wrap: (value: unknown) => unknown): Omit<Field, "accepts" | "largest"> => ({
  enqueue: (client, value) => client.enqueue(plain, wrap(value)),
  read: (job) => job.args,
  handed: (job) => job.args,
  stored: (value) => json(wrap(value)),
});

/** Enqueues a job as the one member of a batch that is made with these options. */
async function batched(client: Client, options: unknown): Promise<number> {
  const batch = new Batch(options as never);
  batch.add(plain.spec({}));
  const id = await client.startBatch(batch);
  return (await client.list({ state: "enqueued", batch: id })).jobs[0]?.id ?? assert.fail();
}

const queue = {
  largest: 64,
  accepts: ["undefined", "__proto__", "constructor", "number as text", "duration as text", "largest text"],
  read: (job: JobView) => job.queue,
  handed: (job: Job<unknown>) => job.queue,
  stored: (value?: string) => value ?? "default",
};
const priority = {
  accepts: ["undefined", "-0", "-1"],
  read: (job: JobView) => job.priority,
  handed: (job: Job<unknown>) => job.priority,
  stored: (value = 0) => value + 0,
};
const maxAttempts = {
  accepts: ["undefined"],
  read: (job: JobView) => job.maxAttempts,
  handed: (job: Job<unknown>) => job.maxAttempts,
  stored: () => 10,
};
const INSTANTS = ["undefined", "year 1970", "year 9999", "Date that lies"];
const instant = (value: Date): number => Date.prototype.getTime.call(value);
/** Shown only, so it is made to fit. */
const title = {
  accepts: ["undefined", "null", ...TEXT_NAMES],
  largest: 200,
  read: (job: JobView) => job.title,
  handed: (job: Job<unknown>) => job.title,
  stored: (value?: string | null) => value?.toWellFormed().replaceAll("\u0000", "").slice(0, 200) || null,
};

const schema = (validate: () => unknown): StandardSchemaV1 =>
  ({ "~standard": { version: 1, vendor: "hostile", validate } }) as StandardSchemaV1;

const FIELDS: Readonly<Record<string, Field>> = {
  args: { ...args((value) => value), accepts: JSON_VALUES, largest: MIB - 2 },
  "a property of args": { ...args((v) => ({ v })), accepts: [...JSON_VALUES, "undefined"], largest: MIB - 8 },
  "an item of args": { ...args((value) => [value]), accepts: JSON_VALUES, largest: MIB - 4 },
  "a key of args": {
    ...args((value) => named(value, 1)),
    only: TEXT_NAMES,
    accepts: given(TEXT_NAMES, "too large text", "1 MiB", "1 MiB + 1"),
    largest: MIB - 6,
  },
  "args of a spec": {
    ...args((value) => value),
    enqueue: async (client, value) => (await client.enqueueMany([plain.spec(value)]))[0]?.id ?? assert.fail(),
    accepts: JSON_VALUES,
    largest: MIB - 2,
  },
  specs: {
    enqueue: async (client, value) => (await client.enqueueMany(value as never))[0]?.id ?? assert.fail(),
    ...{ accepts: [], read: () => null, stored: () => null },
  },
  spec: {
    enqueue: async (client, value) => (await client.enqueueMany([value as never]))[0]?.id ?? assert.fail(),
    ...{ accepts: [], read: () => null, stored: () => null },
  },
  definition: {
    enqueue: (client, value) => client.enqueue(value as never, {}),
    ...{ accepts: [], read: () => null, stored: () => null },
  },
  options: {
    enqueue: (client, value) => client.enqueue(plain, {}, value as never),
    ...{ accepts: ["undefined"], read: () => null, stored: () => null },
  },
  queue: { ...queue, enqueue: option("queue") },
  priority: { ...priority, enqueue: option("priority") },
  maxAttempts: { ...maxAttempts, enqueue: option("maxAttempts") },
  delay: {
    enqueue: option("delay"),
    accepts: ["undefined", "-0", "-1", ...LENGTHS],
    read: (job) => job.runAt.getTime() - job.createdAt.getTime(),
    stored: (value: number | string = 0) => Math.max(milliseconds(value), 0),
  },
  runAt: {
    enqueue: option("runAt"),
    accepts: INSTANTS,
    read: (job) => job.runAt.getTime(),
    stored: (value: Date | undefined) => (value === undefined ? Date.UTC(2026, 0, 1) : instant(value)),
  },
  deadline: {
    enqueue: option("deadline"),
    accepts: INSTANTS,
    read: (job) => job.deadline?.getTime(),
    handed: (job) => job.deadline?.getTime(),
    stored: (value: Date | undefined) => value && instant(value),
  },
  timeout: {
    enqueue: option("timeout"),
    accepts: ["undefined", ...LENGTHS],
    read: (job) => job.timeout,
    stored: (value?: number) => (value === undefined ? null : milliseconds(value)),
  },
  title: { ...title, enqueue: option("title") },
  tags: {
    enqueue: option("tags"),
    ...{ accepts: ["undefined"], read: (job) => job.tags, handed: (job) => job.tags, stored: () => [] },
  },
  "a tag": {
    enqueue: option("tags", (tag) => [tag]),
    largest: 64,
    accepts: given(FITTING, "empty text"),
    read: (job) => job.tags,
    handed: (job) => job.tags,
    stored: (tag) => [tag],
  },
  meta: {
    enqueue: option("meta"),
    ...{ accepts: ["undefined"], read: (job) => job.meta, handed: (job) => job.meta, stored: () => ({}) },
  },
  "a value of meta": {
    enqueue: option("meta", (value) => ({ k: value })),
    largest: 16 * 1024 - 1,
    accepts: [...FITTING, "undefined"],
    read: (job) => job.meta,
    handed: (job) => job.meta,
    stored: (value) => json({ k: value }),
  },
  "a key of meta": {
    enqueue: option("meta", (key) => named(key, "v")),
    only: TEXT_NAMES,
    largest: 16 * 1024 - 1,
    accepts: given(FITTING, "empty text"),
    read: (job) => job.meta,
    handed: (job) => job.meta,
    stored: (key) => named(key, "v"),
  },
  "a batch's options": {
    enqueue: batched,
    ...{ accepts: ["undefined"], read: () => null, stored: () => null },
  },
  "a batch's description": {
    enqueue: (client, description) => batched(client, { description }),
    accepts: ["undefined", "null", ...TEXT_NAMES],
    ...{ read: () => null, stored: () => null },
  },
  "a value of a batch's meta": {
    enqueue: (client, value) => batched(client, { meta: { k: value } }),
    largest: 16 * 1024 - 1,
    accepts: [...FITTING, "undefined"],
    ...{ read: () => null, stored: () => null },
  },
  "a spec of a batch": {
    enqueue: async (client, value) => {
      const batch = new Batch();
      batch.add(value as never);
      return client.startBatch(batch);
    },
    ...{ accepts: [], read: () => null, stored: () => null },
  },
  kind: {
    enqueue: async (client, value) => client.enqueue(defineJob<object>(value as never), {}),
    largest: 128,
    accepts: ["constructor", "toJSON", "largest text"],
    read: (job) => job.kind,
    handed: (job) => job.kind,
    stored: (value) => value,
  },
  "the kind's options": {
    enqueue: async (client, value) => client.enqueue(defineJob<object>("plain", value as never), {}),
    ...{ accepts: ["undefined"], read: () => null, stored: () => null },
  },
  "the kind's queue": { ...queue, enqueue: general("queue") },
  "the kind's priority": { ...priority, enqueue: general("priority") },
  "the kind's maxAttempts": { ...maxAttempts, enqueue: general("maxAttempts") },
  "the kind's timeout": {
    enqueue: general("timeout"),
    ...{ accepts: ["undefined", ...LENGTHS], read: (job) => job.timeout, stored: () => null },
  },
  "the kind's stallTimeout": {
    enqueue: general("stallTimeout"),
    ...{ accepts: ["undefined", ...LENGTHS], read: () => null, stored: () => null },
  },
  "the kind's title": { ...title, enqueue: general("title"), accepts: given(title.accepts, "null") },
  "what the kind's title function returns": { ...title, enqueue: general("title", (value) => () => value) },
  "what the kind's title function throws": {
    enqueue: general("title", (value) => () => {
      throw value;
    }),
    ...{ accepts: [], read: () => null, stored: () => null },
  },
  "what the kind's async title function throws": {
    enqueue: general("title", (value) => async () => {
      throw value;
    }),
    ...{ accepts: [], read: () => null, stored: () => null },
  },
  "the issues that a schema finds": {
    enqueue: general("args" as never, (issues) => schema(() => ({ issues }))),
    // As the standard says: none is success.
    accepts: ["undefined", "null", "-0", "NaN", "empty text"],
    ...{ read: () => null, stored: () => null },
  },
  "an issue that a schema finds": {
    enqueue: general("args" as never, (issue) => schema(() => ({ issues: [issue] }))),
    ...{ accepts: [], read: () => null, stored: () => null },
  },
  "the path of an issue": {
    enqueue: general("args" as never, (key) => schema(() => ({ issues: [{ message: "no", path: [key] }] }))),
    ...{ accepts: [], read: () => null, stored: () => null },
  },
  "what a schema throws": {
    enqueue: general("args" as never, (value) =>
      schema(() => {
        throw value;
      }),
    ),
    ...{ accepts: [], read: () => null, stored: () => null },
  },
  "what an async schema throws": {
    enqueue: general("args" as never, (value) =>
      schema(async () => {
        throw value;
      }),
    ),
    ...{ accepts: [], read: () => null, stored: () => null },
  },
};

testFields(FIELDS);

/** What an interceptor of the client may make of a job. */
const NEW: NewJob = {
  ...{ kind: "plain", queue: "default", args: "{}", priority: 0, maxAttempts: 1, timeout: null, delay: 0 },
  ...{
    runAt: null,
    deadline: null,
    title: null,
    tags: [],
    meta: {},
    recurringId: null,
    unique: null,
    parents: [],
    limit: null,
    batch: null,
    afterBatch: null,
  },
};

for (const [store, open] of Object.entries(STORES)) {
  for (const name of Object.keys(NEW) as (keyof NewJob)[]) {
    test(`${store}: whatever an interceptor makes of a job's ${name} is refused by the store or does no harm`, async () => {
      const server = await serverOn(
        open,
        [plain, ...kinds].map((kind) => kind.handler(() => null)),
      );
      const ids: number[] = [];
      const counts = { refused: 0, taken: 0 };
      for (const value of VALUES) {
        const changed = { ...NEW, [name]: value.make(name === "kind" ? 128 : 64) };
        const client = new Client(server.store, { interceptors: [(_jobs, next) => next([changed as NewJob])] });
        const before = await everything(server);
        let unknown = false;
        const refusal = await refusalOf(async () => {
          const id = await client.enqueue(plain, {}).catch((error: { code?: string }) => {
            // Of a batch that there could be.
            unknown = error.code === "not_found";
            if (!unknown) throw error;
            return null;
          });
          if (id !== null) ids.push(id);
        });
        if (unknown || refusal !== undefined) assert.deepEqual(await everything(server), before, value.name);
        counts[refusal === undefined ? "taken" : "refused"] += 1;
      }
      assert.ok(counts.refused > 20, JSON.stringify(counts));
      await runAll(server);
      await assertNotStuck(server, ids);
      await server.store.close();
    });
  }
}
