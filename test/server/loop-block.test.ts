/** A handler that blocks the event loop stops the heartbeat too: the server says who it was. Real time: this is about Node's loop. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { Client } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import type { Logger } from "../../engine/logger.ts";
import { Server } from "../../engine/server/server.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";

const HEARTBEAT = 200;
/** A little longer than a heartbeat: noticed whenever in a beat's interval it begins. */
const LONG = 1.5 * HEARTBEAT;
const MESSAGE = "the event loop was blocked for longer than a heartbeat";

interface Line {
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>> | undefined;
}

interface Seen {
  readonly loopBlocks: number;
  readonly errors: readonly Line[];
}

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Runs one job on a server of its own until the server has sent a beat after the handler's end. */
async function seen(kind: string, handler: () => void | Promise<void>, heartbeatInterval = HEARTBEAT): Promise<Seen> {
  const store = await MemoryStore.open();
  const job = defineJob(kind);
  const errors: Line[] = [];
  const ignore = (): void => {};
  const logger: Logger = {
    debug: ignore,
    info: ignore,
    warn: ignore,
    error: (message, fields) => errors.push({ message, fields }),
  };
  let beats = 0;
  let beatAfter: () => void = ignore;
  const counting = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        if (name === "heartbeat") {
          beats += 1;
          beatAfter();
        }
        return Reflect.apply(value, target, args);
      };
    },
  });
  const server = new Server(counting, {
    handlers: [job.handler(handler)],
    queues: { default: 1 },
    heartbeatInterval,
    killGrace: 10,
    deadAfter: "60s",
    logger,
  });
  const stop = new AbortController();
  const run = server.run({ signal: stop.signal });
  await new Client(store).enqueue(job, {});
  for await (const event of server.events()) {
    if (event.type === "transition" && event.to === "succeeded") break;
  }
  const before = beats;
  await new Promise<void>((resolve) => {
    beatAfter = () => {
      if (beats > before) resolve();
    };
  });
  const { loopBlocks } = server.stats();
  stop.abort();
  await run;
  await store.close();
  return { loopBlocks, errors };
}

function assertNamed({ loopBlocks, errors }: Seen, kind: string): void {
  // A machine that stalls blocks the loop as well; that is told apart by the kinds.
  const named = errors.filter(({ fields }) => String(fields?.["kinds"]) === kind);
  assert.ok(named.length >= 1, `no line names ${kind}: ${JSON.stringify(errors)}`);
  assert.equal(loopBlocks, errors.length);
  for (const { message, fields } of named) {
    assert.equal(message, MESSAGE);
    assert.ok(Number(fields?.["ms"]) > HEARTBEAT);
  }
}

test("a handler that blocks the event loop is logged by its kind and counted", async () => {
  assertNamed(await seen("hog", () => block(LONG)), "hog");
});

test("also when it blocks after waiting for a file", async () => {
  const handler = async (): Promise<void> => {
    await readFile(import.meta.filename);
    block(LONG);
  };
  assertNamed(await seen("hog_after_io", handler), "hog_after_io");
});

test("also when it blocks after a timer", async () => {
  const handler = async (): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, 30));
    block(LONG);
  };
  assertNamed(await seen("hog_after_timer", handler), "hog_after_timer");
});

test("a handler that only waits is not", async () => {
  const handler = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LONG));
  assert.deepEqual(await seen("patient", handler, 5 * HEARTBEAT), { loopBlocks: 0, errors: [] });
});
