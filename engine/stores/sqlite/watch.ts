/**
 * Sees what other connections commit, in this process or another, by the changes of the write-ahead log. While nothing
 * happens it costs nothing; while the log changes, one cheap look at the database every 2 ms at most.
 */
import { type FSWatcher, watch } from "node:fs";
import { StoreError } from "../../errors.ts";
import type { CancelTimer } from "../../runtime.ts";
import type { StoreEvent } from "../../store.ts";
import type { Connection } from "./connection.ts";
import { pausedQueues } from "./coordinate.ts";
import { logOf } from "./file.ts";

/** Shortest time between two looks. */
const PAUSE = 2;
/**
 * The log is written before the commit becomes visible, by as long as the disk takes to confirm it. So the looks go on
 * after a change, with pauses that double up to this; together 2 s.
 */
const LONGEST_PAUSE = 1_024;
/** Until the next try to watch, after that has failed. */
const RECONNECT = 1_000;

/** What the events of others are found by: the differences between two looks. */
interface Seen {
  readonly version: number;
  /** Grows with each job inserted and each time that jobs became ready otherwise. */
  readonly waiting: number;
  /** Grows with each change of a recurring job. */
  readonly recurring: number;
  readonly cancelling: ReadonlySet<number>;
  readonly paused: ReadonlySet<string>;
}

const WAITING = "SELECT sum(value) FROM kiln_sequences WHERE name <> 'recurring'";
const RECURRING = "SELECT value FROM kiln_sequences WHERE name = 'recurring'";
const CANCELLING = "SELECT id FROM kiln_jobs INDEXED BY kiln_jobs_cancelling WHERE cancel_requested = 1";

export class Watch {
  readonly #db: Connection;
  readonly #emit: (event: StoreEvent) => void;
  #watcher: FSWatcher | null = null;
  #timer: CancelTimer | null = null;
  #pause = PAUSE;
  #lastLook = Number.NEGATIVE_INFINITY;
  #seen: Seen | null = null;
  #isDown = false;

  /** `emit` gets the events of others, and `disconnected` and `connected` when the watch fails and comes back. */
  constructor(db: Connection, emit: (event: StoreEvent) => void) {
    this.#db = db;
    this.#emit = emit;
  }

  /** True while events of others are missed. */
  get isDown(): boolean {
    return this.#isDown;
  }

  /** Does nothing when it has started. */
  start(): void {
    if (!this.#watcher && !this.#isDown) this.#connect();
  }

  stop(): void {
    this.#disconnect();
    this.#isDown = false;
  }

  #connect(): void {
    const log = logOf(this.#db.path);
    try {
      // The directory, because the log itself is removed and made again.
      this.#watcher = watch(log.directory, (_change, name) => {
        if (name === null || name === log.name) this.#touched();
      });
      this.#watcher.on("error", () => this.#fail());
      this.#seen = this.#read();
    } catch {
      this.#fail();
      return;
    }
    if (this.#isDown) this.#emit({ type: "connected" });
    this.#isDown = false;
  }

  #disconnect(): void {
    this.#timer?.();
    this.#timer = null;
    this.#watcher?.close();
    this.#watcher = null;
    this.#seen = null;
  }

  #fail(): void {
    this.#disconnect();
    if (!this.#isDown) this.#emit({ type: "disconnected" });
    this.#isDown = true;
    this.#timer = this.#db.runtime.timer(RECONNECT, () => this.#connect());
  }

  #touched(): void {
    this.#pause = PAUSE;
    const since = this.#db.runtime.monotonic() - this.#lastLook;
    if (since >= PAUSE) this.#look();
    else this.#lookIn(PAUSE - since);
  }

  #lookIn(ms: number): void {
    this.#timer?.();
    this.#timer = this.#db.runtime.timer(ms, () => this.#look());
  }

  #look(): void {
    this.#lastLook = this.#db.runtime.monotonic();
    try {
      this.#compare(this.#read());
    } catch (error) {
      // Whoever has the lock writes to the log, and is seen then.
      if (!(error instanceof StoreError && error.code === "store_busy")) {
        this.#fail();
        return;
      }
    }
    if (this.#pause <= LONGEST_PAUSE) this.#lookIn(this.#pause);
    this.#pause *= 2;
  }

  #read(): Seen {
    const version = this.#db.dataVersion();
    if (this.#seen?.version === version) return this.#seen;
    return this.#db.readNow(() => ({
      version,
      waiting: this.#db.get<[number]>(WAITING)?.[0] ?? 0,
      recurring: this.#db.get<[number]>(RECURRING)?.[0] ?? 0,
      cancelling: new Set(this.#db.all<[number]>(CANCELLING).map(([id]) => id)),
      paused: new Set(pausedQueues(this.#db)),
    }));
  }

  /** Emits what is new. This store's own doings may be among it: events may come twice. */
  #compare(now: Seen): void {
    const before = this.#seen;
    this.#seen = now;
    if (before === null || before === now) return;
    if (now.waiting !== before.waiting) this.#emit({ type: "ready", queue: null, delay: 0 });
    if (now.recurring !== before.recurring) this.#emit({ type: "recurring" });
    for (const id of missing(now.cancelling, before.cancelling)) this.#emit({ type: "cancel", id });
    const toggled = [...missing(now.paused, before.paused), ...missing(before.paused, now.paused)];
    for (const queue of toggled) this.#emit({ type: "queue", queue });
  }
}

/** What is in `from` and not in `other`. */
const missing = <T>(from: ReadonlySet<T>, other: ReadonlySet<T>): T[] => [...from].filter((item) => !other.has(item));
