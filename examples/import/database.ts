/** The database of the import: kiln's jobs and the import's tables in one file. */
import { Client } from "kiln";
import type { SqliteStore } from "kiln/sqlite";
import { openStore } from "../shared/database.ts";
import { Storage } from "./storage.ts";

export interface Database {
  readonly path: string;
  readonly store: SqliteStore;
  readonly client: Client;
  readonly storage: Storage;
  close(): Promise<void>;
}

/** What all tables are named like. */
export const TABLES = /^(kiln|import|sqlite)_/;

/** Opens the file, or makes it and its directory. @throws UserError */
export async function openDatabase(path: string): Promise<Database> {
  const store = await openStore(path);
  const storage = await Storage.open(path);
  return {
    ...{ path, store, storage, client: new Client(store) },
    async close() {
      storage.close();
      await store.close();
    },
  };
}
