/** How fast a server works through a backlog, against a loop that does no more than the rows need. */
import { join } from "node:path";
import { defineJob } from "../../engine/job.ts";
import { Server } from "../../engine/server/server.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { compare, progress, timed, withDirectory } from "../measure.ts";
import { atLeast, type Row } from "../report.ts";
import { makeFile, onCopiesOf, openBare, QUEUE } from "./files.ts";

const JOBS = 50_000;
const BATCH = 100;
const ROUNDS = 5;
/** How often a server is asked how far it is, milliseconds. */
const LOOK = 2;

const noop = defineJob("noop", { queue: QUEUE });

export async function drain(): Promise<Row[]> {
  progress(`drain: ${JOBS} jobs, ${ROUNDS} rounds`);
  return withDirectory(async (directory) => {
    const template = join(directory, "template.db");
    await makeFile(template, [{ kinds: [noop.kind], count: JOBS, priorities: [0] }]);
    const onCopy = onCopiesOf(template);
    const { a, b, ratio } = await compare(
      ROUNDS,
      () => onCopy(drainBare),
      () => onCopy(drainServer),
    );
    return [
      { name: "drain: server ÷ bare loop", value: ratio, unit: "×", target: atLeast(0.5) },
      { name: "drain: server", value: (JOBS / b) * 1_000, unit: "jobs/s", target: null },
      { name: "drain: bare loop", value: (JOBS / a) * 1_000, unit: "jobs/s", target: null },
    ];
  });
}

async function drainServer(path: string): Promise<number> {
  const store = await SqliteStore.open({ path });
  const server = new Server(store, { handlers: [noop.handler(() => {})], queues: { [QUEUE]: BATCH } });
  const stop = new AbortController();
  let run = Promise.resolve();
  const time = await timed(async () => {
    run = server.run({ signal: stop.signal });
    while (server.stats().succeeded < JOBS) await new Promise((resolve) => setTimeout(resolve, LOOK));
  });
  stop.abort();
  await run;
  await store.close();
  return time;
}

const CLAIM = `UPDATE kiln_jobs SET state = 'processing', attempt = attempt + 1, claim = claim + 1, attempted_at = :now,
    server = 'bare', claim_sequence = :sequence, cancel_requested = 0
  WHERE id IN (SELECT id FROM kiln_jobs INDEXED BY kiln_jobs_ready
    WHERE state = 'enqueued' AND queue = '${QUEUE}' AND kind = '${noop.kind}' ORDER BY priority DESC, id LIMIT ${BATCH})
  RETURNING id, claim, kind, queue, args, priority, attempt, max_attempts, timeout, run_at, deadline, created_at, title,
    tags, meta, params, attempted_at`;

const KEPT = `id, kind, queue, priority, run_at, attempt, max_attempts, claim, server, created_at, attempted_at, deadline,
  timeout, title, tags, meta, params, history, args`;
const ARCHIVE = `INSERT INTO kiln_archive (state, finalized_at, ${KEPT})
  SELECT 'succeeded', :now, ${KEPT} FROM kiln_jobs WHERE id IN (SELECT value FROM json_each(:ids))`;
const DELETE = "DELETE FROM kiln_jobs WHERE id IN (SELECT value FROM json_each(:ids))";

/** Two transactions for each batch: one claims, the other archives and deletes. */
async function drainBare(path: string): Promise<number> {
  const db = openBare(path);
  const claim = db.prepare(CLAIM);
  claim.setReturnArrays(true);
  const archive = db.prepare(ARCHIVE);
  const remove = db.prepare(DELETE);
  let done = 0;
  const time = await timed(() => {
    for (let sequence = 1; ; sequence += 1) {
      db.exec("BEGIN IMMEDIATE");
      const rows = claim.all({ now: Date.now(), sequence }) as unknown as [number][];
      db.exec("COMMIT");
      if (rows.length === 0) return;
      const ids = JSON.stringify(rows.map(([id]) => id));
      db.exec("BEGIN IMMEDIATE");
      archive.run({ now: Date.now(), ids });
      remove.run({ ids });
      db.exec("COMMIT");
      done += rows.length;
    }
  });
  db.close();
  if (done !== JOBS) throw new Error(`the bare loop has done ${done} of ${JOBS} jobs`);
  return time;
}
