/** How a client writes: what of its options and of a handler's claim stands around each of its calls. */
import type { BatchWriter } from "./batch.ts";
import { type EnqueueInterceptor, interceptedWriter } from "./enqueuer.ts";
import type { Runtime } from "./runtime.ts";
import type { JobRef } from "./store.ts";

/** Options of a client that were checked: whoever has one need not check it again. */
export class ClientSettings {
  readonly interceptors: readonly EnqueueInterceptor[];
  readonly runtime: Runtime;
  /** The claim that must hold its job when something is added; null = none. */
  readonly #whileHeld: JobRef | null;

  constructor(interceptors: readonly EnqueueInterceptor[], runtime: Runtime, whileHeld: JobRef | null = null) {
    this.interceptors = interceptors;
    this.runtime = runtime;
    this.#whileHeld = whileHeld;
  }

  static is(value: unknown): value is ClientSettings {
    return typeof value === "object" && value !== null && #whileHeld in value;
  }

  /** The same for a handler's claim. */
  whileHeld(ref: JobRef): ClientSettings {
    return new ClientSettings(this.interceptors, this.runtime, ref);
  }

  /** What a client writes with. Interceptors see its jobs, not how their claim is checked. */
  around(writer: BatchWriter): BatchWriter {
    const held = this.#whileHeld === null ? writer : heldWriter(this.#whileHeld, writer);
    return interceptedWriter(this.interceptors, held);
  }
}

/**
 * Adds jobs and batches only while the claim holds its job. A batch has no such option of its own, so the claim is asked for
 * by itself; batches are written in a transaction, in which what has held once holds until the end.
 */
const heldWriter = (whileHeld: JobRef, writer: BatchWriter): BatchWriter => ({
  insert: (jobs) => writer.insert(jobs, { whileHeld }),
  async openBatch(batch) {
    await writer.insert([], { whileHeld });
    return writer.openBatch(batch);
  },
  sealBatch: (id) => writer.sealBatch(id),
});
