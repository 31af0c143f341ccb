/** Values and helpers for tests of what users pass in. */
import assert from "node:assert/strict";
import { InvalidError, type Problem } from "../../engine/errors.ts";

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
