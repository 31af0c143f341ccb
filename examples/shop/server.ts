/** The server that every process of the shop runs. */
import { Server } from "kiln";
import * as imports from "../import/jobs.ts";
import { serverConfig } from "../shared/server.ts";
import type { Database } from "./database.ts";
import { handlers, PAPERWORK, PAYMENTS, REPORTS } from "./jobs.ts";

export interface ServerOptions {
  readonly database: Database;
  /** Address of the payment gateway. */
  readonly gateway: string;
  /** Id of this process in the storage. */
  readonly worker: number;
  /** Told what the server could not do. */
  readonly onProblem: (text: string) => void;
}

export function makeServer({ database, gateway, worker, onProblem }: ServerOptions): Server {
  const { store, orders, storage } = database;
  return new Server(store, {
    handlers: [...handlers({ store, orders, gateway }), ...imports.handlers(storage, worker)],
    // Jobs of each queue that a process runs at once.
    queues: { [PAYMENTS]: 8, [PAPERWORK]: 4, [REPORTS]: 1, [imports.FILES]: 1, [imports.ROWS]: 10 },
    ...serverConfig(onProblem),
  });
}
