import { ConflictError } from "../../errors.ts";
import type { Beat, BeatReply, LeadQuery, LeadReply, Orphan, ServerInfo } from "../../store.ts";
import { type Data, livingServer, type Row } from "./data.ts";

export function register(data: Data, server: ServerInfo): void {
  if (data.servers.has(server.id)) throw new ConflictError(`server ${server.id} was registered before`);
  const now = data.runtime.now();
  const info = { ...server, queues: Object.freeze([...server.queues]), kinds: Object.freeze([...server.kinds]) };
  data.servers.set(server.id, { info, startedAt: now, heartbeatAt: now, deadAt: null, running: 0 });
}

export function heartbeat(data: Data, beat: Beat): BeatReply {
  const server = livingServer(data, beat.server);
  if (!server) return { known: false, leases: [], pausedQueues: [] };
  server.heartbeatAt = data.runtime.now();
  server.running = beat.running;
  return {
    known: true,
    leases: [...(data.held.get(beat.server) ?? [])].map(({ id, claim, sequence, cancelRequested }) => ({
      id,
      claim,
      sequence,
      cancelRequested,
    })),
    pausedQueues: [...data.paused].sort(),
  };
}

export function unregister(data: Data, server: string): void {
  data.servers.delete(server);
}

export function lead(data: Data, { name, holder, ttl }: LeadQuery): LeadReply {
  const now = data.runtime.now();
  const current = data.leases.get(name);
  const unexpired = current !== undefined && current.expiresAt > now;
  if (unexpired && current.holder !== holder) return { held: false, heldFor: 0 };
  const acquiredAt = unexpired ? current.acquiredAt : now;
  data.leases.set(name, { holder, acquiredAt, expiresAt: now + ttl });
  return { held: true, heldFor: now - acquiredAt };
}

export function resign(data: Data, { name, holder }: Omit<LeadQuery, "ttl">): void {
  if (data.leases.get(name)?.holder === holder) data.leases.delete(name);
}

export function orphans(data: Data, limit: number): Orphan[] {
  declareDead(data);
  const rows: Row[] = [];
  for (const [server, held] of data.held) {
    if (!livingServer(data, server)) rows.push(...held);
  }
  return rows
    .sort((a, b) => a.id - b.id)
    .slice(0, limit)
    .map(toOrphan);
}

function declareDead(data: Data): void {
  const now = data.runtime.now();
  for (const server of data.servers.values()) {
    if (server.deadAt === null && now - server.heartbeatAt > server.info.deadAfter) server.deadAt = now;
  }
}

function toOrphan(row: Row): Orphan {
  return {
    id: row.id,
    claim: row.claim,
    kind: row.kind,
    queue: row.queue,
    attempt: row.attempt,
    maxAttempts: row.maxAttempts,
    server: row.server ?? "",
    cancelRequested: row.cancelRequested,
    lastReason: row.history.at(-1)?.reason ?? null,
  };
}
