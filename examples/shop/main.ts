/**
 * `npm start`: a small shop. An order and its jobs are stored in one transaction: a payment, then an e-mail and an invoice
 * that wait for it. What uses kiln is in checkout.ts, jobs.ts and server.ts: begin there.
 */
import { join } from "node:path";
import * as imported from "../import/check.ts";
import { inspectCsv } from "../import/csv.ts";
import { importFile, importRow } from "../import/jobs.ts";
import type { Import } from "../import/storage.ts";
import { shortPath, withDatabase } from "../shared/database.ts";
import { type Display, makeDisplay, Rate } from "../shared/display.ts";
import { runMain, runServer, runWorkers, stopSignal } from "../shared/run.ts";
import { noteDeaths } from "../shared/workers.ts";
import { ordersDue, randomOrder } from "./arrivals.ts";
import { collectEvidence, DEFINITION, judge, verdictLine } from "./check.ts";
import { placeOrder } from "./checkout.ts";
import { type Database, gatewayPath, openDatabase, resetDatabases } from "./database.ts";
import { layout, type View } from "./display.ts";
import { readGateway } from "./gateway.ts";
import { chargePayment, reportSales } from "./jobs.ts";
import { HELP, type Options, readOptions } from "./options.ts";
import { GatewayProcess } from "./payments.ts";
import { readProgress } from "./progress.ts";
import { makeServer } from "./server.ts";

const CUSTOMERS = join(import.meta.dirname, "../data/customers.csv");
/** Orders that are placed between two looks at most. */
const CHUNK = 25;
/** A process is killed when this part of the orders is paid. */
const KILL_AT = 0.1;

/** What has to be at hand while the shop is open. */
interface Session {
  readonly options: Options;
  readonly database: Database;
  readonly gateway: GatewayProcess;
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
  return withDatabase({ ...options, usual: "data/shop.sqlite" }, async (path) => {
    if (options.reset) await resetDatabases(path);
    const database = await openDatabase(path);
    const display = makeDisplay(layout, process.stdout, process.env);
    try {
      return await openShop({ options, database, display, stop: stopSignal() });
    } finally {
      await database.close();
    }
  });
}

async function openShop(rest: Omit<Session, "gateway">): Promise<number> {
  const { options, database, display } = rest;
  const customers = await beginJobs(rest);
  const gateway = await GatewayProcess.start(gatewayPath(database.path));
  let finished: boolean;
  try {
    finished = await runJobs({ ...rest, gateway });
  } finally {
    await gateway.stop();
  }
  display.close();
  if (options.once && finished) return check(rest, customers);
  display.line(options.once ? "stopped before all was done" : "closed; the next start goes on from here");
  return options.once ? 130 : 0;
}

/** Makes sure that customers are imported and sales reported. */
async function beginJobs({ database, display }: Omit<Session, "gateway">): Promise<Import> {
  const { client, storage, path } = database;
  if ((await noteDeaths(storage)) > 0) {
    display.line("an earlier process was killed: what it was running starts again in about 8 seconds");
  }
  const customers = storage.imports()[0] ?? (await storage.addImport(await inspectCsv(CUSTOMERS)));
  if (customers.jobId === null) {
    await storage.setImportJob(customers.id, await client.enqueue(importFile, { importId: customers.id }));
  }
  await client.setRecurring("sales", reportSales, {}, { cron: "@every 5s", overlap: false });
  display.line(`a shop on ${shortPath(path)}; Ctrl-C closes it`);
  return customers;
}

/** Runs the jobs, here or in other processes. False = stopped before the end. */
function runJobs(session: Session): Promise<boolean> {
  const { options, database, gateway, display, stop } = session;
  const { client, storage, path } = database;
  const line = (text: string): void => display.line(text);
  const watch = { ...watchOrders(session), stop };
  if (options.workers === 0) {
    const { url } = gateway;
    return runServer(storage, (worker) => makeServer({ database, gateway: url, worker, onProblem: line }), watch);
  }
  const program = join(import.meta.dirname, "worker.ts");
  const when = ({ totals, expected }: View): boolean => totals.paid >= (expected ?? 0) * KILL_AT;
  return runWorkers(
    { count: options.workers, program, args: [path, gateway.url], onProblem: line },
    // Best between a charge and the note of it in the database.
    { client, log: storage, when, kinds: [chargePayment.kind, importFile.kind, importRow.kind], line },
    watch,
  );
}

/** Shows how the shop does, and lets orders come in. */
function watchOrders({ options, database, gateway, display, stop }: Session) {
  const rate = new Rate();
  const started = performance.now();
  const before = database.orders.totals().orders;
  const expected = options.once ? before + options.jobs : null;
  let placed = 0;
  return {
    look: async (): Promise<View> => {
      const progress = await readProgress(database, gateway);
      const elapsed = performance.now() - started;
      const drained = progress.idle && options.once && placed === options.jobs;
      const view = { ...progress, elapsed, expected, drained, stopping: stop.aborted };
      const shown = { ...view, rate: rate.add(progress.totals.paid, elapsed) };
      display.show(shown);
      return shown;
    },
    each: async ({ elapsed }: View): Promise<void> => {
      const due = Math.min((options.once ? options.jobs : ordersDue(elapsed)) - placed, CHUNK);
      for (let count = 0; count < due; count++, placed++) {
        await placeOrder(database.store, database.client, randomOrder());
      }
    },
  };
}

async function check({ database, display }: Omit<Session, "gateway">, customers: Import): Promise<number> {
  const { client, storage, path } = database;
  const verdict = judge({ ...(await collectEvidence(database)), ...readGateway(gatewayPath(path)) });
  const ofImport = imported.judge(await imported.collectEvidence(client, storage, customers));
  const problems = [...verdict.problems, ...ofImport.problems.map((problem) => `import: ${problem}`)];
  for (const problem of problems) display.line(problem);
  if (problems.length > 0) display.line(`the database is ${path}`);
  display.line(`import: ${imported.verdictLine(ofImport)}`);
  display.line(DEFINITION);
  console.log(verdictLine(verdict));
  return problems.length === 0 ? 0 : 1;
}

await runMain(main);
