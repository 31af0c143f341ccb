/** What `npm run import -- …` can be told. */
import { badOption, parseOptions, readInteger } from "../shared/options.ts";

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

export const USAGE =
  "usage: npm run import -- [--file CSV] [--db PATH] [--reset] [--concurrency N] [--once [--workers N]]";

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
  const { file, db, reset, once, workers, concurrency, help } = parseOptions(args, OPTIONS, USAGE);
  const options: Options = {
    file: file ?? null,
    db: db ?? null,
    reset: reset ?? false,
    once: once ?? false,
    workers: readInteger("--workers", workers, { min: 2, max: 16, default: 0 }, USAGE),
    concurrency: readInteger("--concurrency", concurrency, { min: 1, max: 100, default: 10 }, USAGE),
    help: help ?? false,
  };
  if (options.file === "") throw badOption("--file must name a file", USAGE);
  if (options.db === "" || options.db === ":memory:") throw badOption("--db must name a file", USAGE);
  if (options.workers > 0 && !options.once) throw badOption("--workers needs --once", USAGE);
  return options;
}

const OPTIONS = {
  file: { type: "string" },
  db: { type: "string" },
  reset: { type: "boolean" },
  once: { type: "boolean" },
  workers: { type: "string" },
  concurrency: { type: "string" },
  help: { type: "boolean", short: "h" },
} as const;
