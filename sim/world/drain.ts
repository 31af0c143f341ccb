/**
 * How the world lets all that follows from an event run before it goes on to the next: the one place of the simulator
 * that knows Node's event loop.
 */

interface Ticking {
  readonly _tickCallback?: () => void;
}

/**
 * Runs the microtasks that are due, now. It is what Node itself calls after each callback; it has been there since Node 0.10,
 * but is not documented, so it is tried before it is used.
 */
const tick = (process as unknown as Ticking)._tickCallback;

/** The real one, even while a tripwire is in its place. */
const immediate = setImmediate;

/** Calls `fn` from the event loop itself, where nothing else is under way. */
export function fromLoop(fn: () => void): void {
  immediate(fn);
}

/**
 * Null when microtasks can't be run at will; then each event needs a turn of the loop of its own, which is right but slower.
 * To be called from the loop itself.
 */
export function findDrain(): (() => void) | null {
  if (typeof tick !== "function") return null;
  let depth = 0;
  const deep = async (): Promise<void> => {
    for (; depth < 100; depth++) await null;
  };
  void deep();
  tick.call(process);
  return depth === 100 ? () => tick.call(process) : null;
}

/** Ends with `onFailure` when a promise that was rejected in between is handled by nobody. Returns how to stop listening. */
export function onUnhandledRejection(onFailure: (reason: unknown) => void): () => void {
  process.on("unhandledRejection", onFailure);
  return () => process.off("unhandledRejection", onFailure);
}
