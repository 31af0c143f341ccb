/** How an order is placed. */
import { type Client, Flow } from "kiln";
import type { SqliteStore } from "kiln/sqlite";
import { chargePayment, sendMail, writeInvoice } from "./jobs.ts";
import type { NewOrder } from "./orders.ts";

/** Stores an order together with its jobs, all or nothing, and returns its number. */
export function placeOrder(store: SqliteStore, client: Client, { customer, cents }: NewOrder): Promise<number> {
  return store.transaction(async (tx) => {
    const insert = tx.db.prepare("INSERT INTO shop_orders (customer, cents) VALUES (?, ?) RETURNING id");
    const orderId = Number(insert.get(customer, cents)?.["id"]);
    const jobs = new Flow();
    const payment = jobs.add(chargePayment.spec({ orderId }));
    jobs.add(sendMail.spec({ orderId }, { needs: [payment] }));
    jobs.add(writeInvoice.spec({ orderId }, { needs: [payment] }));
    await client.within(tx).enqueueMany(jobs.specs);
    return orderId;
  });
}
