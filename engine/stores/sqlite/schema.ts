/**
 * The tables, all named `kiln_…` because the file may be the application's own.
 *
 * Instants are whole milliseconds since 1970. What most jobs lack (tags, meta, params, history, …) is NULL, and long
 * texts stand last in a row, so that reading the other columns never touches their pages.
 */
import { StoreError } from "../../errors.ts";
import type { Connection, Transaction } from "./connection.ts";

interface Migration {
  readonly name: string;
  readonly sql: string;
}

/**
 * Live jobs (scheduled, enqueued, processing, failed) are in `kiln_jobs`, ended ones in `kiln_archive`. All indexes on
 * live jobs are partial: a job is in those of its state alone, so that inserting a plain job writes one of them.
 */
const SPINE = `
  CREATE TABLE kiln_jobs (
    id               INTEGER PRIMARY KEY,
    state            TEXT NOT NULL,
    kind             TEXT NOT NULL,
    queue            TEXT NOT NULL,
    priority         INTEGER NOT NULL,
    run_at           INTEGER NOT NULL,
    attempt          INTEGER NOT NULL DEFAULT 0,
    max_attempts     INTEGER NOT NULL,
    claim            INTEGER NOT NULL DEFAULT 0,
    claim_sequence   INTEGER NOT NULL DEFAULT 0,
    server           TEXT,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL,
    attempted_at     INTEGER,
    finalized_at     INTEGER,
    deadline         INTEGER,
    -- May have a fraction.
    timeout          REAL,
    title            TEXT,
    tags             TEXT,
    meta             TEXT,
    params           TEXT,
    history          TEXT,
    args             TEXT NOT NULL
  ) STRICT;

  -- The order of claims: one lane for each kind of a queue. run_at is there for the latency of queues.
  CREATE INDEX kiln_jobs_ready ON kiln_jobs (queue, kind, priority DESC, id, run_at) WHERE state = 'enqueued';
  -- What a lane's jobs become due by.
  CREATE INDEX kiln_jobs_due ON kiln_jobs (queue, kind, run_at, id) WHERE state = 'scheduled';
  CREATE INDEX kiln_jobs_scheduled ON kiln_jobs (run_at, id, queue, kind) WHERE state = 'scheduled';
  CREATE INDEX kiln_jobs_retries ON kiln_jobs (attempt) WHERE state = 'scheduled' AND attempt > 0;
  -- The leases of each server.
  CREATE INDEX kiln_jobs_held ON kiln_jobs (server, id) WHERE state = 'processing';
  CREATE INDEX kiln_jobs_cancelling ON kiln_jobs (id) WHERE cancel_requested = 1;
  CREATE INDEX kiln_jobs_failed ON kiln_jobs (finalized_at, id, queue, kind) WHERE state = 'failed';
  CREATE INDEX kiln_jobs_failed_queue ON kiln_jobs (queue) WHERE state = 'failed';

  CREATE TABLE kiln_archive (
    id               INTEGER PRIMARY KEY,
    state            TEXT NOT NULL,
    kind             TEXT NOT NULL,
    queue            TEXT NOT NULL,
    priority         INTEGER NOT NULL,
    run_at           INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    max_attempts     INTEGER NOT NULL,
    claim            INTEGER NOT NULL,
    server           TEXT,
    created_at       INTEGER NOT NULL,
    attempted_at     INTEGER,
    finalized_at     INTEGER NOT NULL,
    deadline         INTEGER,
    timeout          REAL,
    title            TEXT,
    tags             TEXT,
    meta             TEXT,
    params           TEXT,
    history          TEXT,
    args             TEXT NOT NULL,
    output           TEXT
  ) STRICT;
  CREATE INDEX kiln_archive_ended ON kiln_archive (state, finalized_at, id);

  -- jobs: the id given last, so that ids are never reused. ready: how often jobs became ready otherwise; other processes
  -- watch both.
  CREATE TABLE kiln_sequences (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  INSERT INTO kiln_sequences (name, value) VALUES ('jobs', 0), ('ready', 0);

  -- How attempts ended, by the start of their minute. The row of minute -1 has the all-time totals.
  CREATE TABLE kiln_stats (
    minute    INTEGER NOT NULL,
    server    TEXT NOT NULL,
    succeeded INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    deleted   INTEGER NOT NULL,
    retried   INTEGER NOT NULL,
    PRIMARY KEY (minute, server)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE kiln_servers (
    id           TEXT PRIMARY KEY,
    hostname     TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    version      TEXT NOT NULL,
    queues       TEXT NOT NULL,
    kinds        TEXT NOT NULL,
    workers      INTEGER NOT NULL,
    running      INTEGER NOT NULL DEFAULT 0,
    dead_after   REAL NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    dead_at      INTEGER
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE kiln_leases (
    name        TEXT PRIMARY KEY,
    holder      TEXT NOT NULL,
    acquired_at INTEGER NOT NULL,
    expires_at  REAL NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE kiln_paused_queues (queue TEXT PRIMARY KEY, paused_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`;

/** Beside the jobs' rows, so that a job that never reports anything is as it was, and none is rewritten for a report. */
const CONSOLE = `
  CREATE TABLE kiln_console (
    job     INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    text    TEXT NOT NULL,
    PRIMARY KEY (job, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE kiln_progress (job INTEGER PRIMARY KEY, percent REAL NOT NULL) STRICT;
`;

/** The template is JSON: checked here too, so that a row that was changed by hand can't make others unreadable. */
const RECURRING = `
  ALTER TABLE kiln_jobs ADD COLUMN recurring_id TEXT;
  ALTER TABLE kiln_archive ADD COLUMN recurring_id TEXT;

  CREATE TABLE kiln_recurring (
    id          TEXT PRIMARY KEY,
    version     INTEGER NOT NULL,
    group_name  TEXT,
    cron        TEXT NOT NULL,
    time_zone   TEXT NOT NULL,
    misfire     TEXT NOT NULL,
    overlap     INTEGER NOT NULL,
    paused      INTEGER NOT NULL,
    next_run_at INTEGER,
    last_run_at INTEGER,
    last_job_id INTEGER,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    template    TEXT NOT NULL CHECK (json_valid(template) AND json_type(template) = 'object')
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX kiln_recurring_due ON kiln_recurring (next_run_at, id) WHERE paused = 0 AND next_run_at IS NOT NULL;
  INSERT INTO kiln_sequences (name, value) VALUES ('recurring', 0);
`;

/** The keys that are held. Live and ended jobs keep the key that they take again when they are requeued. */
const UNIQUE = `
  ALTER TABLE kiln_jobs ADD COLUMN unique_key TEXT;
  ALTER TABLE kiln_archive ADD COLUMN unique_key TEXT;

  -- Without an expiry a key is held until its job ends.
  CREATE TABLE kiln_unique_keys (
    key        TEXT PRIMARY KEY,
    job_id     INTEGER NOT NULL,
    expires_at INTEGER
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX kiln_unique_keys_expiry ON kiln_unique_keys (expires_at) WHERE expires_at IS NOT NULL;
`;

/**
 * What jobs wait for. A row of kiln_dependencies stays as long as its child; those that are not met yet stand together.
 */
const DEPENDENCIES = `
  -- Ids as JSON.
  ALTER TABLE kiln_jobs ADD COLUMN parents TEXT;
  ALTER TABLE kiln_archive ADD COLUMN parents TEXT;
  ALTER TABLE kiln_jobs ADD COLUMN pending_parents INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX kiln_jobs_awaiting ON kiln_jobs (id, queue, kind) WHERE state = 'awaiting';
  CREATE INDEX kiln_jobs_awaiting_queue ON kiln_jobs (queue) WHERE state = 'awaiting';

  -- mask: the ends of the parent that are asked for: 1 succeeded, 2 failed, 4 deleted.
  CREATE TABLE kiln_dependencies (
    resolved  INTEGER NOT NULL,
    parent_id INTEGER NOT NULL,
    job_id    INTEGER NOT NULL,
    mask      INTEGER NOT NULL,
    PRIMARY KEY (resolved, parent_id, job_id)
  ) STRICT, WITHOUT ROWID;

  -- Jobs that have ended and whose children were too many to be dealt with at once, in the order in which they ended.
  CREATE TABLE kiln_ended_parents (
    number    INTEGER PRIMARY KEY,
    parent_id INTEGER NOT NULL,
    ended     TEXT NOT NULL
  ) STRICT;
`;

/** A job's rule is kept with it for the time when its key has been forgotten: `[max, rate, per, burst]`. */
const LIMITS = `
  ALTER TABLE kiln_jobs ADD COLUMN limit_key TEXT;
  ALTER TABLE kiln_jobs ADD COLUMN limit_rule TEXT;
  ALTER TABLE kiln_archive ADD COLUMN limit_key TEXT;
  ALTER TABLE kiln_archive ADD COLUMN limit_rule TEXT;

  -- What a key's jobs are claimed in.
  CREATE INDEX kiln_jobs_throttled ON kiln_jobs (queue, kind, limit_key, priority DESC, id) WHERE state = 'throttled';
  -- The most urgent ones whatever their keys.
  CREATE INDEX kiln_jobs_throttled_order ON kiln_jobs (queue, kind, priority DESC, id, limit_key) WHERE state = 'throttled';
  CREATE INDEX kiln_jobs_limited ON kiln_jobs (limit_key) WHERE state = 'processing' AND limit_key IS NOT NULL;

  -- A row for each lane of a key. tat is in microseconds; rule_of is the newest job that the rule was seen with.
  CREATE TABLE kiln_limits (
    key     TEXT NOT NULL,
    queue   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    max     INTEGER NOT NULL,
    rate    INTEGER NOT NULL,
    per     INTEGER NOT NULL,
    burst   INTEGER NOT NULL,
    tat     INTEGER NOT NULL,
    rule_of INTEGER NOT NULL,
    open_at INTEGER,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (key, queue, kind)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX kiln_limits_open ON kiln_limits (queue, kind, open_at) WHERE open_at IS NOT NULL;
  CREATE INDEX kiln_limits_unused ON kiln_limits (used_at) WHERE open_at IS NULL;
`;

/** The order of pages, by state, as one number that goes up or down with it. Part of a migration, so never changed. */
export const RANK = `CASE state WHEN 'scheduled' THEN run_at WHEN 'enqueued' THEN -priority WHEN 'throttled' THEN -priority
  WHEN 'failed' THEN finalized_at ELSE 0 END`;

const BATCHES = `
  ALTER TABLE kiln_jobs ADD COLUMN batch_id INTEGER;
  ALTER TABLE kiln_archive ADD COLUMN batch_id INTEGER;

  -- Members, and runs of recurring jobs, in the order of pages.
  CREATE INDEX kiln_jobs_batch ON kiln_jobs (batch_id, state, ${RANK}, id) WHERE batch_id IS NOT NULL;
  CREATE INDEX kiln_archive_batch ON kiln_archive (batch_id, state, finalized_at, id) WHERE batch_id IS NOT NULL;
  CREATE INDEX kiln_jobs_recurring ON kiln_jobs (recurring_id, state, ${RANK}, id) WHERE recurring_id IS NOT NULL;
  CREATE INDEX kiln_archive_recurring ON kiln_archive (recurring_id, state, finalized_at, id)
    WHERE recurring_id IS NOT NULL;

  -- live: members that are not archived; open_nested: nested batches that have not finished; needed: rows of members, of jobs
  -- that wait or waited for it and of nested batches. A job that waits for a batch has the batch's negative id among its parents.
  CREATE TABLE kiln_batches (
    id          INTEGER PRIMARY KEY,
    parent_id   INTEGER,
    sealed      INTEGER NOT NULL DEFAULT 0,
    total       INTEGER NOT NULL DEFAULT 0,
    live        INTEGER NOT NULL DEFAULT 0,
    nested      INTEGER NOT NULL DEFAULT 0,
    open_nested INTEGER NOT NULL DEFAULT 0,
    needed      INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER,
    description TEXT,
    meta        TEXT
  ) STRICT;
  CREATE INDEX kiln_batches_parent ON kiln_batches (parent_id, id) WHERE parent_id IS NOT NULL;
  CREATE INDEX kiln_batches_unused ON kiln_batches (finished_at, id) WHERE finished_at IS NOT NULL AND needed = 0;
  INSERT INTO kiln_sequences (name, value) VALUES ('batches', 0);
`;

/** Never changed once released; new ones are added at the end. A migration's number is its place, from 1. */
export const MIGRATIONS: readonly Migration[] = [
  { name: "spine", sql: SPINE },
  { name: "console", sql: CONSOLE },
  { name: "recurring", sql: RECURRING },
  { name: "unique", sql: UNIQUE },
  { name: "dependencies", sql: DEPENDENCIES },
  { name: "limits", sql: LIMITS },
  { name: "batches", sql: BATCHES },
];

export const LEDGER = `CREATE TABLE IF NOT EXISTS kiln_migrations
  (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`;

/** @throws StoreError `store_newer`; the file is only read */
export async function refuseNewer(db: Connection): Promise<void> {
  await db.read(() => lastApplied(db));
}

/** Brings the tables up to date. Any number of processes may do so at once. @throws StoreError */
export async function migrate(db: Connection): Promise<void> {
  const last = await db.read(() => lastApplied(db));
  for (const [index, migration] of MIGRATIONS.entries()) {
    if (index + 1 > last) await db.write((tx) => apply(db, tx, index + 1, migration));
  }
}

function apply(db: Connection, tx: Transaction, number: number, { name, sql }: Migration): void {
  // Another process may have been here while this one waited for the lock.
  if (lastApplied(db) >= number) return;
  db.exec(LEDGER);
  db.exec(sql);
  db.run("INSERT INTO kiln_migrations (number, name, applied_at) VALUES (?, ?, ?)", number, name, tx.now);
}

/** Number of the last migration applied, 0 = none. */
function lastApplied(db: Connection): number {
  const ledger = db.get("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'kiln_migrations'");
  if (!ledger) return 0;
  const last = db.get<[number | null]>("SELECT max(number) FROM kiln_migrations")?.[0] ?? 0;
  if (last > MIGRATIONS.length) {
    throw new StoreError(
      "store_newer",
      `SQLite store ${db.path}: its schema has version ${last}, this kiln knows up to ${MIGRATIONS.length}; use a newer kiln`,
    );
  }
  return last;
}
