/** The two kinds of job: one reads the file and enqueues its rows, the other turns one row into a record. */
import { createHash } from "node:crypto";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, defineJob, exponential, type Handler, type Job, PermanentError } from "kiln";
import { z } from "zod";
import { UserError } from "../shared/problem.ts";
import { readSteps, type Step, statFile } from "./csv.ts";
import { checkRow, customerIdOf, type ImportRecord } from "./records.ts";
import type { Import, Storage } from "./storage.ts";

export const FILES = "files";
export const ROWS = "rows";

const BACKOFF = exponential("200ms", "2s");

export const importFile = defineJob("import_file", {
  queue: FILES,
  args: z.object({ importId: z.int() }),
  // A large file takes hours, so it is not the whole attempt that is limited, but the time without a sign of life.
  timeout: false,
  stallTimeout: "30s",
  // Each kill of its process costs an attempt.
  maxAttempts: 100,
  backoff: BACKOFF,
});

const RowArgs = z.object({ importId: z.int(), row: z.int(), fields: z.array(z.string()) });
export type RowArgs = z.infer<typeof RowArgs>;

/** What a job returns that found its row, or its file, in the hands of another job. */
export interface RowOutput {
  readonly duplicate: true;
}

export const importRow = defineJob("import_row", {
  queue: ROWS,
  args: RowArgs,
  title: ({ row }) => `row ${row}`,
  timeout: "30s",
  // The service fails one attempt in twenty: that all of twenty fail will not happen in the life of the universe.
  maxAttempts: 20,
  backoff: BACKOFF,
});

/** Where the reading of a file goes on: what `import_file` saves after each step. */
export interface Checkpoint {
  /** Bytes. */
  readonly offset: number;
  /** Rows enqueued so far. */
  readonly rows: number;
}

export const CHECKPOINT = "checkpoint";

/** Rows that may wait for a worker before the reading waits for them, so that a huge file does not become a huge queue. */
const MAX_WAITING = 400;
const ROOM_PAUSE = 20;

/** `worker` is this process's id in the storage. */
export function handlers(storage: Storage, worker: number): Handler[] {
  return [
    importFile.handler(async (job, { client, signal }) => {
      const { importId } = job.args;
      const key = { importId, row: 0 };
      if (!(await storage.startRun(key, job.id, worker))) return { duplicate: true };
      try {
        return await readFile(storage.import(importId), job, { storage, client, signal });
      } finally {
        await storage.endRun(key, worker, null);
      }
    }),

    importRow.handler(async (job, { signal }) => {
      const { importId, row, fields } = job.args;
      const key = { importId, row };
      if (!(await storage.startRun(key, job.id, worker))) return { duplicate: true };
      let record: ImportRecord | null = null;
      try {
        await askAddressService(row, job.attempt, signal);
        // Whoever lost the job must not store anything any more.
        signal.throwIfAborted();
        const { columns } = storage.import(importId);
        const checked = checkRow(columns, row, fields, (id) => storage.firstRowOf(importId, id));
        if (checked.problems) throw new PermanentError(`row ${row}: ${checked.problems.join("; ")}`);
        record = checked.record;
      } finally {
        await storage.endRun(key, worker, record);
      }
      return undefined;
    }),
  ];
}

interface Tools {
  readonly storage: Storage;
  readonly client: Client;
  readonly signal: AbortSignal;
}

/** Enqueues the rows of the file, step by step, from the last checkpoint on. */
async function readFile(file: Import, job: Job, tools: Tools): Promise<{ rows: number }> {
  let { offset, rows } = job.param<Checkpoint>(CHECKPOINT) ?? { offset: file.start, rows: 0 };
  await refuseChangedFile(file, rows);
  for await (const step of readSteps(file.path, file.delimiter, offset)) {
    await waitForRoom(job, tools);
    await enqueueStep(file, rows, step, tools);
    offset = step.end;
    rows += step.rows.length;
    // Killed before this is stored, the next attempt enqueues the step once more: see `import_row_jobs` in storage.ts.
    await job.setParam(CHECKPOINT, { offset, rows } satisfies Checkpoint);
    job.log(`enqueued rows ${rows - step.rows.length + 1} to ${rows} of ${file.rows}`);
    job.progress((100 * rows) / file.rows);
    tools.signal.throwIfAborted();
  }
  return { rows };
}

/** The checkpoint counts bytes of the file as it was. */
async function refuseChangedFile(file: Import, rows: number): Promise<void> {
  try {
    const { size, modified } = await statFile(file.path);
    if (size === file.size && modified === file.modified) return;
  } catch (error) {
    throw error instanceof UserError ? new PermanentError(error.message) : error;
  }
  const name = basename(file.path);
  throw new PermanentError(`${name} was changed after its import had begun, at row ${rows} of ${file.rows}`);
}

async function waitForRoom(job: Job, { client, signal }: Tools): Promise<void> {
  for (;;) {
    const queue = (await client.queues()).find(({ name }) => name === ROWS);
    if (queue === undefined || queue.enqueued + queue.scheduled < MAX_WAITING) return;
    job.heartbeat();
    await sleep(ROOM_PAUSE, undefined, { signal });
  }
}

/** `done` rows were enqueued before. */
async function enqueueStep(file: Import, done: number, step: Step, { storage, client }: Tools): Promise<void> {
  const rows = step.rows.map((fields, index) => ({ row: done + index + 1, fields }));
  const ids = rows.flatMap(({ row, fields }) => {
    const customerId = customerIdOf(file.columns, fields);
    return customerId === null ? [] : [{ customerId, row }];
  });
  if (ids.length > 0) await storage.addCustomerIds(file.id, ids);
  await client.enqueueMany(
    rows.map(({ row, fields }) => importRow.spec({ importId: file.id, row, fields: [...fields] })),
  );
}

/**
 * Stands for a service of someone else's that checks postal addresses: it takes 5 to 30 ms, and one call in twenty fails.
 * Which ones depends on row and attempt alone, so that each run of the import meets the same failures.
 */
async function askAddressService(row: number, attempt: number, signal: AbortSignal): Promise<void> {
  const [first = 0, second = 0] = createHash("sha256").update(`${row}:${attempt}`).digest();
  await sleep(5 + (first / 255) * 25, undefined, { signal });
  if (second < 256 / 20) throw new Error(`the address service did not answer for row ${row} (simulated)`);
}
