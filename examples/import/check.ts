/** The verdict of `--once`: was each row handled exactly as it should have been? */
import type { Client } from "kiln";
import { listAll } from "../shared/jobs.ts";
import { readSteps } from "./csv.ts";
import { importRow, type RowArgs, type RowOutput } from "./jobs.ts";
import { checkRow, customerIdOf } from "./records.ts";
import type { Import, LogEntry, Storage } from "./storage.ts";

/** What is known of an import once it is over; rows count from 1. */
export interface Evidence {
  /** For each row of the file, in order, whether it can become a record. */
  readonly valid: readonly boolean[];
  /** Rows of the jobs that ended so. */
  readonly succeeded: readonly number[];
  readonly failed: readonly number[];
  /** Rows that have a record, once for each that they have. */
  readonly stored: readonly number[];
  /** Every run, in order. */
  readonly runs: Iterable<LogEntry>;
}

export interface Verdict {
  readonly rows: number;
  readonly succeeded: number;
  readonly failed: number;
  /** Rows whose job has not ended, or that have none. */
  readonly lost: number;
  /** Rows that two processes were running at the same time. */
  readonly overlapped: number;
  /** Records. */
  readonly stored: number;
  /** All that is not as it should be, in words. */
  readonly problems: readonly string[];
}

/** Rows that one problem names. */
const EXAMPLES = 5;

export function judge({ valid, succeeded, failed, stored, runs }: Evidence): Verdict {
  const rows = valid.map((_, index) => index + 1);
  const isValid = (row: number): boolean => valid[row - 1] === true;
  const [succeededRows, failedRows, storedRows] = [new Set(succeeded), new Set(failed), new Set(stored)];
  const lost = rows.filter((row) => !succeededRows.has(row) && !failedRows.has(row));
  const overlapped = overlaps(runs);
  const problems: string[] = [];
  const refuse = (what: string, bad: readonly number[]): void => {
    const more = bad.length > EXAMPLES ? ", …" : "";
    if (bad.length > 0) problems.push(`${what}: ${bad.slice(0, EXAMPLES).join(", ")}${more}`);
  };
  refuse("rows without a job that has ended", lost);
  refuse("rows that two processes ran at once (0 is the reading of the file)", overlapped);
  refuse("rows that were stored more than once", repeated(stored));
  refuse(
    "rows that ended in two ways",
    [...succeededRows].filter((row) => failedRows.has(row)),
  );
  refuse("valid rows that failed", [...failedRows].filter(isValid));
  refuse(
    "invalid rows that succeeded",
    [...succeededRows].filter((row) => !isValid(row)),
  );
  refuse(
    "valid rows that succeeded but are not stored",
    [...succeededRows].filter((row) => !storedRows.has(row)),
  );
  refuse(
    "rows that are stored but did not succeed",
    [...storedRows].filter((row) => !succeededRows.has(row)),
  );
  return {
    ...{ rows: valid.length, succeeded: succeededRows.size, failed: failedRows.size },
    ...{ lost: lost.length, overlapped: overlapped.length, stored: stored.length, problems },
  };
}

export function verdictLine({ rows, succeeded, failed, lost, overlapped, stored }: Verdict): string {
  return `rows=${rows} succeeded=${succeeded} failed=${failed} lost=${lost} overlapped=${overlapped} stored=${stored}`;
}

/** Rows of which a run began while another one had neither ended nor died with its process. */
function overlaps(runs: Iterable<LogEntry>): number[] {
  /** Which processes are running each row, as far as the log has been read. */
  const running = new Map<number, Set<number>>();
  const overlapped = new Set<number>();
  for (const { event, worker, row } of runs) {
    if (event === "death") {
      for (const workers of running.values()) workers.delete(worker);
      continue;
    }
    const workers = running.get(row) ?? new Set();
    running.set(row, workers);
    if (event === "end") {
      workers.delete(worker);
      continue;
    }
    if (workers.size > 0) overlapped.add(row);
    workers.add(worker);
  }
  return [...overlapped].sort((a, b) => a - b);
}

function repeated(rows: readonly number[]): number[] {
  const seen = new Set<number>();
  return rows.filter((row) => seen.has(row) || !seen.add(row));
}

export async function collectEvidence(client: Client, storage: Storage, file: Import): Promise<Evidence> {
  return {
    valid: await validRows(file),
    succeeded: await endedRows(client, file, "succeeded"),
    failed: await endedRows(client, file, "failed"),
    stored: storage.storedRows(file.id),
    runs: storage.runLog(file.id),
  };
}

/** Reads the file once more, apart from all that was stored of it. */
async function validRows(file: Import): Promise<boolean[]> {
  const valid: boolean[] = [];
  const firstRows = new Map<string, number>();
  for await (const step of readSteps(file.path, file.delimiter, file.start)) {
    for (const fields of step.rows) {
      const row = valid.length + 1;
      const id = customerIdOf(file.columns, fields);
      if (id !== null && !firstRows.has(id)) firstRows.set(id, row);
      const { problems } = checkRow(file.columns, row, fields, (customerId) => firstRows.get(customerId));
      valid.push(problems === undefined);
    }
  }
  return valid;
}

async function endedRows(client: Client, file: Import, state: "succeeded" | "failed"): Promise<number[]> {
  const rows: number[] = [];
  for await (const { args, output } of listAll(client, { state, kind: importRow.kind })) {
    const { importId, row } = args as RowArgs;
    const duplicate = (output as RowOutput | undefined)?.duplicate === true;
    if (importId === file.id && !duplicate) rows.push(row);
  }
  return rows;
}
