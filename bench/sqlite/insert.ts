/** How fast a client enqueues many jobs, against a loop that inserts the same rows. */
import { join } from "node:path";
import { Client } from "../../engine/client.ts";
import { defineJob } from "../../engine/job.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { compare, progress, timed, withDirectory } from "../measure.ts";
import { atLeast, type Row } from "../report.ts";
import { makeFile, onCopiesOf, openBare, QUEUE } from "./files.ts";

const JOBS = 100_000;
/** Jobs of one call, and of one transaction of the bare loop. */
const CALL = 1_000;
const ROUNDS = 5;

interface Args {
  readonly to: string;
  readonly n: number;
}

const job = defineJob<Args>("mail", { queue: QUEUE });
const argsOf = (n: number): Args => ({ to: `customer-${n}@example.com`, n });

export async function insert(): Promise<Row[]> {
  progress(`insert: ${JOBS} jobs in calls of ${CALL}, ${ROUNDS} rounds`);
  return withDirectory(async (directory) => {
    const template = join(directory, "template.db");
    await makeFile(template);
    const onCopy = onCopiesOf(template);
    const { a, b, ratio } = await compare(
      ROUNDS,
      () => onCopy(insertBare),
      () => onCopy(insertClient),
    );
    return [
      { name: "bulk insert: client ÷ bare loop", value: ratio, unit: "×", target: atLeast(0.5) },
      { name: "bulk insert: client", value: (JOBS / b) * 1_000, unit: "jobs/s", target: null },
      { name: "bulk insert: bare loop", value: (JOBS / a) * 1_000, unit: "jobs/s", target: null },
    ];
  });
}

async function insertClient(path: string): Promise<number> {
  const store = await SqliteStore.open({ path });
  const client = new Client(store);
  const time = await timed(async () => {
    for (let first = 0; first < JOBS; first += CALL) {
      await client.enqueueMany(Array.from({ length: CALL }, (_, index) => job.spec(argsOf(first + index))));
    }
  });
  await store.close();
  return time;
}

/** All columns are bound, as a loop has to that inserts any job and not only these. */
const INSERT = `INSERT INTO kiln_jobs
  (id, state, kind, queue, priority, run_at, max_attempts, created_at, deadline, timeout, title, tags, meta, args)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const TAKE_IDS = "UPDATE kiln_sequences SET value = value + ? WHERE name = 'jobs' RETURNING value";

async function insertBare(path: string): Promise<number> {
  const db = openBare(path);
  const takeIds = db.prepare(TAKE_IDS);
  const insertOne = db.prepare(INSERT);
  const time = await timed(() => {
    for (let first = 0; first < JOBS; first += CALL) {
      db.exec("BEGIN IMMEDIATE");
      const last = Number(takeIds.get(CALL)?.["value"]);
      const now = Date.now();
      for (let index = 0; index < CALL; index += 1) {
        const args = JSON.stringify(argsOf(first + index));
        const id = last - CALL + 1 + index;
        insertOne.run(id, "enqueued", job.kind, QUEUE, 0, now, 10, now, null, null, null, null, null, args);
      }
      db.exec("COMMIT");
    }
  });
  db.close();
  return time;
}
