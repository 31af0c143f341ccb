/** The suite `limits`: what a claim of limited jobs takes in SQLite, against one of jobs without a limit. */
import { join } from "node:path";
import type { Limit, NewJob, Store } from "../engine/store.ts";
import { SqliteStore } from "../engine/stores/sqlite/index.ts";
import { progress, quantile, withDirectory } from "./measure.ts";
import { below, type Report, type Row } from "./report.ts";
import { QUEUE } from "./sqlite/files.ts";

const KEYS = 100_000;
/** Jobs in each file; with many keys each has a backlog. */
const JOBS = 2 * KEYS;
/** Jobs that one claim asks for, and claims of each measure. */
const LIMIT = 10;
const CLAIMS = 1_000;
/** Calls that are under way at once where workers compete. */
const WORKERS = 32;
const SERVER = "bench";

/** A rate that is never the reason to wait. */
const AMPLE = { max: 0, rate: 1_000_000, per: 1_000, burst: 1_000_000 } as const;
const HOT: Limit = { key: "hot", ...AMPLE };

export async function run(): Promise<Report> {
  const rows = await withDirectory(async (directory) => {
    const plain = await makeStore(directory, "plain", () => null);
    const hot = await makeStore(directory, "hot", () => HOT);
    const many = await makeStore(directory, "many", (n) => {
      return { key: `key ${n % KEYS}`, max: 0, rate: 1, per: 60_000, burst: 1 };
    });
    const stores = { plain, "1 hot key": hot, "100,000 keys": many };
    const found = [
      ...(await compare("claim of 10", stores, 0.95, (store) => inTurn(store, LIMIT))),
      ...(await compare(`claim of 1 by ${WORKERS} at once`, stores, 0.99, competing)),
    ];
    for (const store of Object.values(stores)) await store.close();
    return found;
  });
  return { suite: "limits", rows, facts: { durability: "normal", keys: KEYS, jobs: JOBS } };
}

async function makeStore(directory: string, name: string, limitOf: (n: number) => Limit | null): Promise<SqliteStore> {
  progress(`limits: ${JOBS} jobs, ${name}`);
  const store = await SqliteStore.open({ path: join(directory, `${name}.db`), durability: "normal" });
  const process = { hostname: "bench", pid: 1, version: "0.0.0", workers: LIMIT, deadAfter: 3_600_000 };
  await store.register({ id: SERVER, ...process, queues: [QUEUE], kinds: [] });
  const job = { kind: "task", queue: QUEUE, args: "{}", priority: 0, maxAttempts: 10, timeout: null, delay: 0 };
  const rest = {
    runAt: null,
    deadline: null,
    title: null,
    tags: [],
    meta: {},
    recurringId: null,
    unique: null,
    parents: [],
    batch: null,
    afterBatch: null,
  };
  for (let first = 0; first < JOBS; first += 10_000) {
    const jobs = Array.from({ length: 10_000 }, (_, n): NewJob => ({ ...job, ...rest, limit: limitOf(first + n) }));
    await store.insert(jobs);
  }
  return store;
}

/**
 * In rounds, so that all have the same machine. `at` is the quantile that is compared: of claims one after the other about
 * one in a hundred, whatever it claims, is the one that SQLite makes a checkpoint in, which takes forty times as long as the
 * claim, so that the last hundredth says only how many pages were written.
 */
async function compare(
  name: string,
  stores: Readonly<Record<string, Store>>,
  at: number,
  measure: (store: Store) => Promise<number[]>,
): Promise<Row[]> {
  const times = new Map<string, number[]>(Object.keys(stores).map((each) => [each, []]));
  for (let round = 0; round < 4; round += 1) {
    for (const [each, store] of Object.entries(stores)) {
      progress(`limits: ${name}, ${each}`);
      const measured = await measure(store);
      // In the first round Node compiles.
      if (round > 0) times.get(each)?.push(...measured);
    }
  }
  const found = (each: string, q: number): number => quantile(times.get(each) ?? [], q);
  return [...times.keys()].flatMap((each): Row[] => [
    ...[0.5, at, 0.99]
      .filter((q, place, all) => all.indexOf(q) === place)
      .map((q): Row => ({ name: `${name}, ${each}: p${100 * q}`, value: found(each, q), unit: "ms", target: null })),
    ...(each === "plain"
      ? []
      : [
          {
            name: `${name}, ${each} ÷ plain: p${100 * at}`,
            value: found(each, at) / found("plain", at),
            unit: "×",
            target: below(5),
          },
        ]),
  ]);
}

let sequence = 0;

async function timedClaim(store: Store, limit: number): Promise<number> {
  sequence += 1;
  const start = performance.now();
  const { jobs } = await store.claim({ server: SERVER, sequence, queues: [QUEUE], kinds: ["task"], limit });
  const time = performance.now() - start;
  if (jobs.length !== limit) throw new Error(`a claim got ${jobs.length} jobs, not ${limit}`);
  return time;
}

async function inTurn(store: Store, limit: number): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < CLAIMS; n += 1) times.push(await timedClaim(store, limit));
  return times;
}

async function competing(store: Store): Promise<number[]> {
  const times: number[] = [];
  const worker = async (): Promise<void> => {
    for (let n = 0; n < CLAIMS / WORKERS; n += 1) times.push(await timedClaim(store, 1));
  };
  await Promise.all(Array.from({ length: WORKERS }, worker));
  return times;
}
