import { z } from "zod";
import type { Client } from "../../../engine/client.ts";
import { defineJob } from "../../../engine/job.ts";
import { assertEnqueued, assertNotEnqueued, runJob, TestServer } from "../../../engine/testing/index.ts";

declare const client: Client;
const order = defineJob("order", { args: z.object({ id: z.number(), at: z.coerce.date<string>() }) });
const report = defineJob<{ from: Date }, { bytes: number }>("report");
const handler = order.handler(() => {});

await runJob(order, { id: 7, at: "x" }); // error: TS2739
await runJob(handler, { id: "7", at: "x" }); // error: TS2322
await runJob(handler, { id: 7 }); // error: TS2741
await runJob(handler); // error: TS2554
await runJob(handler, { id: 7, at: "x" }, { delay: 5 }); // error: TS2353
const ran = await runJob(
  report.handler(() => ({ bytes: 1 })),
  { from: new Date(0) },
);
ran.output?.length; // error: TS2339
ran.state = "failed"; // error: TS2540

await assertEnqueued(client, order, { id: "7" }); // error: TS2322
await assertEnqueued(client, order, { number: 7 }); // error: TS2353
await assertEnqueued(client, order, (job) => job.args.name === ""); // error: TS2339
const found = await assertEnqueued(client, report);
found.args.from.getTime(); // error: TS2339
await assertNotEnqueued(client, "report"); // error: TS2345

new TestServer({}); // error: TS2741
new TestServer({ handlers: [handler], queues: { mail: 1 } }); // error: TS2353
