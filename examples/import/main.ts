/**
 * `npm run import`: imports a CSV file into a SQLite database. One job reads the file, and each of its rows is a job that makes
 * a record of it. What uses kiln is in jobs.ts and server.ts: begin there.
 */
import { basename, join } from "node:path";
import { removeDatabase, shortPath, withDatabase } from "../shared/database.ts";
import { type Display, makeDisplay, number, Rate, seconds } from "../shared/display.ts";
import { runMain, runServer, runWorkers, stopSignal } from "../shared/run.ts";
import { noteDeaths } from "../shared/workers.ts";
import { collectEvidence, judge, verdictLine } from "./check.ts";
import { type CsvFile, inspectCsv } from "./csv.ts";
import { type Database, openDatabase, TABLES } from "./database.ts";
import { layout, type View } from "./display.ts";
import { importFile, importRow } from "./jobs.ts";
import { HELP, type Options, readOptions } from "./options.ts";
import { fileFailures, readProgress } from "./progress.ts";
import { makeServer } from "./server.ts";
import type { Import } from "./storage.ts";

const SAMPLE = join(import.meta.dirname, "../data/customers.csv");
/** A process is killed when this part of the rows has ended. */
const KILL_AT = 0.25;

/** What has to be at hand while the import runs. */
interface Session {
  readonly options: Options;
  readonly database: Database;
  readonly display: Display<View>;
  /** Aborted at the first Ctrl-C. */
  readonly stop: AbortSignal;
}

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    console.log(HELP);
    return 0;
  }
  // Before anything is made or changed.
  const file = options.file === null ? null : await inspectCsv(options.file);
  return withDatabase({ ...options, usual: "data/import.sqlite" }, async (path) => {
    if (options.reset) await removeDatabase(path, TABLES);
    const database = await openDatabase(path);
    const display = makeDisplay(layout, process.stdout, process.env);
    try {
      return await importInto({ options, database, display, stop: stopSignal() }, file);
    } finally {
      await database.close();
    }
  });
}

async function importInto(session: Session, file: CsvFile | null): Promise<number> {
  const { options, database, display } = session;
  const started = await beginImport(session, file);
  const before = await readProgress(database.client, database.storage);
  if (before.drained && !options.once) {
    display.line(
      `nothing to do: all ${number(before.rows)} rows were imported before, ${number(before.stored)} are records`,
    );
    display.line("--reset starts over, --file imports another file as well");
    return 0;
  }
  const look = viewer(session);
  const finished = await runJobs(session, look);
  const { stored, refused, elapsed } = await look();
  display.close();
  if (!finished) {
    display.line(options.once ? "stopped before the import was done" : "stopped; the next start goes on from here");
    return options.once ? 130 : 0;
  }
  const failures = await fileFailures(database.client);
  for (const reason of failures) display.line(`the file could not be read to its end: ${reason}`);
  if (options.once) return check(session, started);
  display.line(
    `done in ${seconds(elapsed)}: ${number(stored)} records are in the table import_records, ${number(refused)} rows failed`,
  );
  return failures.length > 0 ? 1 : 0;
}

/** Makes sure that there is something to import; returns what is to be checked in the end. */
async function beginImport({ database, display }: Session, file: CsvFile | null): Promise<Import> {
  const { client, storage, path } = database;
  if ((await noteDeaths(storage)) > 0) {
    display.line("an earlier process was killed: what it was running starts again in about 8 seconds");
  }
  const known = storage.imports();
  const added = file ?? (known.length === 0 ? await inspectCsv(SAMPLE) : null);
  const last = added === null ? known.at(-1) : await storage.addImport(added);
  if (last === undefined) throw new Error("there is no import");
  for (const { id, jobId } of storage.imports()) {
    if (jobId === null) await storage.setImportJob(id, await client.enqueue(importFile, { importId: id }));
  }
  // A file that was missing may be there again.
  await client.requeue({ state: "failed", kind: importFile.kind });
  display.line(`${basename(last.path)}, ${number(last.rows)} rows → ${shortPath(path)}`);
  return last;
}

/** Runs the jobs, here or in other processes. False = stopped before the end. */
function runJobs({ options, database, display, stop }: Session, look: Look): Promise<boolean> {
  const { concurrency } = options;
  const { store, storage, client, path } = database;
  const line = (text: string): void => display.line(text);
  if (options.workers === 0) {
    return runServer(storage, (worker) => makeServer({ store, storage, worker, concurrency, onProblem: line }), {
      ...{ look, stop },
    });
  }
  const program = join(import.meta.dirname, "worker.ts");
  const when = ({ rows, stored, refused }: View): boolean => stored + refused >= rows * KILL_AT;
  return runWorkers(
    { count: options.workers, program, args: [path, String(concurrency)], onProblem: line },
    // While the file is being read the process that reads it, so that this has to be taken over too.
    { client, log: storage, when, kinds: [importFile.kind, importRow.kind], line },
    { look, stop },
  );
}

/** Reads the progress and shows it. */
type Look = () => Promise<View>;

function viewer({ database, display, stop }: Session): Look {
  const rate = new Rate();
  const started = performance.now();
  return async () => {
    const progress = await readProgress(database.client, database.storage);
    const elapsed = performance.now() - started;
    const done = progress.stored + progress.refused;
    const view = { ...progress, elapsed, rate: rate.add(done, elapsed), stopping: stop.aborted };
    display.show(view);
    return view;
  };
}

async function check({ database, display }: Session, file: Import): Promise<number> {
  const verdict = judge(await collectEvidence(database.client, database.storage, file));
  for (const problem of verdict.problems) display.line(problem);
  if (verdict.problems.length > 0) display.line(`the database is ${database.path}`);
  console.log(verdictLine(verdict));
  return verdict.problems.length === 0 ? 0 : 1;
}

await runMain(main);
