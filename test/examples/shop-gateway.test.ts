import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { PermanentError } from "kiln";
import { GATEWAY_LIMIT, Gateway, readGateway } from "../../examples/shop/gateway.ts";
import { charge, GatewayProcess } from "../../examples/shop/payments.ts";
import { busiestSecond, SecondWindow } from "../../examples/shop/second-window.ts";
import { makeDirectory } from "./support.ts";

/** How many of the arrivals are in the closed second that ends at `at`. */
function inSecondBefore(arrivals: readonly number[], at: number): number {
  return arrivals.filter((other) => other >= at - 1_000 && other <= at).length;
}

test("a second is counted as it is, with both of its ends", () => {
  // Often exactly a second apart, or at the same time.
  const gap = fc.oneof(fc.constantFrom(0, 1, 500, 999, 1_000, 1_001), fc.double({ min: 0, max: 2_500, noNaN: true }));
  fc.assert(
    fc.property(fc.array(gap, { maxLength: 60 }), fc.constantFrom(0, 1_796_000_000_000), (gaps, start) => {
      let now = start;
      const arrivals = gaps.map((wait) => (now += wait));
      const window = new SecondWindow();
      for (const [index, at] of arrivals.entries()) {
        assert.equal(window.add(at), inSecondBefore(arrivals.slice(0, index + 1), at));
      }
      const busiest = Math.max(0, ...arrivals.map((at) => inSecondBefore(arrivals, at)));
      assert.equal(window.busiest, busiest);
      assert.equal(busiestSecond(arrivals), busiest);
    }),
  );
});

async function openGateway(t: TestContext): Promise<{ readonly gateway: Gateway; readonly path: string }> {
  const path = join(await makeDirectory(t), "gateway.sqlite");
  const gateway = new Gateway(path);
  t.after(() => gateway.close());
  return { gateway, path };
}

test("the gateway takes 20 requests in any second, and counts those that it refuses too", async (t) => {
  const { gateway, path } = await openGateway(t);
  const statuses = Array.from({ length: 21 }, (_, order) => {
    return gateway.reply({ key: `order-${order}`, order, cents: 100 }, order, gateway.admit(order)).status;
  });
  assert.ok(!statuses.slice(0, GATEWAY_LIMIT).includes(429));
  assert.equal(statuses[GATEWAY_LIMIT], 429);
  // The first request was a second ago, which still counts; then it does not.
  assert.deepEqual([gateway.admit(1_000), gateway.admit(1_001.5), gateway.admit(1_002.5)], [false, false, false]);
  assert.equal(gateway.admit(2_030), true);
  assert.equal(gateway.statistics().busiestSecond, 22);
  assert.equal(gateway.statistics().refused, 4);
  assert.ok(!readGateway(path).charges.some(({ order }) => order === GATEWAY_LIMIT));
});

test("the gateway fails 15 % of the requests, half of them after it has charged, and charges once for a key", async (t) => {
  const { gateway, path } = await openGateway(t);
  const orders = Array.from({ length: 1_000 }, (_, index) => index + 1);
  const ask = (order: number) => gateway.reply({ key: `order-${order}`, order, cents: 100 }, 0, true);
  const failed = orders.filter((order) => ask(order).status === 500);
  const charged = new Set(readGateway(path).charges.map(({ order }) => order));
  const failedCharged = failed.filter((order) => charged.has(order)).length;
  assert.ok(failed.length > 120 && failed.length < 180, `${failed.length} failed`);
  assert.ok(failedCharged > 50 && failedCharged < 100, `${failedCharged} of them were charged`);
  assert.equal(charged.size, orders.length - failed.length + failedCharged);

  // Until each has had its answer.
  for (const order of orders) while (ask(order).status === 500);
  const { charges } = readGateway(path);
  assert.deepEqual(
    charges.map(({ order }) => order).sort((a, b) => a - b),
    orders,
  );
  assert.deepEqual(
    charges.map(({ id, order }) => ({ status: 200, charge: id, order })),
    charges.map(({ order }) => {
      let reply = ask(order);
      while (reply.status === 500) reply = ask(order);
      return { ...reply, order };
    }),
  );
});

test("a key that was for something else is refused; another key charges again", async (t) => {
  const { gateway, path } = await openGateway(t);
  const ask = (key: string, order: number, cents: number): number => {
    let status: number;
    do status = gateway.reply({ key, order, cents }, 0, true).status;
    while (status === 500);
    return status;
  };
  assert.deepEqual([ask("a", 1, 100), ask("a", 1, 200), ask("a", 2, 100), ask("b", 1, 100)], [200, 422, 422, 200]);
  assert.deepEqual(
    readGateway(path).charges.map(({ key, order }) => [key, order]),
    [
      ["a", 1],
      ["b", 1],
    ],
  );
});

test("over HTTP: what is refused is what was too much, by the gateway's own clock", async (t) => {
  const path = join(await makeDirectory(t), "gateway.sqlite");
  const gateway = await GatewayProcess.start(path);
  const signal = new AbortController().signal;
  const orders = Array.from({ length: 40 }, (_, index) => index + 1);
  const answers = await Promise.allSettled(
    orders.map((order) => charge(gateway.url, { key: `order-${order}`, order, cents: 100 }, signal)),
  );
  while (gateway.statistics.requests < orders.length) await sleep(5);
  const { statistics } = gateway;
  await gateway.stop();

  const { requests } = readGateway(path);
  const times = requests.map(({ at }) => at);
  assert.equal(requests.length, orders.length);
  for (const [index, { status }] of requests.entries()) {
    const count = inSecondBefore(times.slice(0, index + 1), times[index] ?? 0);
    assert.equal(status === 429, count > GATEWAY_LIMIT);
  }
  assert.equal(statistics.busiestSecond, busiestSecond(times));
  for (const [index, answer] of answers.entries()) {
    const status = requests.find(({ order }) => order === orders[index])?.status;
    assert.equal(answer.status === "fulfilled", status === 200);
    // To be tried again.
    if (answer.status === "rejected") assert.ok(!(answer.reason instanceof PermanentError));
  }
  const started = new Date(times[0] ?? 0);
  assert.ok(Math.abs(Date.now() - started.getTime()) < 60_000, "arrivals are stamped with the time of day");
});
