/** What `npm start -- …` can be told. */
import { badOption, parseOptions, readInteger } from "../shared/options.ts";

export interface Options {
  /** Null = a fresh one with `--once`, else the usual one. */
  readonly db: string | null;
  readonly reset: boolean;
  readonly once: boolean;
  /** Orders that are placed with `--once`. */
  readonly jobs: number;
  /** Child processes; 0 = the jobs run in this process. */
  readonly workers: number;
  readonly help: boolean;
}

export const USAGE = "usage: npm start -- [--db PATH] [--reset] [--once [--jobs N] [--workers N]]";

export const HELP = `A small shop on one SQLite file. Orders come in; each is paid at a gateway that takes 20 requests in any second and fails
some of them, and then gets an e-mail and an invoice. Beside that it imports customers and reports its sales.

${USAGE}

  --db PATH         the database, made when there is none; default data/shop.sqlite, with --once a temporary one
  --reset           removes the database first, to start over
  --once            places some orders, does all that is to be done, and checks that no order was lost, charged twice or
                    refused by the gateway for its rate. The last line says so; the exit code is 1 if anything was
  --jobs N          with --once: how many orders, 0 to 100,000, default 30
  --workers N       with --once: runs the jobs in 2 to 16 processes and kills one of them on the way
  --help            shows this

Stop with Ctrl-C, or kill it: the next start goes on where it was.`;

/** @throws UserError */
export function readOptions(args: readonly string[]): Options {
  const { db, reset, once, jobs, workers, help } = parseOptions(args, OPTIONS, USAGE);
  const options: Options = {
    db: db ?? null,
    reset: reset ?? false,
    once: once ?? false,
    jobs: readInteger("--jobs", jobs, { min: 0, max: 100_000, default: 30 }, USAGE),
    workers: readInteger("--workers", workers, { min: 2, max: 16, default: 0 }, USAGE),
    help: help ?? false,
  };
  if (options.db === "" || options.db === ":memory:") throw badOption("--db must name a file", USAGE);
  if (jobs !== undefined && !options.once) throw badOption("--jobs needs --once", USAGE);
  if (options.workers > 0 && !options.once) throw badOption("--workers needs --once", USAGE);
  return options;
}

const OPTIONS = {
  db: { type: "string" },
  reset: { type: "boolean" },
  once: { type: "boolean" },
  jobs: { type: "string" },
  workers: { type: "string" },
  help: { type: "boolean", short: "h" },
} as const;
