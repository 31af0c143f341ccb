/** What handlers return, save and throw × every hostile value × every store, on a real server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CancelledError,
  InvalidError,
  PermanentError,
  SnoozeError,
  StallError,
  StoreError,
  TimeoutError,
} from "../../engine/errors.ts";
import { defineJob, type HandlerFunction } from "../../engine/job.ts";
import type { TestServer } from "../../engine/testing/index.ts";
import type { JobView } from "../../engine/view.ts";
import { hostileProxy, revokedProxy, throwingGetter } from "../client/support.ts";
import { assertNotStuck, assertRefusal, runAll, STORES, serverOn } from "./support.ts";
import { JSON_VALUES, VALUES } from "./values.ts";

const MIB = 2 ** 20;
const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

interface Case {
  readonly name: string;
  readonly run: HandlerFunction<unknown, unknown>;
}

/** Runs each case as a job until it has ended; returns the jobs by the name of their case. */
async function runCases(
  server: TestServer,
  cases: readonly Case[],
  maxAttempts: number,
): Promise<Map<string, JobView>> {
  const specs = cases.map((_, index) => kind.spec({ index }, { maxAttempts }));
  const inserted = await server.client.enqueueMany(specs);
  await runAll(server);
  const jobs = new Map<string, JobView>();
  for (const [index, { id }] of inserted.entries()) {
    jobs.set(cases[index]?.name ?? "", (await server.client.get(id)) ?? assert.fail());
  }
  for (const job of jobs.values()) assertReadable(job);
  return jobs;
}

const kind = defineJob<{ index: number }>("hostile", { backoff: () => 1_000 });
const handlerOf = (cases: readonly Case[]) =>
  kind.handler((job, context) => cases[job.args.index]?.run(job, context) as never);

/** Every text of a history can be stored and shown anywhere. */
function assertReadable(job: JobView): void {
  for (const { reason, error, trace } of job.history) {
    const failed = ["retry", "exhausted", "permanent", "output rejected", "rejected"].includes(reason);
    assert.ok(!failed || error !== null, reason);
    for (const text of [reason, error ?? "x", trace ?? "x"]) {
      assert.ok(text.isWellFormed() && !text.includes("\u0000") && text.trim() !== "", JSON.stringify(text));
    }
    assert.ok(Buffer.byteLength(error ?? "") <= 2 * 1024 && Buffer.byteLength(trace ?? "") <= 8 * 1024);
  }
}

const idsOf = (jobs: ReadonlyMap<string, JobView>): number[] => [...jobs.values()].map(({ id }) => id);

/** The names of the jobs that are in this state. */
const inState = (jobs: ReadonlyMap<string, JobView>, state: string): string[] =>
  [...jobs].filter(([, job]) => job.state === state).map(([name]) => name);

const PLACES = {
  output: { wrap: (value: unknown): unknown => value, largest: MIB - 2, more: ["undefined"] },
  "a property of the output": { wrap: (v: unknown): unknown => ({ v }), largest: MIB - 8, more: ["undefined"] },
  "an item of the output": { wrap: (value: unknown): unknown => [value], largest: MIB - 4, more: [] },
  "what an async handler returns": {
    wrap: (value: unknown): unknown => Promise.resolve([value]),
    largest: MIB - 4,
    more: [],
  },
} as const;

/** Returned as they are, these can't even be asked whether they are promises. */
const NO_RETURN = [
  "throwing then",
  "revoked proxy",
  "revoked array",
  "revoked function",
  "hostile proxy",
  "hostile array",
];

for (const [store, open] of Object.entries(STORES)) {
  for (const [place, { wrap, largest, more }] of Object.entries(PLACES)) {
    test(`${store}: ${place} comes back exactly or fails the job`, async () => {
      const cases = VALUES.map(({ name, make }) => ({ name, run: () => wrap(make(largest)) }));
      const server = await serverOn(open, [handlerOf(cases)]);
      const jobs = await runCases(server, cases, 1);
      assert.deepEqual(inState(jobs, "succeeded").sort(), [...JSON_VALUES, ...more].sort());
      assert.equal(inState(jobs, "failed").length, cases.length - JSON_VALUES.length - more.length);
      for (const { name, make } of VALUES) {
        const { state, output, history } = jobs.get(name) ?? assert.fail();
        const reasons = history.map(({ reason }) => reason);
        if (state === "failed") {
          assert.equal(output, undefined);
          const thrown = place === "output" && NO_RETURN.includes(name);
          assert.deepEqual(reasons, [thrown ? "exhausted" : "output rejected"], name);
        } else {
          const returned = await wrap(make(largest));
          assert.deepEqual(output, returned === undefined ? undefined : json(returned), name);
          assert.deepEqual(reasons, []);
        }
      }
      await assertNotStuck(server, idsOf(jobs));
      await server.store.close();
    });
  }

  test(`${store}: checkpoints come back exactly, in the next attempt and for clients, or are refused`, async () => {
    const saved = new Map<string, unknown>();
    const save = (name: string, key: (largest: number) => unknown, value: (largest: number) => unknown): Case => ({
      name,
      run: async (job) => {
        if (job.attempt === 2) {
          const wanted = saved.has(name) ? json(saved.get(name)) : undefined;
          assert.deepEqual(job.param(key(256) as string), wanted);
          return "checked";
        }
        try {
          await job.setParam(key(256) as string, value(MIB - 2));
          saved.set(name, value(MIB - 2));
          assert.deepEqual(job.param(key(256) as string), json(value(MIB - 2)));
        } catch (error) {
          assertRefusal(error);
          assert.equal(job.param("kept"), undefined);
        }
        await job.setParam("kept", name);
        throw new Error("again");
      },
    });
    const values = VALUES.map(({ name, make }) => save(`value: ${name}`, () => "key", make));
    const keys = VALUES.map(({ name, make }) => save(`key: ${name}`, make, () => name));
    const cases = [...values, ...keys];
    const server = await serverOn(open, [handlerOf(cases)]);
    const jobs = await runCases(server, cases, 2);
    const texts = ["blank", "empty text", "every plane", "__proto__", "constructor", "toJSON", "SQL and JSON path"];
    const goodKeys = [...texts, "number as text", "duration as text", "largest text"];
    const accepted = [...JSON_VALUES.map((name) => `value: ${name}`), ...goodKeys.map((name) => `key: ${name}`)];
    assert.deepEqual([...saved.keys()].sort(), accepted.sort());
    for (const { name } of cases) {
      const { state, output, params, history } = jobs.get(name) ?? assert.fail();
      assert.deepEqual([state, output], ["succeeded", "checked"], `${name}: ${history.at(-1)?.error}`);
      const { kept, ...others } = params;
      assert.equal(kept, name);
      assert.deepEqual(Object.values(others), saved.has(name) ? [json(saved.get(name))] : [], name);
    }
    for (const name of goodKeys) {
      const key = VALUES.find((value) => value.name === name)?.make(256) as string;
      assert.deepEqual(Object.keys(jobs.get(`key: ${name}`)?.params ?? {}).sort(), [key, "kept"].sort());
    }
    await assertNotStuck(server, idsOf(jobs));
    await server.store.close();
  });

  test(`${store}: whatever is thrown is told readably and retried`, async () => {
    const thrown: Record<string, () => unknown> = { ...ERRORS };
    for (const { name, make } of VALUES) {
      const value = (): unknown => make(5_000);
      thrown[`value: ${name}`] = value;
      thrown[`message: ${name}`] = () => Object.assign(new Error(), { message: value() });
      thrown[`stack: ${name}`] = () => Object.assign(new Error("x"), { stack: value() });
      thrown[`name: ${name}`] = () => Object.assign(new Error("x"), { name: value() });
      thrown[`frames: ${name}`] = () =>
        Object.assign(new Error("x"), { stack: `Error: x\n    at ${shownOr(value())}` });
      thrown[`cause: ${name}`] = () => new Error("x", { cause: value() });
      thrown[`errors: ${name}`] = () => Object.assign(new AggregateError([]), { errors: value() });
      thrown[`an error of: ${name}`] = () => new AggregateError([value()], "several");
    }
    const cases = Object.entries(thrown).map(([name, make]) => ({
      name,
      run: () => {
        throw make();
      },
    }));
    const server = await serverOn(open, [handlerOf(cases)]);
    const jobs = await runCases(server, cases, 2);
    for (const [name, { state, history }] of jobs) {
      const reasons = history.map(({ reason }) => reason).filter((reason) => reason !== "requeued");
      assert.deepEqual([state, ...reasons], ["failed", "retry", "exhausted"], name);
    }
    assert.equal(jobs.get("value: undefined")?.history[0]?.error, "undefined");
    assert.equal(jobs.get("value: symbol")?.history[0]?.error, "Symbol(hostile)");
    assert.match(jobs.get("message: NUL")?.history[0]?.error ?? "", /^Error: ab$/);
    await assertNotStuck(server, idsOf(jobs));
    await server.store.close();
  });

  test(`${store}: errors of kiln keep their meaning, whatever is in them`, async () => {
    const ends: Record<string, [make: () => unknown, state: string, reason: string]> = {};
    for (const { name, make } of VALUES) {
      const value = (): never => make(5_000) as never;
      const cause = (): ErrorOptions => ({ cause: value() });
      ends[`permanent: ${name}`] = [
        () => withMessage(new PermanentError("x", cause()), value()),
        "failed",
        "permanent",
      ];
      ends[`cancelled: ${name}`] = [
        () => withMessage(new CancelledError("x", cause()), value()),
        "deleted",
        "cancelled",
      ];
      ends[`snooze: ${name}`] = [() => Object.assign(new SnoozeError(0), { delay: value() }), "succeeded", "snoozed"];
    }
    const calls = new Map<string, number>();
    const cases = Object.entries(ends).map(([name, [make, state]]) => ({
      name,
      run: (): unknown => {
        calls.set(name, (calls.get(name) ?? 0) + 1);
        // What snoozes for no time would snooze for ever.
        if (state === "succeeded" && (calls.get(name) ?? 0) % 2 === 0) return null;
        throw make();
      },
    }));
    const server = await serverOn(open, [handlerOf(cases)]);
    const jobs = await runCases(server, cases, 1);
    for (const [name, [, state, reason]] of Object.entries(ends)) {
      const job = jobs.get(name) ?? assert.fail();
      assert.deepEqual([job.state, job.history[0]?.reason], [state, reason], name);
    }
    await assertNotStuck(server, idsOf(jobs));
    await server.store.close();
  });

  test(`${store}: whatever a backoff returns or throws, the job is retried within a hundred years`, async () => {
    const kinds = VALUES.flatMap(({ make }, index) => [
      defineJob(`returns-${index}`, { maxAttempts: 2, backoff: () => make(5_000) as number }),
      defineJob(`rejects-${index}`, { maxAttempts: 2, backoff: (async () => Promise.reject(make(5))) as never }),
      defineJob(`throws-${index}`, {
        maxAttempts: 2,
        backoff: () => {
          throw make(5_000);
        },
      }),
    ]);
    const handlers = kinds.map((kind) =>
      kind.handler(() => {
        throw new Error("x");
      }),
    );
    const server = await serverOn(open, handlers);
    const inserted = await server.client.enqueueMany(kinds.map((kind) => kind.spec({})));
    await server.drain({ limit: 0 }).catch(() => {});
    const now = server.time.now;
    for (const { id } of inserted) {
      const { state, runAt, history } = (await server.client.get(id)) ?? assert.fail();
      assert.ok(state === "scheduled" || (state === "failed" && history.length === 2), state);
      assert.ok(runAt.getTime() >= now && runAt.getTime() <= now + 100 * 366 * 86_400_000);
    }
    await runAll(server);
    await assertNotStuck(
      server,
      inserted.map(({ id }) => id),
    );
    await server.store.close();
  });

  test(`${store}: whatever a schema makes of the args, the job ends`, async () => {
    const ends: unknown[] = [];
    const kinds = VALUES.flatMap(({ name, make }) => {
      const results: (() => unknown)[] = [
        () => make(5_000),
        () => ({ value: make(5_000) }),
        () => ({ issues: make(5_000) }),
        () => ({ issues: [make(5_000)] }),
        async () => Promise.reject(make(5_000)),
      ];
      return results.map((result, index) => {
        let calls = 0;
        const validate = (value: unknown): unknown => {
          calls += 1;
          return calls === 1 ? { value } : result();
        };
        const schema = { "~standard": { version: 1, vendor: "hostile", validate } } as never;
        return defineJob<unknown>(`kind-${index}-${VALUES.findIndex((value) => value.name === name)}`, {
          ...{ args: schema, maxAttempts: 2, backoff: () => 1 },
        });
      });
    });
    const server = await serverOn(
      open,
      kinds.map((kind) => kind.handler((job) => void ends.push(job.args))),
    );
    const ids: number[] = [];
    for (const kind of kinds) ids.push(await server.client.enqueue(kind, {}));
    await runAll(server);
    for (const id of ids) assertReadable((await server.client.get(id)) ?? assert.fail());
    assert.ok(ends.length >= VALUES.length, "a value of any kind is handed to the handler");
    await assertNotStuck(server, ids);
    await server.store.close();
  });
}

function withMessage(error: Error, message: unknown): Error {
  return Object.assign(error, { message });
}

function shownOr(value: unknown): string {
  return typeof value === "string" ? value : "a value";
}

function chain(length: number): Error {
  let error = new Error("the last");
  for (let n = 0; n < length; n++) error = new Error(`cause ${n}`, { cause: error });
  return error;
}

const ERRORS: Readonly<Record<string, () => unknown>> = {
  "a long chain of causes": () => chain(1_000),
  "its own cause": () => {
    const error = new Error("x");
    error.cause = error;
    return error;
  },
  "a thousand errors": () => new AggregateError(Array.from({ length: 1_000 }, () => new Error("x".repeat(100)))),
  "an AggregateError of itself": () => {
    const error = new AggregateError([], "x");
    error.errors.push(error, error);
    return error;
  },
  "getters that throw": () => {
    const error = new Error("x");
    for (const key of ["name", "message", "stack", "cause", "errors"]) {
      Object.defineProperty(error, key, Object.getOwnPropertyDescriptor(throwingGetter(key), key) ?? {});
    }
    return error;
  },
  "a proxy of an error": () => hostileProxy(new Error("x")),
  "a revoked error": () => revokedProxy(new Error("x")),
  "a frozen error": () => Object.freeze(new Error("x")),
  "an error without a prototype": () => Object.setPrototypeOf(new Error("x"), null),
  "a timeout of its own": () => new TimeoutError("mine"),
  "a stall of its own": () => new StallError("mine"),
  "an invalid value": () => new InvalidError("x", []),
  "a store's error": () => new StoreError("store_failed", "\u0000"),
  "an aborted signal's reason": () => AbortSignal.abort().reason,
};
