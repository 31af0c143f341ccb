/** Which jobs each call of the store has changed, seen from inside the store and not from what it says. */

import type { JobId, JobState } from "../../engine/store.ts";
import type { Row } from "../../engine/stores/memory/data.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { dataOf } from "../../engine/stores/memory/internals.ts";
import type { Connection } from "../../engine/stores/sqlite/connection.ts";
import type { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { connectionOf } from "../../engine/stores/sqlite/internals.ts";

/** What the invariants are about; instants are the store's, milliseconds since 1970. */
export interface Snapshot {
  readonly state: JobState;
  readonly claim: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly server: string | null;
  readonly runAt: number;
  readonly finalizedAt: number | null;
  readonly cancelRequested: boolean;
  readonly queue: string;
  readonly priority: number;
  readonly kind: string;
  readonly args: string;
  readonly limitKey: string | null;
  readonly uniqueKey: string | null;
  readonly recurringId: string | null;
  /** Of the latest entry of its history. */
  readonly reason: string | null;
}

/** From the state before the call to the state after it. */
export interface Change {
  readonly id: JobId;
  /** Null = the call added it. */
  readonly before: Snapshot | null;
  /** Null = the call removed it. */
  readonly after: Snapshot | null;
}

export interface Audit {
  /** Changes since it was asked last, by id. */
  drain(): readonly Change[];
}

export function auditOf(store: MemoryStore | SqliteStore): Audit {
  return store instanceof MemoryStore ? new MemoryAudit(store) : new SqliteAudit(store);
}

const NONE: readonly Change[] = [];

/** Rows have more than a snapshot shows, such as checkpoints. */
function isChange({ before, after }: Change): boolean {
  if (before === null || after === null) return before !== after;
  return (Object.keys(before) as (keyof Snapshot)[]).some((field) => before[field] !== after[field]);
}

class MemoryAudit implements Audit {
  readonly #touched = new Map<JobId, { readonly row: Row; readonly before: Snapshot | null; removed: boolean }>();

  constructor(store: MemoryStore) {
    const data = dataOf.get(store);
    if (data === undefined) throw new Error("not a memory store of this program");
    data.observe = (row, what) => {
      const before = what === "add" ? null : snapshotOf(row);
      const touched = this.#touched.get(row.id) ?? { row, before, removed: false };
      touched.removed = what === "remove";
      this.#touched.set(row.id, touched);
    };
  }

  drain(): readonly Change[] {
    if (this.#touched.size === 0) return NONE;
    const changes = [...this.#touched].map(([id, { row, before, removed }]) => ({
      id,
      before,
      after: removed ? null : snapshotOf(row),
    }));
    this.#touched.clear();
    return changes.filter(isChange).sort((a, b) => a.id - b.id);
  }
}

function snapshotOf(row: Row): Snapshot {
  return {
    state: row.state,
    claim: row.claim,
    attempt: row.attempt,
    maxAttempts: row.maxAttempts,
    server: row.server,
    runAt: row.runAt,
    finalizedAt: row.finalizedAt,
    cancelRequested: row.cancelRequested,
    queue: row.queue,
    priority: row.priority,
    kind: row.kind,
    args: row.args,
    limitKey: row.limit?.key ?? null,
    uniqueKey: row.uniqueKey,
    recurringId: row.recurringId,
    reason: row.history.at(-1)?.reason ?? null,
  };
}

const COLUMNS = [
  ...["state", "claim", "attempt", "max_attempts", "server", "run_at", "finalized_at", "cancel_requested"],
  ...["queue", "kind", "args", "limit_key", "unique_key", "recurring_id", "history", "priority"],
] as const;
/** The archive has no requests to cancel. */
const TABLES = { kiln_jobs: COLUMNS, kiln_archive: COLUMNS.map((name) => (name === "cancel_requested" ? null : name)) };

function expression(row: "old" | "new", column: string | null): string {
  if (column === null) return "0";
  return column === "history" ? `json_extract(${row}.history, '$[#-1].reason')` : `${row}.${column}`;
}
const CHANGED = "SELECT id, gone, row FROM temp.sim_changes ORDER BY id, number";

/** Triggers in the connection's own temporary schema: the file itself is as it is in production. */
class SqliteAudit implements Audit {
  readonly #db: Connection;

  constructor(store: SqliteStore) {
    const db = connectionOf.get(store);
    if (db === undefined) throw new Error("not a SQLite store of this program");
    this.#db = db;
    // `gone`: the row stood there before and stands there no longer, at least not as it was.
    db.exec("CREATE TEMP TABLE sim_changes (number INTEGER PRIMARY KEY, id INTEGER, gone INTEGER, row TEXT)");
    for (const [table, columns] of Object.entries(TABLES)) {
      const row = (which: "old" | "new"): string =>
        `json_array(${columns.map((name) => expression(which, name)).join(", ")})`;
      const add = (which: "old" | "new"): string =>
        `INSERT INTO sim_changes (id, gone, row) VALUES (${which}.id, ${which === "old" ? 1 : 0}, ${row(which)});`;
      db.exec(`CREATE TEMP TRIGGER sim_${table}_insert AFTER INSERT ON main.${table} BEGIN ${add("new")} END`);
      db.exec(`CREATE TEMP TRIGGER sim_${table}_delete AFTER DELETE ON main.${table} BEGIN ${add("old")} END`);
      db.exec(
        `CREATE TEMP TRIGGER sim_${table}_update AFTER UPDATE ON main.${table} BEGIN ${add("old")} ${add("new")} END`,
      );
    }
  }

  drain(): readonly Change[] {
    const rows = this.#db.all<[id: number, gone: number, row: string]>(CHANGED);
    if (rows.length === 0) return NONE;
    this.#db.run("DELETE FROM temp.sim_changes");
    const steps = new Map<JobId, { firstGone: string | null; lastAdded: string | null; net: number }>();
    for (const [id, gone, row] of rows) {
      const step = steps.get(id) ?? { firstGone: null, lastAdded: null, net: 0 };
      if (gone === 1) step.firstGone ??= row;
      else step.lastAdded = row;
      step.net += gone === 1 ? -1 : 1;
      steps.set(id, step);
    }
    // A job stands in one of the tables before and after each call, if it is there at all.
    const changes = [...steps].map(([id, { firstGone, lastAdded, net }]) => ({
      id,
      before: net === 1 || firstGone === null ? null : decode(firstGone),
      after: net === -1 || lastAdded === null ? null : decode(lastAdded),
    }));
    return changes.filter(isChange);
  }
}

function decode(json: string): Snapshot {
  const [
    state,
    claim,
    attempt,
    maxAttempts,
    server,
    runAt,
    finalizedAt,
    cancel,
    queue,
    kind,
    args,
    limit,
    unique,
    rec,
    reason,
    priority,
  ] = JSON.parse(json) as readonly (string | number | null)[];
  return {
    state: state as JobState,
    claim: claim as number,
    attempt: attempt as number,
    maxAttempts: maxAttempts as number,
    server: server as string | null,
    runAt: runAt as number,
    finalizedAt: finalizedAt as number | null,
    cancelRequested: cancel === 1,
    queue: queue as string,
    priority: priority as number,
    kind: kind as string,
    args: args as string,
    limitKey: limit as string | null,
    uniqueKey: unique as string | null,
    recurringId: rec as string | null,
    reason: reason as string | null,
  };
}
