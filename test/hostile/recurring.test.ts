/** Every field of a recurring job × every hostile value × every store: it runs, or is refused and never stands in the way. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Client } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import type { RecurringOptions } from "../../engine/recurring.ts";
import type { TestServer } from "../../engine/testing/index.ts";
import { given } from "./fields.ts";
import { everything, refusalOf, STORES, serverOn } from "./support.ts";
import { JSON_VALUES, VALUES } from "./values.ts";

const report = defineJob<unknown>("report");
const IDS = ["__proto__", "constructor", "toJSON", "number as text", "duration as text", "largest text"];
const HOURLY: RecurringOptions = { cron: "@hourly" };

interface Field {
  readonly set: (client: Client, id: string, value: never) => Promise<unknown>;
  readonly accepts: readonly string[];
  /** Bytes of the longest text that fits; 200 by default. */
  readonly largest?: number;
}

const option = (name: string, ...accepts: string[]): Field => ({
  set: (client, id, value) => client.setRecurring(id, report, {}, { ...HOURLY, [name]: value }),
  accepts,
});
const FITTING = ["blank", "every plane", ...IDS, "SQL and JSON path"];

const FIELDS: Readonly<Record<string, Field>> = {
  id: { set: (client, _id, value) => client.setRecurring(value, report, {}, HOURLY), accepts: IDS },
  definition: { set: (client, id, value) => client.setRecurring(id, value, {}, HOURLY), accepts: [] },
  args: {
    set: (client, id, value) => client.setRecurring(id, report, value, HOURLY),
    ...{ accepts: JSON_VALUES, largest: 2 ** 20 - 2 },
  },
  options: { set: (client, id, value) => client.setRecurring(id, report, {}, value), accepts: [] },
  cron: option("cron"),
  timeZone: option("timeZone", "undefined"),
  misfire: option("misfire", "undefined"),
  overlap: option("overlap", "undefined", "true"),
  queue: { ...option("queue", "undefined", ...given(IDS, "toJSON")), largest: 64 },
  limit: option("limit", "undefined"),
  "a tag": {
    set: (client, id, value) => client.setRecurring(id, report, {}, { ...HOURLY, tags: [value] }),
    ...{ accepts: FITTING, largest: 64 },
  },
  "a value of meta": {
    set: (client, id, value) => client.setRecurring(id, report, {}, { ...HOURLY, meta: { a: value } }),
    accepts: [...FITTING, "empty text", "undefined", "too large text"],
  },
  group: {
    set: (client, id, value) => client.syncRecurring(value, [report.recurring(id, {}, HOURLY)]),
    accepts: IDS,
  },
  specs: { set: (client, _id, value) => client.syncRecurring("group", value), accepts: [] },
  "a spec": { set: (client, _id, value) => client.syncRecurring("group", [value]), accepts: [] },
};

for (const [store, open] of Object.entries(STORES)) {
  for (const [name, field] of Object.entries(FIELDS)) {
    test(`${store}: ${name} of a recurring job runs as it is or is refused before anything is written`, async () => {
      const server = await serverOn(open, [report.handler(() => null)]);
      const accepted: string[] = [];
      for (const [index, { name: valueName, make }] of VALUES.entries()) {
        const value = make(field.largest ?? 200);
        const before = await everything(server);
        const refusal = await refusalOf(() => field.set(server.client, `recurring-${index}`, value as never));
        if (refusal === undefined) accepted.push(valueName);
        else assert.deepEqual(await everything(server), before, valueName);
      }
      assert.deepEqual(accepted.sort(), [...field.accepts].sort());
      await assertAllRun(server);
      await server.store.close();
    });
  }
}

/** Each can be triggered, paused, resumed and removed, and none keeps another from that. */
async function assertAllRun(server: TestServer): Promise<void> {
  const { client } = server;
  const ids = (await client.recurring()).map(({ id }) => id);
  for (const id of ids) {
    await client.pauseRecurring(id);
    await client.resumeRecurring(id);
    await client.triggerRecurring(id);
  }
  const ran = await server.drain();
  assert.deepEqual(
    ran.map(({ recurringId, state }) => [recurringId, state]).sort(),
    ids.map((id) => [id, "succeeded"]).sort(),
  );
  for (const id of ids) await client.removeRecurring(id);
  assert.deepEqual(await client.recurring(), []);
}
