/** Log lines and progress of running jobs, in tables of their own. */
import { checkConsoleEntry, checkConsoleQuery } from "../../rules/console.ts";
import { claimLost } from "../../rules/held.ts";
import type { ConsoleEntry, ConsoleLine, ConsoleQuery, JobRef } from "../../store.ts";
import type { Connection } from "./connection.ts";
import { holds } from "./finish.ts";

const HOLDER = "SELECT claim, attempt FROM kiln_jobs WHERE id = ? AND state = 'processing'";
const ADD_LINES = `INSERT INTO kiln_console (job, seq, attempt, at, text)
  SELECT ?1, coalesce((SELECT max(seq) FROM kiln_console WHERE job = ?1), 0) + key + 1, ?2, ?3, value FROM json_each(?4)`;
const SET_PROGRESS = `INSERT INTO kiln_progress (job, percent) VALUES (?, ?)
  ON CONFLICT (job) DO UPDATE SET percent = excluded.percent`;

/** One transaction of 1 statement, 1 more for lines however many, and 1 more for progress. */
export async function writeConsole(db: Connection, ref: JobRef, entry: ConsoleEntry): Promise<void> {
  checkConsoleEntry(entry);
  const { lines, progress } = entry;
  return db.write((tx) => {
    const row = db.get<[claim: number, attempt: number]>(HOLDER, ref.id);
    if (!row || !holds(db, row[0], ref)) throw claimLost(ref);
    if (lines.length > 0) db.run(ADD_LINES, ref.id, row[1], tx.now, JSON.stringify(lines));
    if (progress !== null) db.run(SET_PROGRESS, ref.id, progress);
  });
}

const LINES = "SELECT seq, attempt, at, text FROM kiln_console WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?";

/** 1 statement. */
export async function consoleLines(db: Connection, query: ConsoleQuery): Promise<ConsoleLine[]> {
  const { id, after, limit } = checkConsoleQuery(query);
  const rows = await db.read(() => db.all<[number, number, number, string]>(LINES, id, after, limit));
  return rows.map(([seq, attempt, at, text]) => ({ seq, attempt, at: new Date(at), text }));
}

/** Lines that one transaction removes: a job of many attempts may have a hundred thousand. */
const LINES_CHUNK = 5_000;

/**
 * Removes what the jobs that `ids` selects, with parameters `params`, have reported. False = not all of it yet; call it
 * again, in another transaction. 2 statements.
 */
export function removeConsoles(db: Connection, ids: string, ...params: readonly number[]): boolean {
  const lines = `SELECT job, seq FROM kiln_console WHERE job IN (${ids}) LIMIT ${LINES_CHUNK}`;
  if (db.run(`DELETE FROM kiln_console WHERE (job, seq) IN (${lines})`, ...params) === LINES_CHUNK) return false;
  db.run(`DELETE FROM kiln_progress WHERE job IN (${ids})`, ...params);
  return true;
}
