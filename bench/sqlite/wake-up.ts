/** How long a job that one process enqueues takes to start in another process on the same file. */
import { join } from "node:path";
import { Client } from "../../engine/client.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { Child, median, progress, quantile, withDirectory } from "../measure.ts";
import { below, type Row } from "../report.ts";
import { PING, type Started } from "./wake-up-child.ts";

const JOBS = 200;
/** Between two jobs the other process is idle again; milliseconds. */
const PAUSE = { least: 10, most: 40 } as const;

export async function wakeUp(): Promise<Row[]> {
  progress(`wake-up: ${JOBS} jobs`);
  const times = await withDirectory(async (directory) => {
    const path = join(directory, "kiln.db");
    const store = await SqliteStore.open({ path });
    const child = new Child(join(import.meta.dirname, "wake-up-child.ts"), [path]);
    try {
      const client = new Client(store);
      await child.next();
      const latencies: number[] = [];
      for (let n = 0; n < JOBS; n += 1) {
        const pause = PAUSE.least + Math.random() * (PAUSE.most - PAUSE.least);
        await new Promise((resolve) => setTimeout(resolve, pause));
        const enqueued = process.hrtime.bigint();
        await client.enqueue(PING, { n });
        const started = await child.next<Started>();
        latencies.push(Number(BigInt(started.at) - enqueued) / 1e6);
      }
      return latencies;
    } finally {
      await child.stop();
      await store.close();
    }
  });
  return [
    { name: "wake-up between two processes, p50", value: median(times), unit: "ms", target: below(20) },
    { name: "wake-up between two processes, p99", value: quantile(times, 0.99), unit: "ms", target: null },
  ];
}
