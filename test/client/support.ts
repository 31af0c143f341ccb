/** Values and helpers for tests of what users pass in. */
import assert from "node:assert/strict";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { Client, type EnqueueInterceptor } from "../../engine/client.ts";
import { InvalidError, type Problem } from "../../engine/errors.ts";
import type { JobRecord } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";

const fail = (): never => {
  throw new Error("hostile");
};

/** Throws whatever is done with it. */
export function hostileProxy(target: object = {}): object {
  return new Proxy(target, Object.fromEntries(Object.getOwnPropertyNames(Reflect).map((trap) => [trap, fail])));
}

export function revokedProxy(target: object = {}): object {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

/** An object whose property of this name throws when it is read. */
export function throwingGetter(name: string): object {
  return Object.defineProperty({}, name, { get: fail, enumerable: true });
}

/** The problems that `call` is refused for; none when it is not refused. */
export async function problemsOf(call: () => unknown): Promise<readonly Problem[]> {
  try {
    await call();
    return [];
  } catch (error) {
    assert.ok(error instanceof InvalidError, `${error}`);
    return error.problems;
  }
}

/** The same as lines `field rule`. */
export async function rulesOf(call: () => unknown): Promise<string[]> {
  return (await problemsOf(call)).map(({ field, rule }) => `${field} ${rule}`);
}

/** A schema of our own: what `check` returns is an issue, undefined is none. (zod leaves a rejection unhandled when a check rejects.) */
export function asyncSchema<Args>(check: (args: Args) => Promise<string | undefined>): StandardSchemaV1<Args> {
  const validate = async (value: unknown): Promise<StandardSchemaV1.Result<Args>> => {
    const message = await check(value as Args);
    return message === undefined ? { value: value as Args } : { issues: [{ message }] };
  };
  return { "~standard": { version: 1, vendor: "test", validate } };
}

export interface World {
  readonly store: MemoryStore;
  readonly client: Client;
  /** Of a clock that stands still. */
  readonly now: number;
  /** The job as the store keeps it. */
  record(id: number): Promise<JobRecord>;
}

/** A client of an empty store. */
export async function world(interceptors: EnqueueInterceptor[] = []): Promise<World> {
  const time = new VirtualTime();
  const store = await MemoryStore.open({ runtime: time.runtime() });
  const record = async (id: number): Promise<JobRecord> => {
    const job = await store.job(id);
    assert.ok(job);
    return job;
  };
  return { store, client: new Client(store, { interceptors }), now: time.now, record };
}
