import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { z } from "zod";
import type { EnqueueOptions } from "../../engine/enqueue.ts";
import { defineJob } from "../../engine/job.ts";
import { LONGEST_DURATION } from "../../engine/rules/limits.ts";
import { QUEUE_RULE } from "../../engine/rules/values.ts";
import { asyncSchema, hostileProxy, problemsOf, revokedProxy, rulesOf, throwingGetter, world } from "./support.ts";

const mail = defineJob<{ to: string }>("mail", { queue: "mails", priority: 3, maxAttempts: 5, timeout: "1m" });
const order = defineJob("order", { args: z.object({ id: z.number(), at: z.string().default("now") }) });

/** What is wrong with these options of one job. */
async function optionRules(options: unknown): Promise<string[]> {
  const { client, store } = await world();
  const rules = await rulesOf(() => client.enqueue(mail, { to: "a" }, options as EnqueueOptions));
  assert.equal((await store.counts()).enqueued + (await store.counts()).scheduled, rules.length === 0 ? 1 : 0);
  return rules;
}

test("a job is stored as its definition says", async () => {
  const { client, record, now } = await world();
  const id = await client.enqueue(mail, { to: "ana@example.com" });
  const { history, ...job } = await record(id);
  assert.deepEqual(
    { kind: job.kind, queue: job.queue, args: job.args, priority: job.priority, maxAttempts: job.maxAttempts },
    { kind: "mail", queue: "mails", args: '{"to":"ana@example.com"}', priority: 3, maxAttempts: 5 },
  );
  assert.equal(job.timeout, null, "the kind's timeout is looked up when it runs");
  assert.deepEqual([job.runAt.getTime(), job.deadline, job.title, job.tags, job.meta], [now, null, null, [], {}]);
  assert.deepEqual([job.state, history], ["enqueued", []]);
});

test("options go before the definition", async () => {
  const { client, record, now } = await world();
  const deadline = new Date(now + 9_000);
  const id = await client.enqueue(
    mail,
    { to: "a" },
    {
      ...{ queue: "slow", priority: -1, delay: "1.5s", maxAttempts: 1, timeout: "10s", deadline, title: "Mail to a" },
      ...{ tags: ["b", "a", "b"], meta: { tenant: "7", empty: "" } },
    },
  );
  const job = await record(id);
  assert.deepEqual([job.state, job.queue, job.priority, job.maxAttempts], ["scheduled", "slow", -1, 1]);
  assert.deepEqual([job.runAt.getTime() - now, job.timeout, job.deadline], [1_500, 10_000, deadline]);
  assert.deepEqual([job.title, job.tags, job.meta], ["Mail to a", ["b", "a"], { tenant: "7", empty: "" }]);
  const never = await client.enqueue(mail, { to: "a" }, { timeout: false, runAt: new Date(5) });
  assert.deepEqual([(await record(never)).timeout, (await record(never)).runAt], [0, new Date(5)]);
});

test("a negative delay is none; what is no duration is refused", async () => {
  const { client, record, now } = await world();
  for (const delay of [-5, "-1h", 0, -Number.MAX_VALUE]) {
    const id = await client.enqueue(mail, { to: "a" }, { delay });
    assert.equal((await record(id)).runAt.getTime(), now);
  }
  const rule = 'delay must be a duration, in ms or such as "30s", of at most a hundred years';
  for (const delay of [
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    LONGEST_DURATION + 1,
    "",
    "soon",
    false,
    null,
  ]) {
    assert.deepEqual(await optionRules({ delay }), [rule]);
  }
  assert.deepEqual(await optionRules({ delay: LONGEST_DURATION }), []);
});

test("everything that is wrong is named at once, and nothing is stored", async () => {
  const { client, store } = await world();
  const options = {
    ...{ queue: "Mail Out", priority: 1.5, delay: "1s", runAt: new Date(Number.NaN), maxAttempts: 0, timeout: 0 },
    ...{ deadline: "tomorrow", title: 5, tags: ["ok", "", 7], meta: { a: 1 }, maxAttemps: 3 },
  } as unknown as EnqueueOptions;
  assert.deepEqual(await rulesOf(() => client.enqueue(mail, { to: Number.NaN as unknown as string }, options)), [
    "maxAttemps is unknown (did you mean maxAttempts?)",
    "args.to must be a finite number",
    "title must be a string",
    "runAt can't be given together with delay",
    `queue ${QUEUE_RULE}`,
    "priority must be an integer from -32768 to 32767",
    "maxAttempts must be an integer from 1 to 32767",
    'timeout must be a duration, in ms or such as "30s", of at least 1ms and at most a hundred years, or false',
    "runAt must be a valid Date from 1970 to 9999",
    "deadline must be a valid Date from 1970 to 9999",
    "tags[1] must be a non-empty string of at most 64 bytes",
    "tags[2] must be a non-empty string of at most 64 bytes",
    "meta.a must be a string",
  ]);
  assert.equal((await store.counts()).enqueued, 0);
  await assert.rejects(client.enqueue(mail, { to: "a" }, { priority: 1.5 }), {
    code: "invalid",
    message: "can't enqueue: priority must be an integer from -32768 to 32767, got 1.5",
  });
});

test("a delay and a time together are refused", async () => {
  assert.deepEqual(await optionRules({ delay: "1s", runAt: new Date() }), ["runAt can't be given together with delay"]);
});

test("tags have limits", async () => {
  const many = (n: number): string[] => Array.from({ length: n }, (_, index) => `tag${index}`);
  assert.deepEqual(await optionRules({ tags: [...many(32), ...many(32)] }), []);
  assert.deepEqual(await optionRules({ tags: many(33) }), ["tags must be at most 32 different ones"]);
  assert.deepEqual(await optionRules({ tags: ["é".repeat(32)] }), []);
  assert.deepEqual(await optionRules({ tags: ["é".repeat(33)] }), [
    "tags[0] must be a non-empty string of at most 64 bytes",
  ]);
  assert.deepEqual(await optionRules({ tags: ["a\u0000"] }), [
    "tags[0] must be text without NUL and without lone surrogates",
  ]);
  assert.deepEqual(await optionRules({ tags: "urgent" }), ["tags must be an array"]);
});

test("meta has limits", async () => {
  const keys = (n: number): object => Object.fromEntries(Array.from({ length: n }, (_, index) => [`key${index}`, "v"]));
  assert.deepEqual(await optionRules({ meta: keys(64) }), []);
  assert.deepEqual(await optionRules({ meta: keys(65) }), ["meta must have at most 64 keys"]);
  assert.deepEqual(await optionRules({ meta: { a: "x".repeat(16 * 1024 - 1) } }), []);
  assert.deepEqual(await optionRules({ meta: { a: "x".repeat(8 * 1024), b: "é".repeat(4 * 1024 - 1) } }), []);
  assert.deepEqual(await optionRules({ meta: { a: "x".repeat(8 * 1024), b: "é".repeat(4 * 1024) } }), [
    "meta must be at most 16384 bytes, keys and values together",
  ]);
  assert.deepEqual(await optionRules({ meta: { "": "x" } }), ["a key of meta must be a non-empty string"]);
  assert.deepEqual(await optionRules({ meta: { "a\ud800": "x" } }), [
    "a key of meta must be text without NUL and without lone surrogates",
  ]);
  assert.deepEqual(await optionRules({ meta: [] }), ["meta must be an object"]);
});

test("a __proto__ key of meta is kept and pollutes nothing", async () => {
  const { client, record } = await world();
  const meta = JSON.parse('{"__proto__":"x"}');
  const job = await record(await client.enqueue(mail, { to: "a" }, { meta }));
  assert.deepEqual(Object.entries(job.meta), [["__proto__", "x"]]);
});

test("a title comes of the options, the definition or its function, and is cut to 200 bytes", async () => {
  const { client, record } = await world();
  const titled = defineJob<{ n: number }>("titled", { title: ({ n }) => (n === 0 ? "" : `Number ${n}`) });
  const fixed = defineJob("fixed", { title: "Fixed" });
  const title = async (id: number): Promise<string | null> => (await record(id)).title;
  assert.equal(await title(await client.enqueue(titled, { n: 5 })), "Number 5");
  assert.equal(await title(await client.enqueue(titled, { n: 0 })), null);
  assert.equal(await title(await client.enqueue(titled, { n: 5 }, { title: "Mine" })), "Mine");
  assert.equal(await title(await client.enqueue(titled, { n: 5 }, { title: "" })), null);
  assert.equal(await title(await client.enqueue(fixed, {})), "Fixed");
  assert.equal(await title(await client.enqueue(fixed, {}, { title: `${"é".repeat(99)}a😀` })), `${"é".repeat(99)}a`);
  assert.equal(await title(await client.enqueue(fixed, {}, { title: "a\u0000b" })), "ab");
});

test("a title that can't be made is a problem of the args", async () => {
  const { client } = await world();
  const broken = defineJob<{ user?: { name: string } }>("broken", {
    title: ({ user }) => (user as { name: string }).name,
  });
  const [problem] = await problemsOf(() => client.enqueue(broken, {}));
  assert.equal(problem?.field, "args");
  assert.match(problem?.rule ?? "", /^must be such that a title can be made of it \(TypeError: /);
  const number = defineJob("number", { title: (() => 5) as unknown as () => string });
  assert.deepEqual(await rulesOf(() => client.enqueue(number, {})), ["title must be a string"]);
});

test("args are checked by the schema but stored as they were given", async () => {
  const { client, record } = await world();
  const id = await client.enqueue(order, { id: 7 });
  assert.equal((await record(id)).args, '{"id":7}');
  const wrong = { id: "7", at: 5 } as unknown as { id: number };
  const problems = await problemsOf(() => client.enqueue(order, wrong));
  assert.deepEqual(
    problems.map(({ field, value }) => [field, value]),
    [
      ["args.id", '"7"'],
      ["args.at", "5"],
    ],
  );
  assert.match(problems[0]?.rule ?? "", /^must fit the schema \(.*expected number.*\)$/);
});

test("what the schema checks is the JSON that the handler's will see", async () => {
  const { client, record } = await world();
  const strict = defineJob("strict", { args: z.object({ at: z.date() }) });
  assert.deepEqual(
    (await problemsOf(() => client.enqueue(strict, { at: new Date(0) }))).map(({ field }) => field),
    ["args.at"],
  );
  const lenient = defineJob("lenient", { args: z.object({ at: z.coerce.date<Date>() }) });
  const id = await client.enqueue(lenient, { at: new Date(0) });
  assert.equal((await record(id)).args, '{"at":"1970-01-01T00:00:00.000Z"}');
});

test("an asynchronous schema is awaited, and one that fails is a problem", async () => {
  const { client } = await world();
  const schema = asyncSchema<{ id: number }>(async ({ id }) => {
    await turn();
    if (id === 2) throw new Error("no connection");
    return id === 1 ? "is taken" : undefined;
  });
  const slow = defineJob("slow", { args: schema });
  const specs = [0, 1, 2].map((id) => slow.spec({ id }));
  assert.deepEqual(await rulesOf(() => client.enqueueMany(specs)), [
    "jobs[1].args must fit the schema (is taken)",
    "jobs[2].args can't be checked by its schema (Error: no connection)",
  ]);
  assert.equal(await client.enqueue(slow, { id: 0 }), 1);
  const broken = { "~standard": { version: 1 as const, vendor: "x", validate: () => null as never } };
  const [problem] = await problemsOf(() => client.enqueue(defineJob("broken", { args: broken }), {}));
  assert.match(problem?.rule ?? "", /^can't be checked by its schema \(TypeError: /);
});

test("a schema that fails without a word is a problem too", async () => {
  const { client } = await world();
  const silent = { "~standard": { version: 1 as const, vendor: "x", validate: () => ({ issues: [] }) } };
  assert.deepEqual(await rulesOf(() => client.enqueue(defineJob("silent", { args: silent }), {})), [
    "args must fit the schema",
  ]);
});

test("only what defineJob returned is a definition", async () => {
  const { client } = await world();
  for (const definition of [
    undefined,
    null,
    "mail",
    {},
    { ...mail },
    hostileProxy(),
    revokedProxy(),
    mail.spec({ to: "a" }),
  ]) {
    assert.deepEqual(await rulesOf(() => Reflect.apply(client.enqueue, client, [definition, {}])), [
      "definition must be what defineJob returned",
    ]);
  }
  assert.deepEqual(await rulesOf(() => Reflect.apply(client.enqueue, client, [mail])), ["args must be given"]);
});

test("hostile options are refused", async () => {
  for (const options of [null, 5, "x", [], hostileProxy(), revokedProxy()]) {
    assert.deepEqual(await optionRules(options), ["options must be an object"]);
  }
  for (const name of ["queue", "delay", "runAt", "tags", "meta", "title"]) {
    assert.deepEqual(await optionRules(throwingGetter(name)), [`${name} must be readable`]);
    assert.equal((await optionRules({ [name]: hostileProxy() })).length, 1, name);
    assert.equal((await optionRules({ [name]: revokedProxy([]) })).length, 1, name);
  }
  assert.deepEqual(await optionRules({ meta: throwingGetter("a") }), ["meta.a must be readable"]);
});
