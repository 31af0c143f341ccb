/** A child process of `--once --workers N`. */
import { runChild, untilParentIsGone } from "../shared/child.ts";
import { openDatabase } from "./database.ts";
import { makeServer } from "./server.ts";

const stop = untilParentIsGone();
const [db = "", concurrency = ""] = process.argv.slice(2);
const database = await openDatabase(db);
const { store, storage } = database;
await runChild(stop, storage, (worker, onProblem) =>
  makeServer({ store, storage, worker, concurrency: Number(concurrency), onProblem }),
);
await database.close();
