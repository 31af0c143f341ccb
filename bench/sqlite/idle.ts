/** What an idle server asks of the store. In virtual time, so that an hour is counted and not a few seconds. */
import { join } from "node:path";
import { DatabaseSync, StatementSync } from "node:sqlite";
import { defineJob } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import type { Store } from "../../engine/store.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { progress, withDirectory } from "../measure.ts";
import { atMost, type Row } from "../report.ts";

const SECOND = 1_000;
/** Until the server has become leader and all its duties have begun. */
const START = 120 * SECOND;
const LENGTH = 3_600 * SECOND;

export async function idle(): Promise<Row[]> {
  progress("idle: an hour of virtual time");
  const { calls, statements } = await withDirectory((directory) => countIdle(join(directory, "kiln.db")));
  const perSecond = (count: number): number => count / (LENGTH / SECOND);
  return [
    { name: "idle server: calls of the store", value: perSecond(calls), unit: "/s", target: atMost(2) },
    { name: "idle server: SQL statements", value: perSecond(statements), unit: "/s", target: null },
  ];
}

interface Counts {
  readonly calls: number;
  readonly statements: number;
}

async function countIdle(path: string): Promise<Counts> {
  const time = new VirtualTime();
  const runtime = time.runtime();
  const store = await SqliteStore.open({ path, runtime });
  const calls = countCalls(store);
  const server = new Server(calls.store, {
    handlers: [defineJob("absent").handler(() => {})],
    queues: { default: 10 },
    runtime,
  });
  const stop = new AbortController();
  const run = server.run({ signal: stop.signal });
  await time.advance(START);
  const statements = countStatements();
  const before = calls.count;
  try {
    await time.advance(LENGTH);
    return { calls: calls.count - before, statements: statements.count };
  } finally {
    statements.stop();
    stop.abort();
    await time.settled(run, 60 * SECOND);
    await store.close();
  }
}

function countCalls(store: Store): { readonly store: Store; count: number } {
  const counter = {
    count: 0,
    store: new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          counter.count += 1;
          return Reflect.apply(value, target, args);
        };
      },
    }),
  };
  return counter;
}

/** Counts all statements of this process that are run, `BEGIN` and `COMMIT` among them, until `stop`. */
function countStatements(): { count: number; stop(): void } {
  const counter = {
    count: 0,
    stop: () =>
      undo.forEach((restore) => {
        restore();
      }),
  };
  const undo = [
    ...(["get", "all", "run", "iterate"] as const).map((name) => spy(StatementSync.prototype, name)),
    spy(DatabaseSync.prototype, "exec"),
  ];
  function spy<Name extends string>(prototype: Record<Name, (...args: never[]) => unknown>, name: Name): () => void {
    const original = prototype[name];
    prototype[name] = function counted(this: unknown, ...args: never[]) {
      counter.count += 1;
      return Reflect.apply(original, this, args);
    };
    return () => {
      prototype[name] = original;
    };
  }
  return counter;
}
