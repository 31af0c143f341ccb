/** Jobs that wait for each other and are enqueued together. */
import type { JobSpec } from "./job.ts";

/**
 * Collects jobs for one call of `Client.enqueueMany`, and tells the position of each, for `needs` of others:
 *
 *     const flow = new Flow();
 *     const paid = flow.add(chargeCard.spec({ order: 7 }));
 *     flow.add(sendReceipt.spec({ order: 7 }, { needs: [paid] }));
 *     await client.enqueueMany(flow.specs);
 */
export class Flow {
  readonly #specs: JobSpec[] = [];

  /** Returns the job's position. */
  add(spec: JobSpec): number {
    return this.#specs.push(spec) - 1;
  }

  /** The jobs added so far, in order. */
  get specs(): readonly JobSpec[] {
    return [...this.#specs];
  }
}
