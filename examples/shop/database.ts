/** The shop's database: kiln's jobs, the shop's tables and those of the import in one file. */
import * as imports from "../import/database.ts";
import { removeDatabase, removeFile } from "../shared/database.ts";
import { createTables, Orders } from "./orders.ts";

export interface Database extends imports.Database {
  readonly orders: Orders;
}

/** Opens the file, or makes it and its directory. @throws UserError */
export async function openDatabase(path: string): Promise<Database> {
  const database = await imports.openDatabase(path);
  await createTables(database.store);
  const orders = new Orders(path);
  return {
    ...{ ...database, orders },
    async close() {
      orders.close();
      await database.close();
    },
  };
}

/** The gateway's own database: really it would be out of the shop's reach. */
export function gatewayPath(path: string): string {
  return `${path}.gateway`;
}

/** Removes both databases, if they are this program's and nobody uses them. @throws UserError */
export async function resetDatabases(path: string): Promise<void> {
  await removeDatabase(path, /^(kiln|import|shop|sqlite)_/);
  await removeFile(gatewayPath(path));
}
