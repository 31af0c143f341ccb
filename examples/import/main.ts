/**
 * `npm start`: imports a CSV file into a SQLite database. One job reads the file, and each of its rows is a job that makes
 * a record of it. What uses kiln is in jobs.ts and server.ts: begin there.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, relative, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { KilnError } from "kiln";
import { collectEvidence, judge, verdictLine } from "./check.ts";
import { type CsvFile, inspectCsv } from "./csv.ts";
import { type Database, noteDeaths, openDatabase, removeDatabase } from "./database.ts";
import { type Display, makeDisplay, number, Rate, seconds, type View } from "./display.ts";
import { importFile } from "./jobs.ts";
import { HELP, type Options, readOptions } from "./options.ts";
import { UserError } from "./problem.ts";
import { fileFailures, readProgress } from "./progress.ts";
import { makeServer } from "./server.ts";
import type { Import } from "./storage.ts";
import { Workers } from "./workers.ts";

const SAMPLE = join(import.meta.dirname, "../data/customers.csv");
const DEFAULT_DB = "data/import.sqlite";
/** How often the progress is read, milliseconds. */
const INTERVAL = 200;
/** A process is killed when this part of the rows has ended. */
const KILL_AT = 0.25;

/** What has to be at hand while the import runs. */
interface Session {
  readonly options: Options;
  readonly database: Database;
  readonly display: Display;
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
  const temporary = options.once && options.db === null ? await mkdtemp(join(tmpdir(), "kiln-import-")) : null;
  const path = resolve(temporary === null ? (options.db ?? DEFAULT_DB) : join(temporary, "import.sqlite"));
  if (options.reset) await removeDatabase(path);
  const database = await openDatabase(path);
  const display = makeDisplay(process.stdout, process.env);
  let code: number;
  try {
    code = await importInto({ options, database, display, stop: stopSignal() }, file);
  } finally {
    await database.close();
  }
  // Unless something is wrong, which can be looked up there.
  if (temporary !== null && code !== 1) await rm(temporary, { recursive: true });
  return code;
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
  const finished = options.workers > 0 ? await runWorkers(session, look) : await runServer(session, look);
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
  display.line(`${basename(last.path)}, ${number(last.rows)} rows → ${shortest(path)}`);
  return last;
}

function shortest(path: string): string {
  const fromHere = relative("", path);
  return fromHere.startsWith("..") ? path : fromHere;
}

/** Runs all jobs in this process. False = stopped before the end. */
async function runServer(session: Session, look: Look): Promise<boolean> {
  const { options, database, display } = session;
  const { store, storage } = database;
  const worker = await storage.addWorker(process.pid);
  const onProblem = (text: string): void => display.line(text);
  const server = makeServer({ store, storage, worker, concurrency: options.concurrency, onProblem });
  const stopServer = new AbortController();
  const running = server.run({ signal: stopServer.signal });
  try {
    return await watch(session, look);
  } finally {
    stopServer.abort();
    await running;
    await storage.noteDeath(worker);
  }
}

/** Runs all jobs in other processes and kills one of them on the way. */
async function runWorkers(session: Session, look: Look): Promise<boolean> {
  const { options, database, display } = session;
  const { client, storage, path } = database;
  const onProblem = (text: string): void => display.line(text);
  const workers = new Workers({ count: options.workers, db: path, concurrency: options.concurrency, onProblem });
  display.line(`running in processes ${workers.pids.join(", ")}`);
  let killed = false;
  try {
    return await watch(session, look, async ({ rows, stored, refused }) => {
      workers.check();
      if (killed || stored + refused < rows * KILL_AT) return;
      const victim = await workers.kill(client, storage);
      if (victim === null) return;
      killed = true;
      display.line(`killed process ${victim.pid} while it held ${victim.jobs} jobs; the others take them over soon`);
    });
  } finally {
    await workers.stop();
  }
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

/** Looks again and again until all is done, or the user has had enough: false. */
async function watch({ stop }: Session, look: Look, each?: (view: View) => Promise<void>): Promise<boolean> {
  for (;;) {
    const view = await look();
    if (view.drained) return true;
    if (stop.aborted) return false;
    await each?.(view);
    await sleep(INTERVAL, undefined, { signal: stop }).catch(() => {});
  }
}

async function check({ database, display }: Session, file: Import): Promise<number> {
  const verdict = judge(await collectEvidence(database.client, database.storage, file));
  for (const problem of verdict.problems) display.line(problem);
  if (verdict.problems.length > 0) display.line(`the database is ${database.path}`);
  console.log(verdictLine(verdict));
  return verdict.problems.length === 0 ? 0 : 1;
}

/** Aborted by the first SIGINT or SIGTERM; the next one ends the process at once. */
function stopSignal(): AbortSignal {
  const stop = new AbortController();
  const onSignal = (): void => {
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
    stop.abort();
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return stop.signal;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (error instanceof UserError) {
    console.error(error.message);
    process.exitCode = 2;
  } else {
    console.error(error instanceof KilnError ? error.message : error);
    process.exitCode = 1;
  }
}
