import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "kiln";
import { ordersDue } from "../../examples/shop/arrivals.ts";
import { collectEvidence, judge, verdictLine } from "../../examples/shop/check.ts";
import { placeOrder } from "../../examples/shop/checkout.ts";
import { type Database, gatewayPath, openDatabase, resetDatabases } from "../../examples/shop/database.ts";
import { readGateway } from "../../examples/shop/gateway.ts";
import { chargePayment, ORDER_JOBS, reportSales } from "../../examples/shop/jobs.ts";
import { charge, GatewayProcess } from "../../examples/shop/payments.ts";
import { readProgress } from "../../examples/shop/progress.ts";
import { makeServer } from "../../examples/shop/server.ts";
import { makeDirectory } from "./support.ts";

const ORDER = { customer: "Ada Lovelace", cents: 1_250 };

async function openShop(t: TestContext): Promise<Database> {
  const database = await openDatabase(join(await makeDirectory(t), "shop.sqlite"));
  t.after(() => database.close());
  return database;
}

async function startGateway(t: TestContext, { path }: Database): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.start(gatewayPath(path));
  t.after(() => gateway.stop());
  return gateway;
}

/** Runs the shop's jobs until all that `isDone` asks for is done. */
async function run(
  database: Database,
  gateway: GatewayProcess,
  isDone = async (): Promise<boolean> => (await readProgress(database, gateway)).idle,
): Promise<void> {
  const worker = await database.storage.addWorker(process.pid);
  const server = makeServer({ database, gateway: gateway.url, worker, onProblem: () => {} });
  const stop = new AbortController();
  const running = server.run({ signal: stop.signal });
  while (!(await isDone())) await sleep(20);
  stop.abort();
  await running;
  await database.storage.noteDeath(worker);
}

async function verdictOf(database: Database): Promise<string> {
  const evidence = { ...(await collectEvidence(database)), ...readGateway(gatewayPath(database.path)) };
  const verdict = judge(evidence);
  return [verdictLine(verdict), ...verdict.problems].join("\n");
}

test("an order and its jobs are stored together, and its e-mail and invoice wait for its payment", async (t) => {
  const { store, client, orders } = await openShop(t);
  assert.equal(await placeOrder(store, client, ORDER), 1);
  assert.deepEqual(orders.all(), [{ ...ORDER, id: 1, charge: null }]);
  const [payment] = (await client.list({ state: "throttled" })).jobs;
  assert.equal(payment?.kind, chargePayment.kind);
  const waiting = (await client.list({ state: "awaiting" })).jobs;
  assert.deepEqual(waiting.map(({ kind }) => kind).sort(), ["send_mail", "write_invoice"]);
  for (const { parents } of waiting) assert.deepEqual(parents, [payment.id]);
});

test("an order whose jobs can't be enqueued is not stored", async (t) => {
  const { store, client, orders } = await openShop(t);
  const broken = new Client(store, { interceptors: [() => Promise.reject(new Error("no jobs today"))] });
  await assert.rejects(placeOrder(store, broken, ORDER), /no jobs today/);
  // Refused after its jobs were: the jobs go too.
  const late = new Client(store, {
    interceptors: [
      async (jobs, next) => {
        await next(jobs);
        throw new Error("too late");
      },
    ],
  });
  await assert.rejects(placeOrder(store, late, ORDER), /too late/);
  assert.deepEqual(orders.all(), []);
  assert.equal((await client.counts()).throttled + (await client.counts()).awaiting, 0);
  assert.equal(await placeOrder(store, client, ORDER), 1);
});

test("a payment that was charged by an attempt that did not live to tell is charged once", async (t) => {
  const database = await openShop(t);
  const { store, client, orders } = database;
  const gateway = await startGateway(t, database);
  const signal = new AbortController().signal;
  const ids = [await placeOrder(store, client, ORDER), await placeOrder(store, client, ORDER)];
  const request = { key: "order-1", order: 1, cents: ORDER.cents };
  let first: number | undefined;
  while (first === undefined) first = await charge(gateway.url, request, signal).catch(() => undefined);

  await run(database, gateway);
  await gateway.stop();

  const { charges } = readGateway(gatewayPath(database.path));
  assert.equal(orders.get(1).charge, first);
  assert.deepEqual(
    charges.map(({ order }) => order),
    ids,
  );
  assert.match(await verdictOf(database), /^orders=2 succeeded=2 failed=0 deleted=0 lost=0 duplicated_charges=0 .*\d$/);
});

test("jobs that are run again after they have succeeded do nothing twice", async (t) => {
  const database = await openShop(t);
  const { store, client, orders } = database;
  const gateway = await startGateway(t, database);
  await placeOrder(store, client, ORDER);
  await run(database, gateway);
  const before = { orders: orders.all(), invoices: orders.invoices(), mails: orders.mailCount() };
  const requests = (): number => readGateway(gatewayPath(database.path)).requests.length;
  const asked = requests();
  for (const { kind } of ORDER_JOBS) assert.equal(await client.requeue({ state: "succeeded", kind }), 1);
  await run(database, gateway);
  assert.deepEqual({ orders: orders.all(), invoices: orders.invoices(), mails: orders.mailCount() }, before);
  assert.equal(requests(), asked, "its checkpoint spares the gateway a question");
  assert.deepEqual(before.invoices, [{ number: 1, orderId: 1 }]);
  assert.equal(before.mails, 1);
  await gateway.stop();
  assert.doesNotMatch(await verdictOf(database), /\n/);
});

test("the report counts orders and what was taken", async (t) => {
  const database = await openShop(t);
  const { store, client, orders } = database;
  const gateway = await startGateway(t, database);
  await placeOrder(store, client, ORDER);
  await run(database, gateway);
  await placeOrder(store, client, ORDER);
  await client.pauseQueue("payments");
  await client.setRecurring("sales", reportSales, {}, { cron: "0 0 1 1 *" });
  const id = await client.triggerRecurring("sales");
  await run(database, gateway, async () => (await client.get(id))?.state === "succeeded");
  const { at, ...report } = orders.lastReport() ?? assert.fail("there is no report");
  assert.deepEqual(report, { orders: 2, paid: 1, cents: ORDER.cents });
  assert.ok(Math.abs(at.getTime() - Date.now()) < 60_000);
  await gateway.stop();
});

test("orders come in at five a second, and from time to time many at once", () => {
  assert.deepEqual([0, 199, 200, 1_000, 19_999, 20_000, 40_000].map(ordersDue), [0, 0, 1, 5, 99, 140, 280]);
});

test("--reset removes the shop's database and the gateway's", async (t) => {
  const path = join(await makeDirectory(t), "shop.sqlite");
  const database = await openDatabase(path);
  const gateway = await startGateway(t, database);
  await placeOrder(database.store, database.client, ORDER);
  await run(database, gateway);
  await gateway.stop();
  await database.close();
  await resetDatabases(path);
  const fresh = await openDatabase(path);
  t.after(() => fresh.close());
  assert.deepEqual(fresh.orders.all(), []);
  await (await startGateway(t, fresh)).stop();
  assert.deepEqual(readGateway(gatewayPath(path)), { charges: [], requests: [] });
});
