/** How the shop does, as its database and the gateway say. */
import type { Client, Counts } from "kiln";
import { type RowCounts, readRows } from "../import/progress.ts";
import { reasonOf } from "../shared/jobs.ts";
import type { Database } from "./database.ts";
import type { GatewayStatistics } from "./gateway.ts";
import { REPORTS } from "./jobs.ts";
import type { Report } from "./orders.ts";
import type { GatewayProcess } from "./payments.ts";

export interface Progress {
  /** Of all orders. */
  readonly totals: Omit<Report, "at">;
  readonly gateway: GatewayStatistics;
  /** Of the import. */
  readonly rows: RowCounts;
  readonly report: Report | null;
  /** Jobs of all kinds by state. */
  readonly jobs: Counts;
  /** Nothing is left to do but reports. */
  readonly idle: boolean;
  /** Why jobs failed for good, the latest first. */
  readonly failures: readonly string[];
}

/** Failures that are looked up. */
const FAILURES = 3;

export async function readProgress(database: Database, gateway: GatewayProcess): Promise<Progress> {
  const { client, storage, orders } = database;
  const [idle, jobs, failed, rows] = await Promise.all([
    isIdle(client),
    client.counts(),
    client.list({ state: "failed", limit: FAILURES }),
    readRows(client, storage),
  ]);
  return {
    ...{ totals: orders.totals(), gateway: gateway.statistics, rows, report: orders.lastReport(), jobs, idle },
    failures: failed.jobs.map(reasonOf),
  };
}

/** What waits for a job that has failed waits for ever: it is nothing that is left to do. */
async function isIdle(client: Client): Promise<boolean> {
  const queues = (await client.queues()).filter(({ name }) => name !== REPORTS);
  return queues.every((queue) => queue.scheduled + queue.throttled + queue.enqueued + queue.processing === 0);
}
