/** What retention has outlived. Instants are the store's, in milliseconds since 1970; SQL stores say the same in SQL. */

/** True when a job that ended at `finalizedAt` has been kept for `age`; null = jobs of its state are kept forever. */
export function jobOutlived(finalizedAt: number, age: number | null, now: number): boolean {
  return age !== null && finalizedAt <= now - age;
}

/**
 * True when a server that was last heard of at `heartbeatAt` has been silent for longer than `age`, and for so long that
 * others may take its jobs by its own promise: without its row it would count as dead at once.
 */
export function serverOutlived(heartbeatAt: number, deadAfter: number, age: number, now: number): boolean {
  return heartbeatAt < now - Math.max(age, deadAfter);
}
