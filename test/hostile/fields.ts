/** Fields of a job that is enqueued, and the test that each gets: with every hostile value, on every store. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Client, EnqueueOptions } from "../../engine/client.ts";
import { defineJob, type Job, type JobOptions } from "../../engine/job.ts";
import type { JobView } from "../../engine/view.ts";
import { assertNotStuck, everything, type Open, refusalOf, runAll, STORES, serverOn } from "./support.ts";
import { TEXT_NAMES, VALUES } from "./values.ts";

export interface Field {
  /** Enqueues a job with the value in this field. */
  readonly enqueue: (client: Client, value: unknown) => Promise<number>;
  /** Names of the values that are taken; all others are refused. */
  readonly accepts: readonly string[];
  /** Bytes of the longest text that fits. */
  readonly largest?: number;
  /** Only these values can stand there. */
  readonly only?: readonly string[];
  /** The field, and what a value that was taken has to come back as. */
  readonly read: (job: JobView) => unknown;
  readonly stored: (value: never) => unknown;
  /** The same field as the handler sees it; by default it is not looked at. */
  readonly handed?: (job: Job<unknown>) => unknown;
}

export const plain = defineJob<unknown>("plain");
export const named = (key: unknown, value: unknown): object => Object.fromEntries([[key, value]]);

/** Enqueues with an option of this name. */
export const option =
  (name: keyof EnqueueOptions, wrap = (value: unknown): unknown => value) =>
  (client: Client, value: unknown): Promise<number> =>
    client.enqueue(plain, {}, named(name, wrap(value)));
/** Enqueues by a definition that has an option of this name. */
export const general =
  (name: keyof JobOptions, wrap = (value: unknown): unknown => value) =>
  async (client: Client, value: unknown): Promise<number> =>
    client.enqueue(defineJob<object>("plain", named(name, wrap(value))), {});

const CLEAN = TEXT_NAMES.filter((name) => !["NUL", "lone surrogate", "swapped surrogates"].includes(name));
export const FITTING = CLEAN.filter((name) => !["too large text", "1 MiB", "1 MiB + 1"].includes(name));
export const given = (names: readonly string[], ...without: readonly string[]): string[] =>
  names.filter((name) => !without.includes(name));

/** Durations that are taken, and the milliseconds that they are. */
export const LENGTHS = ["0.5", "5e-324", "2^31 - 1", "2^31", "duration as text"];
export const milliseconds = (value: number | string): number => (typeof value === "string" ? 30_000 : Math.ceil(value));

/** Those of the kinds that hostile names make. */
export const kinds = ["constructor", "toJSON", "x".repeat(128)].map((kind) => defineJob<unknown>(kind));

export function testFields(fields: Readonly<Record<string, Field>>): void {
  for (const [name, field] of Object.entries(fields)) {
    for (const [store, open] of Object.entries(STORES)) {
      const what = `${store}: ${name} comes back exactly or is refused before anything is written`;
      test(what, () => testField(open, field));
    }
  }
}

async function testField(open: Open, field: Field): Promise<void> {
  const handed = new Map<number, Job<unknown>>();
  const handlers = [plain, ...kinds].map((kind) => kind.handler((job) => void handed.set(job.id, job)));
  const server = await serverOn(open, handlers);
  const { client } = server;
  const expected = new Map<number, unknown>();
  const accepted: string[] = [];
  let before = await everything(server);
  for (const value of VALUES.filter((value) => field.only?.includes(value.name) ?? true)) {
    const made = value.make(field.largest ?? 100);
    let id = 0;
    const refusal = await refusalOf(async () => {
      id = await field.enqueue(client, made);
    });
    if (refusal === undefined) {
      accepted.push(value.name);
      expected.set(id, field.stored(made as never));
      before = await everything(server);
    } else assert.deepEqual(await everything(server), before, value.name);
  }
  assert.deepEqual(accepted.sort(), [...field.accepts].sort());

  const ids = [...expected.keys()];
  const check = (found: unknown, id: number): void => assert.deepEqual(found, expected.get(id), `job ${id}`);
  for (const id of ids) check(field.read((await client.get(id)) ?? assert.fail()), id);
  for (const state of ["awaiting", "scheduled", "throttled", "enqueued"] as const)
    for (const job of (await client.list({ state, limit: 500 })).jobs) check(field.read(job), job.id);
  await runAll(server);
  for (const [id, job] of handed) if (field.handed) check(field.handed(job), id);
  const unhanded = ids.filter((id) => !handed.has(id));
  for (const id of unhanded) assert.equal((await client.get(id))?.history.at(-1)?.reason, "deadline");
  await assertNotStuck(server, ids);
  await server.store.close();
}
