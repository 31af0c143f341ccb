/**
 * A process that calls a SQLite store on request. Started by `sqlite-support.ts`, which has the other side of the
 * conversation.
 */
import { closeSync, openSync } from "node:fs";
import { SqliteStore, type SqliteStoreOptions } from "../../engine/stores/sqlite/index.ts";

export interface Request {
  readonly id: number;
  readonly command: "open" | "call" | "subscribe" | "dropPrivileges" | "takeFiles" | "freeFiles" | "leave";
  readonly options?: SqliteStoreOptions;
  readonly method?: string;
  readonly args?: readonly unknown[];
}

/** `at` is on the clock that all processes of the machine share, in milliseconds. */
export type Message =
  | { readonly type: "reply"; readonly id: number; readonly value: unknown; readonly at: number }
  | { readonly type: "failure"; readonly id: number; readonly code: string; readonly message: string }
  | { readonly type: "event"; readonly event: unknown; readonly at: number };

/** No account of a person or service. */
const NOBODY = 65_534;

let store: SqliteStore | null = null;
const taken: number[] = [];

export const clock = (): number => Number(process.hrtime.bigint()) / 1e6;

const send = (message: Message): void => {
  process.send?.(message);
};

/** For when the test is gone. */
const exit = (): never => process.exit();

async function answer({ command, options, method = "", args = [] }: Request): Promise<unknown> {
  switch (command) {
    case "open":
      if (options) store = await SqliteStore.open(options);
      return null;
    case "call":
      return (store as unknown as Record<string, (...args: readonly unknown[]) => Promise<unknown>>)[method]?.(...args);
    case "subscribe":
      store?.subscribe((event) => send({ type: "event", event, at: clock() }));
      return null;
    case "dropPrivileges":
      process.setgid?.(NOBODY);
      process.setuid?.(NOBODY);
      return null;
    case "takeFiles":
      takeFiles();
      return null;
    case "freeFiles":
      for (const file of taken.splice(0)) closeSync(file);
      return null;
    case "leave":
      // Nothing but what is still open keeps the process from ending.
      process.off("disconnect", exit);
      process.disconnect();
      return null;
  }
}

/** Opens files until the process may open no more. */
function takeFiles(): void {
  try {
    while (true) taken.push(openSync(import.meta.filename, "r"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EMFILE") throw error;
  }
}

if (import.meta.main) {
  process.on("disconnect", exit);
  process.on("message", (request: Request) => {
    const at = clock();
    answer(request).then(
      (value) => request.command !== "leave" && send({ type: "reply", id: request.id, value, at }),
      (error: Error & { code?: string }) =>
        send({ type: "failure", id: request.id, code: error.code ?? "", message: error.message }),
    );
  });
}
