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
  calls: number;
  statements: number;
}

async function countIdle(path: string): Promise<Counts> {
  const time = new VirtualTime();
  const runtime = time.runtime();
  const counts = { calls: 0, statements: 0 };
  let counting = false;
  const count = (name: keyof Counts): void => {
    if (counting) counts[name] += 1;
  };
  const store = await SqliteStore.open({ path, runtime });
  const server = new Server(
    withCalls(store, () => count("calls")),
    { handlers: [defineJob("absent").handler(() => {})], queues: { default: 10 }, runtime },
  );
  const restore = watchStatements(() => count("statements"));
  const stop = new AbortController();
  const run = server.run({ signal: stop.signal });
  await time.advance(START);
  counting = true;
  await time.advance(LENGTH);
  counting = false;
  stop.abort();
  await time.settled(run, 60 * SECOND);
  await store.close();
  restore();
  return counts;
}

/** The same store, which says of each call that it is made. */
function withCalls(store: Store, onCall: () => void): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        onCall();
        return Reflect.apply(value, target, args);
      };
    },
  });
}

/** Calls `onStatement` for all statements that this process runs, `BEGIN` and `COMMIT` among them. Returns how to stop. */
function watchStatements(onStatement: () => void): () => void {
  const watch = <Name extends string>(
    prototype: Record<Name, (...args: never[]) => unknown>,
    name: Name,
  ): (() => void) => {
    const original = prototype[name];
    prototype[name] = function watched(this: unknown, ...args: never[]) {
      onStatement();
      return Reflect.apply(original, this, args);
    };
    return () => {
      prototype[name] = original;
    };
  };
  const restores = [
    ...(["get", "all", "run", "iterate"] as const).map((name) => watch(StatementSync.prototype, name)),
    watch(DatabaseSync.prototype, "exec"),
  ];
  return () => {
    for (const restore of restores) restore();
  };
}
