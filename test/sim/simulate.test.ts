import { strict as assert } from "node:assert";
import { test } from "node:test";
import { defineJob } from "kiln";
import { type SimContext, SimulationError, simulate } from "kiln/sim";

const charge = defineJob<{ order: number }>("charge");

interface Gateway {
  readonly charges: number[];
  readonly keys: Set<number>;
}

const orders = [1, 2, 3, 4, 5];
const gateway = (): Gateway => ({ charges: [], keys: new Set() });
const chargedOnce = ({ charges }: Gateway): void => {
  for (const order of orders) {
    const times = charges.filter((charged) => charged === order).length;
    if (times !== 1) throw new Error(`order ${order} was charged ${times} times`);
  }
};
const placed = async ({ client }: { readonly client: import("kiln").Client }): Promise<void> => {
  for (const order of orders) await client.enqueue(charge, { order });
};

test("a charge that is made again when its worker dies before the checkpoint is found", async () => {
  const simulation = simulate<Gateway>({
    state: gateway,
    handlers: ({ state, sleep, note }) => [
      charge.handler(async (job, { signal }) => {
        if (job.param("charged") === true) return;
        await sleep("2s", signal);
        state.charges.push(job.args.order);
        note(`charged order ${job.args.order}`);
        await sleep("1s", signal);
        await job.setParam("charged", true);
      }),
    ],
    workload: placed,
    check: chargedOnce,
    runs: 200,
  });
  await assert.rejects(simulation, (error) => {
    assert.ok(error instanceof SimulationError);
    assert.match(error.message, /^Error: order \d was charged 2 times/);
    assert.match(error.timeline, /charged order \d/);
    assert.equal(error.scenario.faults.length, 1, "one fault is enough for it");
    return true;
  });
});

test("with a key that the gateway knows nobody is charged twice", async () => {
  const report = await simulate<Gateway>({
    state: gateway,
    handlers: ({ state, sleep }) => [
      charge.handler(async (job, { signal }) => {
        const { order } = job.args;
        await sleep("2s", signal);
        if (!state.keys.has(order)) state.charges.push(order);
        state.keys.add(order);
        await sleep("1s", signal);
      }),
    ],
    workload: placed,
    check: chargedOnce,
    runs: 60,
  });
  assert.equal(report.runs, 60);
  assert.ok(report.faults > 60 && report.attempts > 300 && report.hours > 4);
});

test("a failure's scenario shows it again, and one that is none is refused by name", async () => {
  const options = {
    state: gateway,
    handlers: ({ state, sleep }: SimContext<Gateway>) => [
      charge.handler(async (job, { signal }) => {
        await sleep("2s", signal);
        state.charges.push(job.args.order);
        await sleep("1s", signal);
      }),
    ],
    workload: placed,
    check: chargedOnce,
  };
  const failed = await simulate({ ...options, runs: 100 }).then(
    () => assert.fail("no fault was found"),
    (error: unknown) => error as SimulationError,
  );
  const again = await simulate({ ...options, scenario: failed.scenario }).then(
    () => assert.fail("it does not fail again"),
    (error: unknown) => error as SimulationError,
  );
  assert.equal(again.timeline, failed.timeline);
  const scenario = { ...failed.scenario, faults: [{ type: "meteor", at: 0 }] } as never;
  await assert.rejects(simulate({ ...options, scenario }), { code: "invalid", message: /faults\[0\]\.type.*meteor/ });
});

test("a handler that reads a real clock is named with its file and line", async () => {
  const simulation = simulate({
    state: gateway,
    handlers: () => [charge.handler(() => void Date.now())],
    workload: placed,
    check: () => {},
    runs: 1,
    faults: [],
  });
  await assert.rejects(simulation, /Date\.now.*simulate\.test\.ts:\d+/s);
});

test("options that are wrong are named together", async () => {
  const bad = {
    state: gateway,
    handlers: 1,
    workload: placed,
    check: chargedOnce,
    servers: 0,
    faults: ["fire"],
  } as never;
  await assert.rejects(simulate(bad), (error: Error) => {
    for (const field of ["handlers", "servers", "faults[0]"]) assert.ok(error.message.includes(field), error.message);
    return true;
  });
});
