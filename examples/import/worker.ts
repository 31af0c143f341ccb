/** A child process of `--once --workers N`: runs a server on the database until its parent says stop, or is gone. */
import { SqliteStore } from "kiln/sqlite";
import { makeServer } from "./server.ts";
import { Storage } from "./storage.ts";

const [db = "", concurrency = ""] = process.argv.slice(2);

// Ctrl-C in a terminal reaches all processes: it is the parent who decides what it means.
process.on("SIGINT", () => {});

const stop = new AbortController();
process.on("disconnect", () => stop.abort());

const store = await SqliteStore.open({ path: db });
const storage = await Storage.open(db);
const worker = await storage.addWorker(process.pid);
const onProblem = (text: string): void => {
  if (process.connected) process.send?.(text);
};
await makeServer({ store, storage, worker, concurrency: Number(concurrency), onProblem }).run({ signal: stop.signal });
await storage.noteDeath(worker);
storage.close();
await store.close();
