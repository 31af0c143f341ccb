/** How far the import is, as its database says. */
import type { Client, Counts } from "kiln";
import { reasonOf } from "../shared/jobs.ts";
import { CHECKPOINT, type Checkpoint, FILES, importFile, importRow, ROWS } from "./jobs.ts";
import type { Storage } from "./storage.ts";

/** Of all imports in the database. */
export interface RowCounts {
  readonly rows: number;
  /** Rows that have been enqueued. */
  readonly read: number;
  /** Rows that have become records. */
  readonly stored: number;
  /** Rows that have failed for good. */
  readonly refused: number;
}

export interface Progress extends RowCounts {
  /** Jobs of both kinds by state. */
  readonly jobs: Counts;
  /** How long the longest waiting ready row has been waiting, milliseconds; null = none is. */
  readonly oldest: number | null;
  /** Nothing is left to do. */
  readonly drained: boolean;
  /** Why rows failed for good, the latest first. */
  readonly failures: readonly string[];
}

/** Failures that are looked up. */
const FAILURES = 3;

export async function readProgress(client: Client, storage: Storage): Promise<Progress> {
  const [queues, jobs, failed, rows] = await Promise.all([
    client.queues(),
    client.counts(),
    client.list({ state: "failed", kind: importRow.kind, limit: FAILURES }),
    readRows(client, storage),
  ]);
  const rowQueue = queues.find(({ name }) => name === ROWS);
  const busy = queues.some((queue) => queue.scheduled + queue.enqueued + queue.processing > 0);
  return { ...rows, jobs, oldest: rowQueue?.latency ?? null, drained: !busy, failures: failed.jobs.map(reasonOf) };
}

export async function readRows(client: Client, storage: Storage): Promise<RowCounts> {
  const imports = storage.imports();
  const read = await Promise.all(imports.map(({ id }) => rowsRead(client, storage, id)));
  const queues = await client.queues();
  return {
    rows: imports.reduce((sum, { rows }) => sum + rows, 0),
    read: read.reduce((sum, rows) => sum + rows, 0),
    stored: storage.recordCount(),
    refused: queues.find(({ name }) => name === ROWS)?.failed ?? 0,
  };
}

/** Why files could not be read to their end. */
export async function fileFailures(client: Client): Promise<string[]> {
  const { jobs } = await client.list({ state: "failed", queue: FILES, kind: importFile.kind });
  return jobs.map(reasonOf);
}

async function rowsRead(client: Client, storage: Storage, importId: number): Promise<number> {
  const jobId = storage.rowJob({ importId, row: 0 });
  const job = jobId === undefined ? null : await client.get(jobId);
  return (job?.params[CHECKPOINT] as Checkpoint | undefined)?.rows ?? 0;
}
