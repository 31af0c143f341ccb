/** What `npm start -- …` can be told. */
import { parseArgs } from "node:util";
import { UserError } from "./problem.ts";

export interface Options {
  /** Null = what is in the database, or the sample. */
  readonly file: string | null;
  /** Null = a fresh one with `--once`, else the usual one. */
  readonly db: string | null;
  readonly reset: boolean;
  readonly once: boolean;
  /** Child processes; 0 = the jobs run in this process. */
  readonly workers: number;
  /** Rows that each process works on at once. */
  readonly concurrency: number;
  readonly help: boolean;
}

export const USAGE = "usage: npm start -- [--file CSV] [--db PATH] [--reset] [--concurrency N] [--once [--workers N]]";

export const HELP = `Imports a CSV file into a SQLite database: each row is a job of kiln's.

${USAGE}

  --file CSV        the file to import, with a header; by default the sample of 2,000 customers that comes with kiln.
                    Without it an import that is not finished goes on
  --db PATH         the database, made when there is none; default data/import.sqlite, with --once a temporary one
  --reset           removes the database first, to start over
  --concurrency N   rows that a process works on at once, 1 to 100, default 10
  --once            checks at the end that no row was lost, stored twice or run by two processes at once. The last line
                    says what became of the rows; the exit code is 1 if anything is wrong
  --workers N       with --once: runs the jobs in 2 to 16 processes and kills one of them on the way
  --help            shows this

Stop with Ctrl-C, or kill it: the next start goes on where it was.`;

/** @throws UserError */
export function readOptions(args: readonly string[]): Options {
  const { file, db, reset, once, workers, concurrency, help } = parse(args);
  const options: Options = {
    file: file ?? null,
    db: db ?? null,
    reset: reset ?? false,
    once: once ?? false,
    workers: workers === undefined ? 0 : readInteger("--workers", workers, 2, 16),
    concurrency: concurrency === undefined ? 10 : readInteger("--concurrency", concurrency, 1, 100),
    help: help ?? false,
  };
  if (options.file === "") throw bad("--file must name a file");
  if (options.db === "" || options.db === ":memory:") throw bad("--db must name a file");
  if (options.workers > 0 && !options.once) throw bad("--workers needs --once");
  return options;
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        file: { type: "string" },
        db: { type: "string" },
        reset: { type: "boolean" },
        once: { type: "boolean" },
        workers: { type: "string" },
        concurrency: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    }).values;
  } catch (error) {
    // Only the first sentence is about the mistake.
    throw bad((error as Error).message.split(". ", 1)[0] ?? "");
  }
}

function readInteger(name: string, text: string, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw bad(`${name} must be an integer from ${min} to ${max}, got "${text}"`);
}

function bad(message: string): UserError {
  return new UserError(`${message}\n${USAGE}`);
}
