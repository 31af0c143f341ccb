/** The server that every process of the import runs. */
import { Server, type Store } from "kiln";
import { serverConfig } from "../shared/server.ts";
import { FILES, handlers, ROWS } from "./jobs.ts";
import type { Storage } from "./storage.ts";

export interface ServerOptions {
  readonly store: Store;
  readonly storage: Storage;
  /** Id of this process in the storage. */
  readonly worker: number;
  /** Rows that are worked on at once. */
  readonly concurrency: number;
  /** Told what the server could not do. */
  readonly onProblem: (text: string) => void;
}

export function makeServer({ store, storage, worker, concurrency, onProblem }: ServerOptions): Server {
  return new Server(store, {
    // Rows take milliseconds; the reading of the file is handed back at the end and goes on at its checkpoint.
    handlers: handlers(storage, worker),
    queues: { [FILES]: 1, [ROWS]: concurrency },
    ...serverConfig(onProblem),
  });
}
