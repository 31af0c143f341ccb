/** Database files to measure on, and the plain connection that stands for a bare loop. */
import { copyFile, rm } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";

export const QUEUE = "bench";

/** How commits are kept in all measures: the default of the store. */
export const DURABILITY = "full";

export interface Seed {
  readonly kinds: readonly string[];
  readonly count: number;
  /** Those of the jobs; they take turns. */
  readonly priorities: readonly number[];
}

/** Jobs that are ready, one kind after the other, in one statement: a million through the store would take minutes. */
const SEED = `
  WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :count)
  INSERT INTO kiln_jobs (id, state, kind, queue, priority, run_at, max_attempts, created_at, args)
  SELECT :first + i, 'enqueued', json_extract(:kinds, '$[' || (i % json_array_length(:kinds)) || ']'), :queue,
    json_extract(:priorities, '$[' || (i % json_array_length(:priorities)) || ']'), :now, 10, :now, json_object('n', i)
  FROM n`;

/** Makes a file with the store's tables and with jobs that are ready, all in its main file: it may be copied. */
export async function makeFile(path: string, seeds: readonly Seed[] = []): Promise<void> {
  await (await SqliteStore.open({ path })).close();
  const db = new DatabaseSync(path);
  try {
    for (const seed of seeds) insertSeed(db, seed);
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.close();
  }
}

function insertSeed(db: DatabaseSync, { kinds, count, priorities }: Seed): void {
  db.exec("BEGIN IMMEDIATE");
  const ids = db.prepare("UPDATE kiln_sequences SET value = value + ? WHERE name = 'jobs' RETURNING value").get(count);
  db.prepare(SEED).run({
    first: Number(ids?.["value"]) - count + 1,
    count,
    kinds: JSON.stringify(kinds),
    priorities: JSON.stringify(priorities),
    queue: QUEUE,
    now: Date.now(),
  });
  db.exec("COMMIT");
}

/** Gives each work a fresh copy of `template` that stands beside it and is removed afterwards. */
export function onCopiesOf(template: string): (work: (path: string) => Promise<number>) => Promise<number> {
  let count = 0;
  return async (work) => {
    count += 1;
    const path = `${template}-${count}`;
    await copyFile(template, path);
    const result = await work(path);
    await rm(path);
    return result;
  };
}

/** A connection with the settings that the store gives to its own. */
export function openBare(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: 10_000, enableForeignKeyConstraints: false });
  db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${DURABILITY}; PRAGMA cache_size = -16000;
    PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 67108864`);
  return db;
}
