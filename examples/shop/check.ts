/** The verdict of `--once`: was each order handled exactly as it should have been? */
import { JOB_STATES, type JobState } from "kiln";
import { listAll } from "../shared/jobs.ts";
import type { Database } from "./database.ts";
import { type Charge, GATEWAY_LIMIT, type GatewayRequest } from "./gateway.ts";
import { ORDER_JOBS } from "./jobs.ts";
import type { Invoice, Order } from "./orders.ts";
import { busiestSecond } from "./second-window.ts";

/** What is known once all is over. */
export interface Evidence {
  readonly orders: readonly Order[];
  /** All jobs that orders have. */
  readonly jobs: readonly OrderJob[];
  readonly invoices: readonly Invoice[];
  /** What the gateway has written down, requests in the order of their arrival. */
  readonly charges: readonly Charge[];
  readonly requests: readonly GatewayRequest[];
}

export interface OrderJob {
  readonly orderId: number;
  readonly kind: string;
  readonly state: JobState;
}

export interface Verdict {
  readonly orders: number;
  /** Orders of which all jobs have succeeded. */
  readonly succeeded: number;
  /** Orders of which a job has failed for good, */
  readonly failed: number;
  /** or, if none has, was deleted. */
  readonly deleted: number;
  /** All other orders: they lack a job, or one has not ended. */
  readonly lost: number;
  /** Orders that were charged more than once. */
  readonly duplicatedCharges: number;
  /** The most requests that reached the gateway in any second. */
  readonly gatewayPeak: number;
  /** All that is not as it should be, in words. */
  readonly problems: readonly string[];
}

export const DEFINITION =
  "an order has succeeded when its payment, e-mail and invoice have, and failed or was deleted when one of these was";

/** Orders that one problem names. */
const EXAMPLES = 5;

export function judge({ orders, jobs, invoices, charges, requests }: Evidence): Verdict {
  const ids = (of: readonly { readonly id: number }[]): number[] => of.map(({ id }) => id);
  const jobsOf = Map.groupBy(jobs, ({ orderId }) => orderId);
  const byEnd = Map.groupBy(orders, ({ id }) => endOf(jobsOf.get(id) ?? []));
  const succeeded = byEnd.get("succeeded") ?? [];
  const lost = byEnd.get("lost") ?? [];
  const known = new Set(ids(orders));
  const chargedTwice = repeated(charges.map(({ order }) => order));
  const refused = requests.filter(({ status }) => status === 429);
  const gatewayPeak = busiestSecond(requests.map(({ at }) => at));

  const problems: string[] = [];
  const refuse = (what: string, bad: readonly number[]): void => {
    const more = bad.length > EXAMPLES ? ", …" : "";
    if (bad.length > 0) problems.push(`${what}: ${bad.slice(0, EXAMPLES).join(", ")}${more}`);
  };
  refuse("orders without three jobs that have ended", ids(lost));
  refuse("orders that were charged more than once", chargedTwice);
  refuse("orders whose payment was refused for its rate", [...new Set(refused.map(({ order }) => order))]);
  if (gatewayPeak > GATEWAY_LIMIT) problems.push(`${gatewayPeak} requests reached the gateway in a second`);
  refuse(
    "jobs of orders that don't exist",
    [...jobsOf.keys()].filter((id) => !known.has(id)),
  );
  refuse("orders that were sent with more than one key", ordersWithManyKeys(requests));
  const chargesOf = Map.groupBy(charges, ({ order }) => order);
  refuse(
    "orders that don't have the gateway's charge",
    ids(orders.filter((order) => !hasCharge(order, chargesOf.get(order.id)?.[0]))),
  );
  refuse("orders that succeeded unpaid", ids(succeeded.filter(({ charge }) => charge === null)));
  const invoiced = invoices.map(({ orderId }) => orderId);
  refuse("orders that have more than one invoice", repeated(invoiced));
  refuse("orders that succeeded without an invoice", without(ids(succeeded), invoiced));
  refuse(
    "numbers that no invoice has",
    without(
      invoices.map((_, index) => index + 1),
      invoices.map((invoice) => invoice.number),
    ),
  );
  return {
    ...{ orders: orders.length, succeeded: succeeded.length, failed: byEnd.get("failed")?.length ?? 0 },
    ...{ deleted: byEnd.get("deleted")?.length ?? 0, lost: lost.length },
    ...{ duplicatedCharges: chargedTwice.length, gatewayPeak, problems },
  };
}

export function verdictLine(verdict: Verdict): string {
  const { orders, succeeded, failed, deleted, lost, duplicatedCharges, gatewayPeak } = verdict;
  const ends = `orders=${orders} succeeded=${succeeded} failed=${failed} deleted=${deleted} lost=${lost}`;
  return `${ends} duplicated_charges=${duplicatedCharges} gateway_peak=${gatewayPeak}`;
}

/** What became of an order with these jobs. */
function endOf(jobs: readonly OrderJob[]): "succeeded" | "failed" | "deleted" | "lost" {
  const states = ORDER_JOBS.map(({ kind }) => jobs.filter((job) => job.kind === kind).map(({ state }) => state));
  if (states.some(({ length }) => length !== 1)) return "lost";
  const ends = states.flat();
  if (ends.includes("failed")) return "failed";
  if (ends.includes("deleted")) return "deleted";
  return ends.every((state) => state === "succeeded") ? "succeeded" : "lost";
}

function hasCharge({ charge, cents }: Order, found: Charge | undefined): boolean {
  return found === undefined ? charge === null : found.id === charge && found.cents === cents;
}

function ordersWithManyKeys(requests: readonly GatewayRequest[]): number[] {
  const byOrder = Map.groupBy(requests, ({ order }) => order);
  return [...byOrder].filter(([, all]) => all.some(({ key }) => key !== all[0]?.key)).map(([order]) => order);
}

/** Each number that is there more than once, once. */
function repeated(numbers: readonly number[]): number[] {
  const seen = new Set<number>();
  return [...new Set(numbers.filter((value) => seen.has(value) || !seen.add(value)))];
}

function without(numbers: readonly number[], others: readonly number[]): number[] {
  const found = new Set(others);
  return numbers.filter((value) => !found.has(value));
}

/** All but what the gateway knows. */
export async function collectEvidence({
  client,
  orders,
}: Database): Promise<Pick<Evidence, "orders" | "jobs" | "invoices">> {
  const jobs: OrderJob[] = [];
  for (const { kind } of ORDER_JOBS) {
    for (const state of JOB_STATES) {
      for await (const { args } of listAll(client, { state, kind })) {
        jobs.push({ orderId: (args as { readonly orderId: number }).orderId, kind, state });
      }
    }
  }
  return { orders: orders.all(), jobs, invoices: orders.invoices() };
}
