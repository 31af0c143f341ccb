import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PermanentError, StoreError } from "../../engine/errors.ts";
import { ERROR_MAX_BYTES, TRACE_MAX_BYTES } from "../../engine/rules/limits.ts";
import { serializeError } from "../../engine/rules/serialize-error.ts";

const text = (thrown: unknown): string => serializeError(thrown).error;

/** Throws whatever is done with it. */
function hostileProxy(target: object = {}): object {
  const fail = (): never => {
    throw new Error("hostile");
  };
  const traps = Object.getOwnPropertyNames(Reflect).map((trap) => [trap, fail]);
  return new Proxy(target, Object.fromEntries(traps));
}

function revokedProxy(target: object = {}): object {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

test("an error is its name and message", () => {
  assert.equal(text(new TypeError("no such column")), "TypeError: no such column");
  assert.equal(text(new PermanentError("card refused")), "PermanentError: card refused");
  assert.equal(text(new Error("")), "Error");
  assert.equal(text(Object.assign(new Error("x"), { name: "" })), "Error: x");
  assert.equal(text(new DOMException("gone", "NotFoundError")), "NotFoundError: gone");
});

test("what is no error is shown", () => {
  assert.equal(text("plain text"), "plain text");
  assert.equal(text(undefined), "undefined");
  assert.equal(text(null), "null");
  assert.equal(text(42), "42");
  assert.equal(text(-0), "-0");
  assert.equal(text(10n), "10n");
  assert.equal(text(Symbol("s")), "Symbol(s)");
  assert.equal(text({ status: 500 }), "{ status: 500 }");
  assert.equal(text([1, 2]), "[ 1, 2 ]");
  assert.equal(text(Object.assign(Object.create(null), { a: 1 })), "[Object: null prototype] { a: 1 }");
  assert.match(
    text(() => 1),
    /Function/,
  );
  assert.equal(text(class Broken {}), "[class Broken]");
  assert.match(text(new Map([[1, 2]])), /1 => 2/);
});

test("an object with a message counts as an error", () => {
  assert.equal(text({ message: "quota exceeded", name: "ApiError" }), "ApiError: quota exceeded");
  assert.equal(text({ message: "quota exceeded" }), "Error: quota exceeded");
});

test("causes are told, and cycles end", () => {
  const root = new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
  const error = new StoreError("store_unavailable", "can't insert", { cause: root });
  assert.equal(
    text(error),
    "StoreError: can't insert; caused by TypeError: fetch failed; caused by Error: connect ECONNREFUSED",
  );
  assert.equal(text(new Error("a", { cause: "because" })), "Error: a; caused by because");
  assert.equal(text(new Error("a", { cause: null })), "Error: a; caused by null");

  const circular = new Error("a");
  circular.cause = new Error("b", { cause: circular });
  assert.equal(text(circular), "Error: a; caused by Error: b");
});

test("a chain of causes ends after eight", () => {
  let error = new Error("0");
  for (let n = 1; n < 100; n++) error = new Error(String(n), { cause: error });
  assert.equal(text(error).split("caused by").length, 8);
});

test("an AggregateError is its parts", () => {
  const parts = [new Error("connect ECONNREFUSED ::1:80"), new Error("connect ECONNREFUSED 127.0.0.1:80")];
  assert.equal(
    text(new AggregateError(parts)),
    "AggregateError; Error: connect ECONNREFUSED ::1:80; Error: connect ECONNREFUSED 127.0.0.1:80",
  );
  const many = Array.from({ length: 1_000 }, (_, n) => new Error(`part ${n}`));
  assert.equal(text(new AggregateError(many, "all failed")).split(";").length, 8);
});

test("the trace has the frames of the error and of its causes", () => {
  const inner = new Error("inner");
  const outer = new Error("outer", { cause: inner });
  const { trace } = serializeError(outer);
  assert.match(trace ?? "", /^Error: outer\n {4}at .*serialize-error\.test\.ts/);
  assert.match(trace ?? "", /\ncaused by Error: inner\n {4}at .*serialize-error\.test\.ts/);
  assert.equal(serializeError("text").trace, null);
  assert.equal(serializeError(Object.assign(new Error("x"), { stack: undefined })).trace, null);
  assert.equal(serializeError(Object.assign(new Error("x"), { stack: "Error: x" })).trace, null);
});

test("a long message leaves room for the frames", () => {
  const { error, trace } = serializeError(new Error("x".repeat(1_000_000)));
  assert.equal(Buffer.byteLength(error), ERROR_MAX_BYTES);
  assert.match(trace ?? "", /serialize-error\.test\.ts/);
});

test("texts are cleaned of what databases refuse", () => {
  assert.equal(text(new Error("a\u0000b\ud800c")), "Error: ab\ufffdc");
  assert.equal(text("\u0000"), "an empty text was thrown");
  assert.equal(text(""), "an empty text was thrown");
});

test("hostile values give readable text", () => {
  const throwing = (): never => {
    throw new Error("hostile");
  };
  const unreadableMessage = Object.defineProperty(new Error("x"), "message", { get: throwing });
  const unreadableStack = Object.defineProperty(new Error("x"), "stack", { get: throwing });
  const unreadableName = Object.defineProperty(new Error("x"), "name", { get: throwing });
  const unreadableCause = Object.defineProperty(new Error("x"), "cause", { get: throwing });
  assert.equal(text(unreadableMessage), "Error: (its message can't be read)");
  assert.equal(text(unreadableStack), "Error: x");
  assert.equal(text(unreadableName), "Error: x");
  assert.equal(text(unreadableCause), "Error: x");
  assert.equal(text(Object.assign(new Error("x"), { message: 5, name: {} })), "Error: (its message can't be read)");
  assert.equal(text(new AggregateError([hostileProxy()], "all")), `AggregateError: all; ${text(hostileProxy())}`);

  const hostile = [
    hostileProxy(),
    hostileProxy([]),
    hostileProxy(new Error("x")),
    hostileProxy(() => 1),
    revokedProxy(),
    revokedProxy(() => 1),
    { toString: throwing, toJSON: throwing, [Symbol.toPrimitive]: throwing },
    Object.defineProperty({}, "message", { get: throwing }),
    Object.defineProperty(Object.create(null), Symbol.toStringTag, { get: throwing }),
    { errors: hostileProxy([]) },
    { errors: revokedProxy([]) },
    { [Symbol.for("nodejs.util.inspect.custom")]: throwing },
  ];
  for (const value of hostile) {
    const { error } = serializeError(value);
    assert.ok(error.length > 0);
    assert.doesNotMatch(error, /hostile/);
    assert.ok(serializeError(new Error("outer", { cause: value })).error.startsWith("Error: outer; caused by "));
  }
});

test("any value whatever gives text and trace of the right size", () => {
  const anything = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withNullPrototype: true,
    withObjectString: true,
    withSparseArray: true,
    withTypedArray: true,
    withBoxedValues: true,
  });
  const errors = fc.letrec((tie) => ({
    error: fc
      .tuple(fc.string({ unit: "binary", maxLength: 5_000 }), fc.anything(), tie("thrown"), fc.anything())
      .map(([message, name, cause, stack]) => Object.assign(new Error(message, { cause }), { name, stack })),
    aggregate: fc.array(tie("thrown"), { maxLength: 3 }).map((parts) => new AggregateError(parts)),
    thrown: fc.oneof({ maxDepth: 3 }, anything, tie("error"), tie("aggregate")),
  }));
  fc.assert(
    fc.property(errors.thrown, (thrown) => {
      const { error, trace } = serializeError(thrown);
      assert.ok(error.length > 0 && Buffer.byteLength(error) <= ERROR_MAX_BYTES);
      assert.ok(error.isWellFormed() && !error.includes("\u0000"));
      assert.ok(trace === null || Buffer.byteLength(trace) <= TRACE_MAX_BYTES);
    }),
  );
});
