import { z } from "zod";
import { Batch } from "../../../engine/batch.ts";
import type { Client } from "../../../engine/client.ts";
import { defineJob } from "../../../engine/job.ts";
import type { Store } from "../../../engine/store.ts";

declare const client: Client;
declare const store: Store;
const order = defineJob("order", { args: z.object({ id: z.number(), at: z.coerce.date<string>() }) });
const mail = defineJob<{ to: string; cc?: string }>("mail");
const cleanup = defineJob("cleanup");

await client.enqueue(order, { id: "7", at: "x" }); // error: TS2322
await client.enqueue(order, { id: 7 }); // error: TS2741
await client.enqueue(order, { id: 7, at: new Date(0) }); // error: TS2322
await client.enqueue(order, { id: 7, at: "x", more: 1 }); // error: TS2353
await client.enqueue(order); // error: TS2554
await client.enqueue(mail, { to: 5 }); // error: TS2322
await client.enqueue(mail, { to: "a", bcc: "b" }); // error: TS2353
await client.enqueue(mail, { to: "a", cc: null }); // error: TS2322
await client.enqueue(mail, "a"); // error: TS2345
await client.enqueue(cleanup, { all: true }); // error: TS2322
await client.enqueue("mail", { to: "a" }); // error: TS2345
await client.enqueue({ kind: "mail" }, { to: "a" }); // error: TS2740

await client.enqueue(mail, { to: "a" }, { priority: "high" }); // error: TS2322
await client.enqueue(mail, { to: "a" }, { delay: new Date(0) }); // error: TS2322
await client.enqueue(mail, { to: "a" }, { runAt: "tomorrow" }); // error: TS2322
await client.enqueue(mail, { to: "a" }, { timeout: true }); // error: TS2322
await client.enqueue(mail, { to: "a" }, { meta: { a: 1 } }); // error: TS2322
await client.enqueue(mail, { to: "a" }, { tags: "urgent" }); // error: TS2322
await client.enqueue(mail, { to: "a" }, { maxAttemps: 5 }); // error: TS2561

await client.enqueue(mail, { to: "a" }, { unique: false }); // error: TS2322
await client.enqueue(mail, { to: "a" }, { unique: { debounce: true } }); // error: TS2322

await client.enqueue(mail, { to: "a" }, { after: "7" }); // error: TS2322
await client.enqueue(mail, { to: "a" }, { needs: [0] }); // error: TS2353
mail.spec({ to: "a" }, { needs: 0 }); // error: TS2322

await client.enqueueMany([{ definition: mail, args: { to: 5 }, options: undefined }]); // error: TS2741
await client.enqueueMany([mail.spec({ to: 5 })]); // error: TS2322
await client.enqueueMany(mail.spec({ to: "a" })); // error: TS2740

new Batch({ title: "a" }); // error: TS2353
new Batch().add(mail); // error: TS2739
new Batch().nest(mail.spec({ to: "a" })); // error: TS2740
await client.startBatch({ description: "a" }); // error: TS2353
await client.startBatch([mail.spec({ to: "a" })]); // error: TS2740
await client.enqueue(mail, { to: "a" }, { batch: new Batch() }); // error: TS2322
await client.setRecurring("a", mail, { to: "a" }, { cron: "@daily", batch: 1 }); // error: TS2353
await client.get("7"); // error: TS2345
await client.list({}); // error: TS2741
await client.list({ state: "done" }); // error: TS2322
await client.list({ state: "failed", sort: "id" }); // error: TS2353
await client.delete("7"); // error: TS2345
await client.delete({ state: "failed", tag: "a" }); // error: TS2353
await client.requeue(["7"]); // error: TS2322
await client.series({ from: new Date(0), to: new Date(1) }); // error: TS2741
await client.setRecurring("a", mail, { to: 5 }, { cron: "@daily" }); // error: TS2322
await client.setRecurring("a", mail, { to: "a" }, { timeZone: "UTC" }); // error: TS2741
await client.setRecurring("a", mail, { to: "a" }, { cron: "@daily", delay: "1s" }); // error: TS2353
await client.setRecurring("a", mail, { to: "a" }, { cron: "@daily", misfire: "never" }); // error: TS2322
await client.syncRecurring("app", [mail.spec({ to: "a" })]); // error: TS2739
mail.recurring("a", { to: 5 }, { cron: "@daily" }); // error: TS2322
(await client.get(1)).kind; // error: TS2531

await client.within({}).enqueue(mail, { to: "a" }); // error: TS2739
await store.transaction((tx) => client.within(tx).enqueue(mail, { to: 5 })); // error: TS2322
await store.transaction((tx) => tx.db.exec("")); // error: TS2339
await store.transaction((tx) => tx.claim()); // error: TS2339
