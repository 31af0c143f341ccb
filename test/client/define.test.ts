import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { PermanentError } from "../../engine/errors.ts";
import { defineJob, Handler, type HandlerContext, type Job, JobDefinition, JobSpec } from "../../engine/job.ts";
import { constant } from "../../engine/retry.ts";
import { KIND_RULE, QUEUE_RULE } from "../../engine/rules/values.ts";
import { decodeArgs } from "../../engine/schema.ts";
import { asyncSchema, hostileProxy, problemsOf, revokedProxy, rulesOf, throwingGetter } from "./support.ts";

const Order = z.object({ orderId: z.number().int(), note: z.string().default("none") });

test("a definition has all its options, in milliseconds", () => {
  assert.deepEqual(defineJob("charge_card").options, {
    ...{
      queue: "default",
      priority: 0,
      maxAttempts: 10,
      backoff: null,
      timeout: null,
      stallTimeout: null,
      limit: null,
      title: null,
    },
  });
  const backoff = constant("5s");
  const title = (): string => "Charge";
  const options = { queue: "payments", priority: -5, maxAttempts: 12, timeout: "5m", stallTimeout: "30s" };
  assert.deepEqual(defineJob("charge_card", { ...options, args: Order, backoff, title }).options, {
    ...{
      queue: "payments",
      priority: -5,
      maxAttempts: 12,
      backoff,
      timeout: 300_000,
      stallTimeout: 30_000,
      limit: null,
      title,
    },
  });
  assert.equal(defineJob("charge_card", { timeout: false }).options.timeout, 0);
  assert.equal(defineJob("charge_card", { args: Order }).schema, Order);
  assert.equal(defineJob("charge_card").kind, "charge_card");
});

test("a definition can't be changed", () => {
  const definition = defineJob("charge_card");
  assert.throws(() => Object.assign(definition, { kind: "other" }), TypeError);
  assert.throws(() => Object.assign(definition.options, { queue: "other" }), TypeError);
});

test("everything that is wrong with a definition is named at once", async () => {
  const bad = {
    ...{ args: {}, queue: "Mail", priority: 40_000, maxAttempts: 0, backoff: "5s", timeout: 0, stallTimeout: false },
    ...{ title: 5, que: "x" },
  };
  assert.deepEqual(await rulesOf(() => Reflect.apply(defineJob, null, ["1 kind", bad])), [
    `kind ${KIND_RULE}`,
    "que is unknown (known are args, queue, priority, maxAttempts, backoff, timeout, stallTimeout, limit, title)",
    `queue ${QUEUE_RULE}`,
    "priority must be an integer from -32768 to 32767",
    "maxAttempts must be an integer from 1 to 32767",
    "backoff must be a function",
    'timeout must be a duration, in ms or such as "30s", of at least 1ms and at most a hundred years, or false',
    'stallTimeout must be a duration, in ms or such as "30s", of at least 1ms and at most a hundred years',
    "title must be a string or a function of the args",
    "args must be a Standard Schema (zod, valibot, arktype)",
  ]);
  await assert.rejects(
    async () => Reflect.apply(defineJob, null, ["mail", { queue: "Mail" }]),
    /can't define job "mail": queue/,
  );
});

test("hostile options and schemas are refused", async () => {
  for (const value of [hostileProxy(), revokedProxy(), 5, null]) {
    assert.deepEqual(await rulesOf(() => Reflect.apply(defineJob, null, ["mail", value])), [
      "options must be an object",
    ]);
  }
  for (const args of [hostileProxy(), revokedProxy(), throwingGetter("~standard"), { "~standard": null }, "zod"]) {
    assert.deepEqual(await rulesOf(() => Reflect.apply(defineJob, null, ["mail", { args }])), [
      "args must be a Standard Schema (zod, valibot, arktype)",
    ]);
  }
});

test("a schema may be a function", () => {
  const schema = Object.assign(() => true, {
    "~standard": { version: 1 as const, vendor: "test", validate: (value: unknown) => ({ value }) },
  });
  assert.equal(defineJob("mail", { args: schema }).schema, schema);
});

test("a handler holds its definition and runs its function", async () => {
  const definition = defineJob<{ n: number }, number>("double");
  const handler = definition.handler((job, { signal }) => (signal.aborted ? 0 : job.args.n * 2));
  assert.ok(Handler.is(handler));
  assert.equal(handler.definition, definition);
  const job = { args: { n: 21 } } as Job<unknown>;
  const context = { signal: new AbortController().signal } as HandlerContext;
  assert.equal(await handler.run(job, context), 42);
  const throwing = definition.handler(() => {
    throw new Error("at once");
  });
  await assert.rejects(throwing.run(job, context), /at once/);
});

test("a handler must be a function", async () => {
  const definition = defineJob("mail");
  assert.deepEqual(await problemsOf(() => Reflect.apply(definition.handler, definition, [{}])), [
    { field: "handler", value: "{}", rule: "must be a function" },
  ]);
});

test("definitions, specs and handlers are told from look-alikes", () => {
  const definition = defineJob("mail");
  const genuine = [definition, definition.spec({}), definition.handler(() => {})];
  const tests = [JobDefinition.is, JobSpec.is, Handler.is];
  for (const [i, is] of tests.entries()) {
    assert.deepEqual(
      genuine.map((value) => is(value)),
      genuine.map((_, j) => i === j),
    );
    const alike = [{ ...genuine[i] }, new Proxy(genuine[i] as object, {}), hostileProxy(), null, undefined, "mail"];
    for (const value of alike) assert.equal(is(value), false);
  }
});

test("args reach the handler through the schema, with its transforms and defaults", async () => {
  const plain = defineJob<{ at: Date }>("plain");
  assert.deepEqual(await decodeArgs(plain, '{"at":"2026-01-01"}'), { at: "2026-01-01" });
  const definition = defineJob("order", { args: Order.transform((order) => ({ ...order, id: `#${order.orderId}` })) });
  assert.deepEqual(await decodeArgs(definition, '{"orderId":7,"more":1}'), { orderId: 7, note: "none", id: "#7" });
  const slow = defineJob("slow", { args: z.object({ at: z.coerce.date() }).refine(async () => true) });
  assert.deepEqual(await decodeArgs(slow, '{"at":"2026-01-01T00:00:00Z"}'), { at: new Date("2026-01-01T00:00:00Z") });
});

test("args that no longer fit the schema are a permanent error", async () => {
  const definition = defineJob("order", { args: Order });
  await assert.rejects(decodeArgs(definition, '{"orderId":"7","note":5}'), (error) => {
    assert.ok(error instanceof PermanentError);
    assert.match(error.message, /^the args of order do not fit its schema:\n {2}args\.orderId must fit the schema \(/);
    assert.match(error.message, /args\.note must fit the schema \(.*\), got 5$/);
    return true;
  });
});

test("args that are not JSON are a permanent error", async () => {
  await assert.rejects(decodeArgs(defineJob("mail"), '{"to":'), {
    code: "permanent",
    message: "the args of mail are not JSON",
  });
});

test("a schema that fails by itself is no verdict on the args", async () => {
  const args = asyncSchema(async () => {
    throw new Error("the database is down");
  });
  await assert.rejects(decodeArgs(defineJob("order", { args }), "{}"), (error) => {
    assert.ok(error instanceof Error && !(error instanceof PermanentError));
    return /database is down/.test(error.message);
  });
});
