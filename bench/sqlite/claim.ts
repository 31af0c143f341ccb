/** What a claim takes with a million ready jobs of other kinds in the same queue, against one with none. */
import type { ClaimQuery, Store } from "../../engine/store.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { median, progress, quantile } from "../measure.ts";
import { atMost, type Row } from "../report.ts";
import { QUEUE } from "./files.ts";

/** Jobs that one claim asks for. */
const LIMIT = 10;
const ROUNDS = 3;
/** Claims of one round on each of the two stores. */
const CLAIMS = 300;
const OWN_KINDS = [1, 5, 20];
const SERVER = "bench";

interface Side {
  readonly store: Store;
  readonly times: number[];
}

/** The two files differ in nothing but the jobs of other kinds; new jobs are added to both. */
export async function claim(emptyFile: string, fullFile: string): Promise<Row[]> {
  // Without the wait for the disk, which is the same on both sides and would hide a difference.
  const empty = await SqliteStore.open({ path: emptyFile, durability: "normal" });
  const full = await SqliteStore.open({ path: fullFile, durability: "normal" });
  const rows: Row[] = [];
  for (const store of [empty, full]) await register(store);
  for (const count of OWN_KINDS) {
    progress(`claim: ${count} own kinds`);
    const kinds = Array.from({ length: count }, (_, index) => `own_${count}_${index}`);
    rows.push(...(await compareClaims(`claim, ${count} own kind${count > 1 ? "s" : ""}`, kinds, empty, full)));
  }
  progress("claim: nothing to claim");
  rows.push(...(await compareClaims("claim of nothing", ["absent"], empty, full, { jobs: false })));
  for (const store of [empty, full]) await store.close();
  return rows;
}

async function compareClaims(
  name: string,
  kinds: readonly string[],
  empty: Store,
  full: Store,
  { jobs } = { jobs: true },
): Promise<Row[]> {
  const ratios: number[] = [];
  const all: { empty: number[]; full: number[] } = { empty: [], full: [] };
  for (let round = 0; round < ROUNDS; round += 1) {
    if (jobs) for (const store of [empty, full]) await addJobs(store, kinds);
    const times = await alternate(kinds, empty, full, jobs ? LIMIT : 0);
    ratios.push(median(times.full) / median(times.empty));
    all.empty.push(...times.empty);
    all.full.push(...times.full);
  }
  return [
    { name: `${name}: 1,000,000 others ÷ none, p50`, value: median(ratios), unit: "×", target: atMost(1.2) },
    { name: `${name}: none, p50`, value: median(all.empty), unit: "ms", target: null },
    { name: `${name}: none, p99`, value: quantile(all.empty, 0.99), unit: "ms", target: null },
    { name: `${name}: 1,000,000 others, p50`, value: median(all.full), unit: "ms", target: null },
    { name: `${name}: 1,000,000 others, p99`, value: quantile(all.full, 0.99), unit: "ms", target: null },
  ];
}

/** Claim by claim in turn, so that both have the same machine. */
async function alternate(
  kinds: readonly string[],
  empty: Store,
  full: Store,
  expected: number,
): Promise<{ empty: number[]; full: number[] }> {
  const a: Side = { store: empty, times: [] };
  const b: Side = { store: full, times: [] };
  for (let sequence = 1; sequence <= CLAIMS; sequence += 1) {
    const query: ClaimQuery = { server: SERVER, sequence, queues: [QUEUE], kinds, limit: LIMIT };
    for (const { store, times } of sequence % 2 === 0 ? [a, b] : [b, a]) {
      const start = performance.now();
      const { known, jobs } = await store.claim(query);
      times.push(performance.now() - start);
      if (!known || jobs.length !== expected) throw new Error(`a claim got ${jobs.length} jobs, not ${expected}`);
    }
  }
  return { empty: a.times, full: b.times };
}

async function addJobs(store: Store, kinds: readonly string[]): Promise<void> {
  const job = { queue: QUEUE, args: "{}", priority: 0, maxAttempts: 10, timeout: null, delay: 0, runAt: null };
  const rest = {
    deadline: null,
    title: null,
    tags: [],
    meta: {},
    recurringId: null,
    unique: null,
    parents: [],
    limit: null,
    batch: null,
    afterBatch: null,
  };
  const count = CLAIMS * LIMIT;
  await store.insert(
    Array.from({ length: count }, (_, i) => ({ ...job, ...rest, kind: kinds[i % kinds.length] ?? "" })),
  );
}

async function register(store: Store): Promise<void> {
  const process = { hostname: "bench", pid: 1, version: "0.0.0" };
  await store.register({ id: SERVER, ...process, queues: [QUEUE], kinds: [], workers: LIMIT, deadAfter: 3_600_000 });
}
