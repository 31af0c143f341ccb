/** What ties a job to others, in the options of an enqueue: limits, uniqueness, parents × every hostile value × every store. */
import assert from "node:assert/strict";
import type { Client } from "../../engine/client.ts";
import { InvalidError, NotFoundError } from "../../engine/errors.ts";
import type { JobView } from "../../engine/view.ts";
import { FITTING, type Field, general, given, LENGTHS, milliseconds, option, plain, testFields } from "./fields.ts";
import { TEXT_NAMES } from "./values.ts";

/** Wide enough that nothing waits for it. */
const WIDE = { rate: 1_000_000, burst: 1_000 };

const limitKey = {
  largest: 200,
  accepts: [...given(FITTING, "empty text"), "undefined"],
  read: (job) => job.limitKey,
  stored: (key = "plain") => key,
} satisfies Partial<Field>;
/** Whether the limit is kept to is for other tests; here it is about whether its job runs. */
const limited = { read: (job) => job.limitKey, stored: () => "plain" } satisfies Partial<Field>;

let keys = 0;
/** A key that no other job has, with the value in one of the options beside it. */
const unique =
  (name: string) =>
  (client: Client, value: unknown): Promise<number> => {
    keys += 1;
    return enqueueTwice(client, { key: `key ${keys}`, ...(value !== undefined && { [name]: value }) });
  };

/** Its key is held: the same again is the same job. */
async function enqueueTwice(client: Client, unique: unknown): Promise<number> {
  const id = await client.enqueue(plain, {}, { unique: unique as never });
  assert.equal(await client.enqueue(plain, {}, { unique: unique as never }), id);
  return id;
}

const untied = { accepts: [], read: () => null, stored: () => null } satisfies Partial<Field>;
const parentless = { ...untied, accepts: ["undefined"], read: (job: JobView) => job.parents.length, stored: () => 0 };

/** No job has such an id, and a call that names one is refused as a whole. */
const known =
  (name: "after" | "afterFinished", wrap = (value: unknown): unknown => value) =>
  async (client: Client, value: unknown): Promise<number> => {
    try {
      return await client.enqueue(plain, {}, { [name]: wrap(value) });
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
      throw new InvalidError(error.message, [{ field: name, value: "", rule: "must be the id of a job" }]);
    }
  };
const needs =
  (wrap = (value: unknown): unknown => value) =>
  async (client: Client, value: unknown): Promise<number> =>
    (await client.enqueueMany([plain.spec({}, { needs: wrap(value) as never })]))[0]?.id ?? assert.fail();

const FIELDS: Readonly<Record<string, Field>> = {
  limit: { ...untied, accepts: ["undefined"], enqueue: option("limit") },
  "a limit's key": { ...limitKey, enqueue: option("limit", (key) => ({ ...WIDE, key })) },
  "the key of the kind's limit": { ...limitKey, enqueue: general("limit", (key) => ({ ...WIDE, key })) },
  "a limit's max": { ...limited, enqueue: option("limit", (max) => ({ max })), accepts: ["undefined", "-0"] },
  "a limit's rate": { ...limited, enqueue: option("limit", (rate) => ({ rate })), accepts: ["undefined", "-0"] },
  "a limit's per": {
    ...{ ...limited, enqueue: option("limit", (per) => ({ ...WIDE, per })) },
    accepts: ["undefined", ...LENGTHS],
  },
  "a limit's burst": {
    ...{ ...limited, enqueue: option("limit", (burst) => ({ rate: 1_000, burst })) },
    accepts: ["undefined"],
  },
  unique: { ...untied, accepts: ["undefined", "true"], enqueue: option("unique") },
  "a unique key": {
    ...untied,
    enqueue: (client, key) => enqueueTwice(client, { key }),
    // Of any length: what is stored is a hash.
    accepts: [...given(TEXT_NAMES, "empty text", "NUL", "lone surrogate", "swapped surrogates"), "undefined"],
  },
  "how long a key is held": { ...untied, enqueue: unique("for"), accepts: ["undefined", ...LENGTHS] },
  "unique.replace": { ...untied, enqueue: unique("replace"), accepts: ["undefined", "true"] },
  "unique.debounce": {
    enqueue: unique("debounce"),
    accepts: ["undefined", ...LENGTHS],
    read: (job) => job.runAt.getTime() - job.createdAt.getTime(),
    stored: (value?: number | string) => (value === undefined ? 0 : milliseconds(value)),
  },
  after: { ...parentless, enqueue: known("after") },
  "an id of after": { ...parentless, accepts: [], enqueue: known("after", (id) => [id]) },
  afterFinished: { ...parentless, enqueue: known("afterFinished") },
  "an id of afterFinished": { ...parentless, accepts: [], enqueue: known("afterFinished", (id) => [id]) },
  needs: { ...parentless, enqueue: needs() },
  "a position of needs": { ...parentless, accepts: [], enqueue: needs((position) => [position]) },
};

testFields(FIELDS);
