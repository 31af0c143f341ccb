/** Methods of the store, to name calls that a fault strikes. */
import type { Store } from "../../engine/store.ts";

/** Calls that a server sends. */
export const SERVER_OPS = [
  ...["claim", "finish", "heartbeat", "register", "unregister", "lead", "resign", "orphans", "sweep", "prune"],
  ...["dueRecurring", "fireRecurring", "setParams", "writeConsole", "insert"],
] as const satisfies readonly (keyof Store)[];
/** Calls that an application sends. */
export const CLIENT_OPS = [
  ...["insert", "putRecurring", "delete", "requeue", "pauseQueue", "resumeQueue"],
] as const satisfies readonly (keyof Store)[];
