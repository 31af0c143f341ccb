/** One job whose handler reports something, and what the store is told of it. */
import { defineJob, type HandlerContext, type Job, type JobOptions } from "../../engine/job.ts";
import { constant } from "../../engine/retry.ts";
import type { ServerConfig } from "../../engine/server/config.ts";
import type { ConsoleEntry, JobId, JobRef } from "../../engine/store.ts";
import { type Process, World } from "./support.ts";

export interface Write extends ConsoleEntry {
  /** Milliseconds since the handler began. */
  readonly at: number;
}

export interface Run {
  readonly world: World;
  readonly process: Process;
  readonly id: JobId;
  readonly writes: Write[];
  /** What each call waits for, or fails with, before it reaches the store, in order; then calls go straight through. */
  readonly faults: (() => Promise<void>)[];
  texts(): Promise<string[]>;
}

type Body = (job: Job, world: World, context: HandlerContext) => Promise<void>;

/** Starts one job and records what the store is told of it. */
export async function start(body: Body, options: JobOptions = {}, config: Partial<ServerConfig> = {}): Promise<Run> {
  const world = await World.make();
  const kind = defineJob("task", { backoff: constant("1h"), ...options });
  const writes: Write[] = [];
  const faults: (() => Promise<void>)[] = [];
  let began = 0;
  const write = world.store.writeConsole.bind(world.store);
  world.store.writeConsole = async (ref: JobRef, entry: ConsoleEntry) => {
    writes.push({ at: world.time.now - began, ...entry });
    await faults.shift()?.();
    await write(ref, entry);
  };
  const handler = kind.handler((job, context) => {
    began = world.time.now;
    return body(job, world, context);
  });
  const process = world.start([handler], config);
  const id = await world.client.enqueue(kind, {});
  const texts = async (): Promise<string[]> => (await world.client.console(id)).map(({ text }) => text);
  return { world, process, id, writes, faults, texts };
}
