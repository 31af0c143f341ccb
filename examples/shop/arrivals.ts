/** Orders that come in by themselves. */
import type { NewOrder } from "./orders.ts";

const PER_SECOND = 5;
/** From time to time there are more than the gateway takes at once, so that payments have to wait for their limit. */
const RUSH = { every: 20, orders: 40 } as const;

/** How many orders have come in `elapsed` milliseconds after the start. */
export function ordersDue(elapsed: number): number {
  const seconds = elapsed / 1_000;
  return Math.floor(seconds * PER_SECOND) + Math.floor(seconds / RUSH.every) * RUSH.orders;
}

const CUSTOMERS = ["Ada Lovelace", "Grace Hopper", "Mei Tanaka", "Emma Müller", "João Silva", "Zoë Berg"] as const;

export function randomOrder(): NewOrder {
  const customer = CUSTOMERS[Math.floor(Math.random() * CUSTOMERS.length)] ?? CUSTOMERS[0];
  return { customer, cents: 500 + Math.floor(Math.random() * 20_000) };
}
