/** What the simulator sees of a memory store; not exported to users. */
import type { Data } from "./data.ts";
import type { MemoryStore } from "./index.ts";

export const dataOf = new WeakMap<MemoryStore, Data>();
