/** The store never answers a sweep: the process hangs in it. */
import { MemoryStore } from "kiln/memory";

MemoryStore.prototype.sweep = (): never => {
  for (;;);
};
