/** Programs that must compile. `tsc -p .` checks them; the wrong ones are in `wrong/`. */
import type { DatabaseSync } from "node:sqlite";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { z } from "zod";
import { Batch } from "../../engine/batch.ts";
import type { Client, EnqueueInterceptor, Enqueuer, JobView, RecurringView } from "../../engine/client.ts";
import { Flow } from "../../engine/flow.ts";
import {
  defineJob,
  type Handler,
  type HandlerInterceptor,
  type JobDefinition,
  type JobSpec,
  type RecurringSpec,
} from "../../engine/job.ts";
import type { Decoded } from "../../engine/json.ts";
import type { Logger } from "../../engine/logger.ts";
import { type Backoff, constant, delays, exponential, snooze } from "../../engine/retry.ts";
import type {
  BatchId,
  BatchRecord,
  ConsoleLine,
  InsertedJob,
  JobId,
  Store,
  TransactionWriter,
  Writer,
} from "../../engine/store.ts";
import type { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { assertEnqueued, assertNotEnqueued, runJob, TestServer } from "../../engine/testing/index.ts";

/** Compiles only if both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Same<A, B>): void {}

declare const client: Client;
declare const store: Store;
declare const sqlite: SqliteStore;
declare const db: DatabaseSync;

// With a schema: input at enqueue, output in the handler.
const Order = z.object({ id: z.number(), note: z.string().default(""), at: z.coerce.date<string>() });
const order = defineJob("order", { args: Order, queue: "orders", title: ({ id }) => `Order ${id}` });
same<
  typeof order,
  JobDefinition<{ id: number; note?: string | undefined; at: string }, { id: number; note: string; at: Date }, unknown>
>(true);

export const handlers: Handler[] = [
  order.handler(async (job, { signal, client: more, logger }) => {
    same<typeof job.args, { id: number; note: string; at: Date }>(true);
    same<typeof signal, AbortSignal>(true);
    same<typeof more, Client>(true);
    same<typeof logger, Logger>(true);
    const row = job.param<number>("row");
    same<typeof row, number | undefined>(true);
    const unknown = job.param("row");
    same<typeof unknown, unknown>(true);
    await job.setParam("row", (row ?? 0) + 1);
    await store.transaction((tx) => job.setParam("row", 1, { within: tx }));
    job.heartbeat();
    if (signal.aborted) throw snooze("5s");
    return { done: true };
  }),
  order.handler(() => {}),
];

// By types alone: args as they come back from JSON, and an output.
interface Report {
  readonly from: Date;
  readonly pages: readonly { readonly number: number; readonly title?: string }[];
  readonly kind: "daily" | "monthly";
  readonly total: number | null;
}
const report = defineJob<Report, { bytes: number }>("report", { timeout: false, stallTimeout: "30s" });
handlers.push(
  report.handler(async ({ args }) => {
    same<typeof args.from, string>(true);
    same<(typeof args.pages)[0]["title"], string | undefined>(true);
    same<typeof args.kind, "daily" | "monthly">(true);
    same<typeof args.total, number | null>(true);
    return { bytes: args.pages.length };
  }),
  report.handler(({ args }) => ({ bytes: args.pages.length })),
);
same<
  Decoded<{ a: bigint; b: () => void; c: unknown; d: [Date, 1] }>,
  { a: never; b: never; c: unknown; d: [string, 1] }
>(true);

// Output beside a schema.
const counted = defineJob<typeof Order, number>("counted", { args: Order });
handlers.push(counted.handler(({ args }) => args.id));

// Without args.
const cleanup = defineJob("cleanup");
handlers.push(
  cleanup.handler((job) => {
    same<ReturnType<typeof job.log>, void>(true);
    job.log("begun");
    job.progress(5);
  }),
);

export async function recur(): Promise<void> {
  await client.setRecurring(
    "a",
    order,
    { id: 7, at: "x" },
    { cron: "0 3 * * *", timeZone: "Europe/London", tags: ["a"] },
  );
  const specs: RecurringSpec[] = [
    cleanup.recurring("b", {}, { cron: "@every 90s", misfire: "skip", overlap: false }),
    order.recurring("c", { id: 7, at: "x" }, { cron: "@daily" }),
  ];
  await client.syncRecurring("app", specs);
  const [view] = await client.recurring();
  same<typeof view, RecurringView | undefined>(true);
  const id = await client.triggerRecurring("a");
  same<typeof id, JobId>(true);
}

export async function enqueue(): Promise<void> {
  const id = await client.enqueue(order, { id: 7, at: "2026-01-01" });
  same<typeof id, JobId>(true);
  await client.enqueue(cleanup, {}, { delay: "10m", priority: 5, tags: ["a"], meta: { a: "b" } });
  await client.enqueue(
    report,
    { from: new Date(0), pages: [{ number: 1 }], kind: "daily", total: null },
    { runAt: new Date(0) },
  );
  const specs: JobSpec[] = [
    order.spec({ id: 7, at: "x" }),
    cleanup.spec({}, { timeout: false, deadline: new Date(0) }),
  ];
  const flow = new Flow();
  const first = flow.add(order.spec({ id: 7, at: "x" }, { after: 5, unique: true }));
  same<typeof first, number>(true);
  flow.add(cleanup.spec({}, { needs: [first], afterFinished: [1, 2] }));
  await client.enqueueMany(flow.specs);
  const inserted = await client.enqueueMany(specs);
  same<typeof inserted, InsertedJob[]>(true);
}

export async function batches(): Promise<void> {
  const batch = new Batch({ description: "orders", meta: { a: "b" }, parent: 5 });
  const first = batch.add(order.spec({ id: 7, at: "x" }));
  same<typeof first, number>(true);
  batch.add(cleanup.spec({}, { needs: [first], afterBatch: 4 }));
  batch.nest(new Batch());
  batch.continueWith(cleanup.spec({}));
  const id = await client.startBatch(batch);
  same<typeof id, BatchId>(true);
  await client.enqueue(cleanup, {}, { batch: await client.openBatch(batch), afterBatch: id });
  await client.sealBatch(id);
  const record = await client.batch(id);
  same<typeof record, BatchRecord | null>(true);
  const page = await client.batches({ parent: id, limit: 5 });
  same<(typeof page)["batches"][number], BatchRecord>(true);
  await client.requeue({ state: "failed", batch: id, recurringId: "a" });
}

export async function look(): Promise<void> {
  const job = await client.get(1);
  same<typeof job, JobView | null>(true);
  const { jobs, next } = await client.list({ state: "failed", queue: "orders", limit: 10 });
  same<(typeof jobs)[number], JobView>(true);
  same<typeof next, string | null>(true);
  await client.delete(1);
  await client.delete([1, 2]);
  await client.requeue({ state: "failed", kind: "order" });
  same<JobView["progress"], number | null>(true);
  const lines = await client.console(1, { after: 5, limit: 500 });
  same<(typeof lines)[number], ConsoleLine>(true);
  await client.series({ from: new Date(0), to: new Date(1), step: "1h" });
}

// Any schema that speaks the standard.
declare const schema: StandardSchemaV1<{ a: string }, { a: number }>;
const standard = defineJob("standard", { args: schema, backoff: exponential("2s", "2m") });
same<typeof standard, JobDefinition<{ a: string }, { a: number }, unknown>>(true);

// A function that takes any definition.
export function enqueueTwice<Input, Args, Output>(
  definition: JobDefinition<Input, Args, Output>,
  args: Input,
): Promise<unknown> {
  return client.enqueueMany([definition.spec(args), definition.spec(args)]);
}

export const backoffs: Backoff[] = [
  constant(5),
  delays("1s", 2),
  (attempt, error, random) => (error ? random() : attempt),
];
export const around: HandlerInterceptor = async (job, _context, next) => (job.kind === "order" ? next() : undefined);
export const aroundInsert: EnqueueInterceptor = (jobs, next) => next(jobs.map((job) => ({ ...job, queue: "other" })));
export const logger: Logger = console;

// The testing kit.
export async function tested(): Promise<void> {
  const reportJob = defineJob<{ from: Date }, { bytes: number; at: Date }>("tested");
  const handler = reportJob.handler(({ args }) => ({ bytes: args.from.length, at: new Date(0) }));
  const { output, error } = await runJob(handler, { from: new Date(0) }, { attempt: 2, tags: ["a"] });
  same<typeof output, { bytes: number; at: string } | undefined>(true);
  same<typeof error, unknown>(true);
  const job = await assertEnqueued(client, reportJob, { from: new Date(0) });
  same<typeof job.args, { from: string }>(true);
  await assertNotEnqueued(client, reportJob, ({ args }) => args.from === "");
  const jobs = await new TestServer({ handlers: [handler] }).drain({ limit: "1h" });
  same<(typeof jobs)[number]["attempts"][number]["error"], string | null>(true);
}

// Within a transaction: the store's own writer, SQLite's with its database, and one for a transaction of the application's.
const placed = await store.transaction(async (tx) => {
  same<typeof tx, Writer>(true);
  same<BatchId, Awaited<ReturnType<Enqueuer["startBatch"]>>>(true);
  await client.within(tx).sealBatch(await client.within(tx).openBatch(new Batch()));
  return client.within(tx).enqueue(order, { id: 7, at: "x" });
});
same<typeof placed, JobId>(true);
const total = await sqlite.transaction(async (tx) => {
  same<typeof tx.db, DatabaseSync>(true);
  await client.within(tx).enqueueMany([order.spec({ id: 7, at: "x" })]);
  return 7;
});
same<typeof total, number>(true);
same<void, Awaited<ReturnType<typeof sqlite.transaction<void>>>>(true);
const own = sqlite.within(db);
same<typeof own, TransactionWriter>(true);
await client.within(own).enqueue(order, { id: 7, at: "x" });
own.notify();
