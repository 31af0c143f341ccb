/** All attempts of this server, from the claim until the store has decided on their outcome. */
import type { JobId, JobRef } from "../store.ts";
import type { Attempt } from "./attempt.ts";

export class Attempts implements Iterable<Attempt> {
  /** By id, then by claim: a job may be claimed anew while an abandoned handler of an earlier claim still settles. */
  readonly #byId = new Map<JobId, Attempt[]>();
  #size = 0;
  #kinds = new Set<string>();

  get size(): number {
    return this.#size;
  }

  add(attempt: Attempt): void {
    const { id } = attempt.job;
    const others = this.#byId.get(id);
    if (others) others.push(attempt);
    else this.#byId.set(id, [attempt]);
    this.#size += 1;
    this.#kinds.add(attempt.job.kind);
  }

  remove(attempt: Attempt): void {
    const { id } = attempt.job;
    const left = (this.#byId.get(id) ?? []).filter((other) => other !== attempt);
    if (left.length > 0) this.#byId.set(id, left);
    else this.#byId.delete(id);
    this.#size -= 1;
  }

  get(ref: JobRef): Attempt | undefined {
    return this.#byId.get(ref.id)?.find((attempt) => attempt.job.claim === ref.claim);
  }

  has(id: JobId): boolean {
    return this.#byId.has(id);
  }

  /** Kinds of which something has run since the last call, sorted. */
  takeKinds(): string[] {
    const kinds = [...this.#kinds].sort();
    this.#kinds = new Set([...this].map((attempt) => attempt.job.kind));
    return kinds;
  }

  *[Symbol.iterator](): Iterator<Attempt> {
    for (const attempts of this.#byId.values()) yield* attempts;
  }
}
