/** The server that every process of the import runs. */
import { Server, type Store } from "kiln";
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
    handlers: handlers(storage, worker),
    queues: { [FILES]: 1, [ROWS]: concurrency },
    // Shorter than the defaults, so that the jobs of a process that was killed are run again after about 7 seconds instead
    // of a minute. deadAfter must exceed 3 × heartbeatInterval + killGrace + 5s.
    heartbeatInterval: "250ms",
    killGrace: "500ms",
    deadAfter: "6.5s",
    leaderTtl: "1s",
    // Rows take milliseconds; the reading of the file is handed back after this and goes on at its checkpoint.
    shutdownTimeout: "1s",
    // The final check counts every job.
    retention: { succeeded: false, deleted: false },
    logger: {
      debug: () => {},
      info: () => {},
      warn: (message, fields) => onProblem(describe(message, fields)),
      error: (message, fields) => onProblem(describe(message, fields)),
    },
  });
}

function describe(message: string, fields: Readonly<Record<string, unknown>> = {}): string {
  const details = Object.entries(fields).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return [message, ...details].join(", ");
}
