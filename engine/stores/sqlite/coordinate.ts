/**
 * Servers, leases and orphans. All but `orphans` are one transaction of 1 to 3 statements on single rows; a heartbeat
 * reads besides a row for each job that its server holds. `orphans` reads 2 small tables and the running jobs, and
 * writes only when a server has died.
 */
import { ConflictError } from "../../errors.ts";
import { decodeHistory } from "../../rules/history.ts";
import type { Beat, BeatReply, LeadQuery, LeadReply, Orphan, ServerInfo } from "../../store.ts";
import type { Connection } from "./connection.ts";

const REGISTER = `INSERT INTO kiln_servers
  (id, hostname, pid, version, queues, kinds, workers, dead_after, started_at, heartbeat_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9) ON CONFLICT (id) DO NOTHING`;

export async function register(db: Connection, server: ServerInfo): Promise<void> {
  const { id, hostname, pid, version, workers, deadAfter } = server;
  const queues = JSON.stringify(server.queues);
  const kinds = JSON.stringify(server.kinds);
  return db.write((tx) => {
    const added = db.run(REGISTER, id, hostname, pid, version, queues, kinds, workers, deadAfter, tx.now);
    if (added === 0) throw new ConflictError(`server ${id} was registered before`);
  });
}

const BEAT = "UPDATE kiln_servers SET heartbeat_at = ?2, running = ?3 WHERE id = ?1 AND dead_at IS NULL";
const LEASES = `SELECT id, claim, claim_sequence, cancel_requested FROM kiln_jobs INDEXED BY kiln_jobs_held
  WHERE state = 'processing' AND server = ? ORDER BY id`;
const PAUSED = "SELECT queue FROM kiln_paused_queues ORDER BY queue";

export async function heartbeat(db: Connection, beat: Beat): Promise<BeatReply> {
  return db.write((tx) => {
    const known = db.run(BEAT, beat.server, tx.now, beat.running) > 0;
    if (!known) return { known, leases: [], pausedQueues: [] };
    const leases = db
      .all<[number, number, number, number]>(LEASES, beat.server)
      .map(([id, claim, sequence, cancel]) => ({ id, claim, sequence, cancelRequested: cancel === 1 }));
    return { known, leases, pausedQueues: pausedQueues(db) };
  });
}

/** Sorted. */
export function pausedQueues(db: Connection): string[] {
  return db.all<[string]>(PAUSED).map(([queue]) => queue);
}

export async function unregister(db: Connection, server: string): Promise<void> {
  return db.write(() => {
    db.run("DELETE FROM kiln_servers WHERE id = ?", server);
  });
}

type LeaseRow = readonly [holder: string, acquiredAt: number, expiresAt: number];

const LEASE = "SELECT holder, acquired_at, expires_at FROM kiln_leases WHERE name = ?";
const SET_LEASE = `INSERT INTO kiln_leases (name, holder, acquired_at, expires_at) VALUES (?1, ?2, ?3, ?4)
  ON CONFLICT (name) DO UPDATE SET holder = ?2, acquired_at = ?3, expires_at = ?4`;

const NOT_HELD: LeadReply = { held: false, heldFor: 0 };

/** Takes no lock while another holder's lease lasts. */
export async function lead(db: Connection, { name, holder, ttl }: LeadQuery): Promise<LeadReply> {
  const lasting = (now: number): LeaseRow | null => {
    const lease = db.get<LeaseRow>(LEASE, name);
    return lease && lease[2] > now ? lease : null;
  };
  const other = await db.read(() => {
    const lease = lasting(db.runtime.now());
    return lease !== null && lease[0] !== holder;
  });
  if (other) return NOT_HELD;
  return db.write(({ now }) => {
    const lease = lasting(now);
    if (lease !== null && lease[0] !== holder) return NOT_HELD;
    const acquiredAt = lease?.[1] ?? now;
    db.run(SET_LEASE, name, holder, acquiredAt, now + ttl);
    return { held: true, heldFor: now - acquiredAt };
  });
}

export async function resign(db: Connection, { name, holder }: Omit<LeadQuery, "ttl">): Promise<void> {
  return db.write(() => {
    db.run("DELETE FROM kiln_leases WHERE name = ? AND holder = ?", name, holder);
  });
}

const ANY_SILENT = "SELECT 1 FROM kiln_servers WHERE dead_at IS NULL AND heartbeat_at + dead_after < ? LIMIT 1";
const DECLARE_DEAD = "UPDATE kiln_servers SET dead_at = ?1 WHERE dead_at IS NULL AND heartbeat_at + dead_after < ?1";
const ORPHANS = `SELECT id, claim, kind, queue, attempt, max_attempts, server, cancel_requested, history
  FROM kiln_jobs INDEXED BY kiln_jobs_held
  WHERE state = 'processing' AND server NOT IN (SELECT id FROM kiln_servers WHERE dead_at IS NULL)
  ORDER BY id LIMIT ?`;

type OrphanRow = readonly [number, number, string, string, number, number, string, number, string | null];

export async function orphans(db: Connection, limit: number): Promise<Orphan[]> {
  const silent = await db.read(() => db.get(ANY_SILENT, db.runtime.now()) !== undefined);
  if (!silent) return db.read(() => listOrphans(db, limit));
  return db.write((tx) => {
    db.run(DECLARE_DEAD, tx.now);
    return listOrphans(db, limit);
  });
}

function listOrphans(db: Connection, limit: number): Orphan[] {
  return db
    .all<OrphanRow>(ORPHANS, limit)
    .map(([id, claim, kind, queue, attempt, maxAttempts, server, cancel, history]) => ({
      id,
      claim,
      kind,
      queue,
      attempt,
      maxAttempts,
      server,
      cancelRequested: cancel === 1,
      lastReason: history === null ? null : (decodeHistory(history).at(-1)?.reason ?? null),
    }));
}
