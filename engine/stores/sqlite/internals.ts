/** What the simulator sees of a SQLite store; not exported to users. */
import type { Connection } from "./connection.ts";
import type { SqliteStore } from "./index.ts";

export const connectionOf = new WeakMap<SqliteStore, Connection>();
