/** Keeps enqueueing jobs of all kinds, and knows how each of them has to end. */
import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import type { Client } from "../../engine/client.ts";
import type { JobSpec } from "../../engine/job.ts";
import { delayed, ENDS, flaky, hopeless, plain, slow } from "./jobs.ts";
import type { Expected } from "./verdict.ts";

/** Jobs that are there before the first worker starts. */
const BACKLOG = 300;
/** Jobs of one call, and milliseconds between two calls: about half of what one worker can do. */
const CALL = 10;
const PAUSE = 50;

const between = (least: number, most: number): number => Math.round(least + Math.random() * (most - least));

const MAKERS: readonly (() => JobSpec)[] = [
  () => plain.spec({}),
  () => plain.spec({}),
  () => flaky.spec({ failures: between(1, 3) }),
  () => hopeless.spec({}),
  () => slow.spec({ ms: between(50, 500) }),
  () => delayed.spec({}, { delay: between(100, 1_500) }),
];

export class Load {
  readonly #client: Client;
  readonly #expected: Expected[] = [];
  #made = 0;
  #stopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(client: Client) {
    this.#client = client;
  }

  /** Resolves when the backlog is there. */
  async start(): Promise<void> {
    await this.#add(BACKLOG);
    this.#running = this.#run();
  }

  /** Resolves with all that was enqueued. @throws whatever made an insert fail */
  async stop(): Promise<readonly Expected[]> {
    this.#stopped = true;
    await this.#running;
    return this.#expected;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      await this.#add(CALL);
      await setTimeout(PAUSE);
    }
  }

  async #add(count: number): Promise<void> {
    const specs = Array.from({ length: count }, () => {
      const maker = MAKERS[this.#made % MAKERS.length] ?? assert.fail();
      this.#made += 1;
      return maker();
    });
    const inserted = await this.#client.enqueueMany(specs);
    for (const [index, { id }] of inserted.entries()) {
      const kind = specs[index]?.definition.kind ?? "";
      this.#expected.push({ id, kind, state: ENDS.get(kind) ?? assert.fail(`unknown kind ${kind}`) });
    }
  }
}
