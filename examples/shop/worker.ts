/** A child process of `--once --workers N`. */
import { runChild, untilParentIsGone } from "../shared/child.ts";
import { openDatabase } from "./database.ts";
import { makeServer } from "./server.ts";

const stop = untilParentIsGone();
const [path = "", gateway = ""] = process.argv.slice(2);
const database = await openDatabase(path);
// The first request loads Node's HTTP client: a payment that waited for that would be late, and too close to the next ones.
await fetch(gateway);
await runChild(stop, database.storage, (worker, onProblem) => makeServer({ database, gateway, worker, onProblem }));
await database.close();
