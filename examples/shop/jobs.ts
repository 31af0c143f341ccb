/**
 * The shop's kinds of jobs. kiln runs a job at least once: a process that is killed while it runs one leaves it to another,
 * which begins it again. So each handler asks first what an earlier attempt has done.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { defineJob, exponential, type Handler } from "kiln";
import type { SqliteStore } from "kiln/sqlite";
import { z } from "zod";
import { type Orders, readTotals } from "./orders.ts";
import { charge } from "./payments.ts";

export const PAYMENTS = "payments";
export const PAPERWORK = "paperwork";
export const REPORTS = "reports";

const BACKOFF = exponential("200ms", "2s");
const OrderArgs = z.object({ orderId: z.int() });

export const chargePayment = defineJob("charge_payment", {
  queue: PAYMENTS,
  args: OrderArgs,
  title: ({ orderId }) => `payment of order ${orderId}`,
  // The gateway takes 20 requests in any second. At most rate + burst = 18 start in one; however slow machine and network are,
  // those that started before and arrive late were still running then, and are at most max = 2.
  limit: { key: "gateway", rate: 14, per: "1s", burst: 4, max: 2 },
  timeout: "10s",
  maxAttempts: 15,
  backoff: BACKOFF,
});

export const sendMail = defineJob("send_mail", {
  queue: PAPERWORK,
  args: OrderArgs,
  title: ({ orderId }) => `e-mail about order ${orderId}`,
  timeout: "10s",
  backoff: BACKOFF,
});

export const writeInvoice = defineJob("write_invoice", {
  queue: PAPERWORK,
  args: OrderArgs,
  title: ({ orderId }) => `invoice of order ${orderId}`,
  timeout: "10s",
  backoff: BACKOFF,
});

/** The jobs that every order has. */
export const ORDER_JOBS = [chargePayment, sendMail, writeInvoice] as const;

export const reportSales = defineJob("report_sales", { queue: REPORTS, backoff: BACKOFF });

export interface Tools {
  readonly store: SqliteStore;
  readonly orders: Orders;
  /** Address of the payment gateway. */
  readonly gateway: string;
}

export function handlers({ store, orders, gateway }: Tools): Handler[] {
  return [
    chargePayment.handler(async (job, { signal }) => {
      const { orderId } = job.args;
      const known = job.param<number>("charge");
      if (known !== undefined) return known;
      const { cents } = orders.get(orderId);
      // Every attempt sends the same key, so that one that comes after a kill gets the charge that was made before it.
      const number = await charge(gateway, { key: `order-${orderId}`, order: orderId, cents }, signal);
      await store.transaction(async (tx) => {
        tx.db.prepare("UPDATE shop_orders SET charge = ? WHERE id = ?").run(number, orderId);
        // In the same transaction: both are stored or neither, and neither by an attempt that has lost its job.
        await job.setParam("charge", number, { within: tx });
      });
      return number;
    }),

    sendMail.handler(async (job, { signal }) => {
      const { orderId } = job.args;
      if (job.param("sent") === true) return;
      const { customer } = orders.get(orderId);
      const [payment] = (await job.parentOutputs()).values();
      const text = `Dear ${customer}, order ${orderId} is paid (charge ${payment}) and on its way to you.`;
      await deliver(orderId, job.attempt, signal);
      // A mail server knows no idempotency keys: whoever is killed right here sends a second e-mail.
      await store.transaction(async (tx) => {
        tx.db.prepare("INSERT INTO shop_mails (order_id, text) VALUES (?, ?)").run(orderId, text);
        await job.setParam("sent", true, { within: tx });
      });
    }),

    writeInvoice.handler(async (job) => {
      if (job.param("invoice") !== undefined) return;
      // Numbers of invoices must have no gaps: a transaction that fails gives its number back.
      await store.transaction(async (tx) => {
        const insert = tx.db.prepare("INSERT INTO shop_invoices (order_id) VALUES (?) RETURNING number");
        const row = insert.get(job.args.orderId);
        await job.setParam("invoice", Number(row?.["number"]), { within: tx });
      });
    }),

    reportSales.handler(async (job) => {
      const { at } = job.occurrence ?? { at: job.runAt };
      await store.transaction((tx) => {
        const { orders, paid, cents } = readTotals(tx.db);
        const insert = "INSERT OR REPLACE INTO shop_reports (at, orders, paid, cents) VALUES (?, ?, ?, ?)";
        tx.db.prepare(insert).run(at.getTime(), orders, paid, cents);
      });
    }),
  ];
}

/** Stands for a mail server, which takes 10 to 40 ms; each twentieth order has to try twice. */
async function deliver(orderId: number, attempt: number, signal: AbortSignal): Promise<void> {
  await sleep(10 + Math.random() * 30, undefined, { signal });
  if (orderId % 20 === 0 && attempt === 1) throw new Error("the mail server did not answer (simulated)");
}
