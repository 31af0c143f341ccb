import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { JobState } from "kiln";
import { type Evidence, judge, type OrderJob, verdictLine } from "../../examples/shop/check.ts";
import type { Charge, GatewayRequest } from "../../examples/shop/gateway.ts";
import { ORDER_JOBS } from "../../examples/shop/jobs.ts";

const order = (id: number, charge: number | null = 10 + id) => ({ id, customer: "Ada Lovelace", cents: 100, charge });
const charge = (of: number, key = `order-${of}`): Charge => ({ id: 10 + of, key, order: of, cents: 100 });
const request = (of: number, at = 1_000 * of, status = 200): GatewayRequest => {
  return { at, key: `order-${of}`, order: of, status };
};
/** Payment, e-mail and invoice. */
const jobs = (orderId: number, ...states: JobState[]): OrderJob[] =>
  ORDER_JOBS.map(({ kind }, index) => ({ orderId, kind, state: states[index] ?? "succeeded" }));

const GOOD: Evidence = {
  orders: [order(1), order(2), order(3, null), order(4, null)],
  jobs: [
    ...jobs(1),
    ...jobs(2),
    ...jobs(3, "failed", "awaiting", "awaiting"),
    ...jobs(4, "deleted", "deleted", "deleted"),
  ],
  invoices: [
    { number: 1, orderId: 2 },
    { number: 2, orderId: 1 },
  ],
  charges: [charge(1), charge(2)],
  // Order 1 was tried twice.
  requests: [request(1, 500, 500), request(1), request(2), request(3, 3_000, 500)],
};

test("a shop in which all went as it should, although one payment has failed and one was deleted", () => {
  const verdict = judge(GOOD);
  assert.deepEqual(verdict.problems, []);
  assert.equal(
    verdictLine(verdict),
    "orders=4 succeeded=2 failed=1 deleted=1 lost=0 duplicated_charges=0 gateway_peak=2",
  );
});

test("a shop without orders", () => {
  const verdict = judge({ orders: [], jobs: [], invoices: [], charges: [], requests: [] });
  assert.deepEqual(verdict.problems, []);
  assert.match(verdictLine(verdict), /^orders=0 succeeded=0 .* gateway_peak=0$/);
});

describe("what is found", () => {
  const burst = Array.from({ length: 21 }, (_, index) => request(2, 5_000 + index * 50));
  const cases: Readonly<Record<string, readonly [Partial<Evidence>, string, string]>> = {
    "an order without jobs": [
      { orders: [...GOOD.orders, order(5, null)] },
      "lost=1",
      "orders without three jobs that have ended: 5",
    ],
    "an order without one of its jobs": [
      { jobs: GOOD.jobs.filter(({ orderId, kind }) => orderId !== 2 || kind !== "send_mail") },
      "lost=1",
      "orders without three jobs that have ended: 2",
    ],
    "an order with a job too many": [
      { jobs: [...GOOD.jobs, ...jobs(2)] },
      "lost=1",
      "orders without three jobs that have ended: 2",
    ],
    "a job that has not ended": [
      { jobs: [...GOOD.jobs.filter(({ orderId }) => orderId !== 1), ...jobs(1, "succeeded", "processing")] },
      "lost=1",
      "orders without three jobs that have ended: 1",
    ],
    "jobs without their order": [
      { jobs: [...GOOD.jobs, ...jobs(9)] },
      "orders=4",
      "jobs of orders that don't exist: 9",
    ],
    "an order that was charged twice": [
      { charges: [...GOOD.charges, { ...charge(1, "other"), id: 99 }] },
      "duplicated_charges=1",
      "orders that were charged more than once: 1",
    ],
    "an order that was sent with two keys": [
      { requests: [...GOOD.requests, { ...request(2, 9_000, 500), key: "other" }] },
      "duplicated_charges=0",
      "orders that were sent with more than one key: 2",
    ],
    "a payment that was refused for its rate": [
      { requests: [...GOOD.requests, request(2, 9_000, 429)] },
      "gateway_peak=2",
      "orders whose payment was refused for its rate: 2",
    ],
    "too many requests in a second": [
      { requests: [...GOOD.requests, ...burst] },
      "gateway_peak=21",
      "21 requests reached the gateway in a second",
    ],
    "a payment that the gateway does not know": [
      { charges: [charge(1)] },
      "succeeded=2",
      "orders that don't have the gateway's charge: 2",
    ],
    "a payment that the shop does not know": [
      { charges: [...GOOD.charges, charge(3)] },
      "failed=1",
      "orders that don't have the gateway's charge: 3",
    ],
    "a payment of another amount": [
      { charges: [charge(1), { ...charge(2), cents: 99 }] },
      "succeeded=2",
      "orders that don't have the gateway's charge: 2",
    ],
    "an order that succeeded unpaid": [
      { orders: [order(1), order(2, null), order(3, null), order(4, null)], charges: [charge(1)] },
      "succeeded=2",
      "orders that succeeded unpaid: 2",
    ],
    "an invoice that is missing": [
      { invoices: [{ number: 1, orderId: 1 }] },
      "succeeded=2",
      "orders that succeeded without an invoice: 2",
    ],
    "two invoices of an order": [
      { invoices: [...GOOD.invoices, { number: 3, orderId: 1 }] },
      "succeeded=2",
      "orders that have more than one invoice: 1",
    ],
    "a gap in the numbers of the invoices": [
      {
        invoices: [
          { number: 1, orderId: 1 },
          { number: 3, orderId: 2 },
        ],
      },
      "succeeded=2",
      "numbers that no invoice has: 2",
    ],
  };
  for (const [what, [change, part, problem]] of Object.entries(cases)) {
    test(what, () => {
      const verdict = judge({ ...GOOD, ...change });
      assert.deepEqual(verdict.problems, [problem]);
      assert.ok(verdictLine(verdict).split(" ").includes(part), verdictLine(verdict));
    });
  }
});
