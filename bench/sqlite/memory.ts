/** Memory of a server with a million ready jobs in the store, against one with none. */
import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Child, median, progress } from "../measure.ts";
import { atMost, type Row } from "../report.ts";
import type { Memory } from "./memory-child.ts";

const ROUNDS = 3;

/** Which file a server works on, and which kind its handler is for. */
interface Case {
  readonly file: string;
  readonly kind: string;
}

/**
 * `fullFile` holds a million ready jobs, some of kind `kind`. They are left alone in one case; in the other the server
 * runs them, until its handlers, which don't end, have taken all of its workers.
 */
export async function memory(emptyFile: string, fullFile: string, kind: string): Promise<Row[]> {
  progress(`memory: ${ROUNDS} rounds of 3 servers`);
  const cases = {
    none: { file: emptyFile, kind },
    others: { file: fullFile, kind: "absent" },
    own: { file: fullFile, kind },
  };
  const names = ["none", "others", "own"] as const;
  const rounds: Record<(typeof names)[number], number>[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const [none, others, own] = await Promise.all(names.map((name) => measure(cases[name], `${round}-${name}`)));
    rounds.push({ none: none ?? 0, others: others ?? 0, own: own ?? 0 });
  }
  const ratio = (name: "others" | "own"): number => median(rounds.map((round) => round[name] / round.none));
  const mega = (name: (typeof names)[number]): number => median(rounds.map((round) => round[name])) / 2 ** 20;
  const title = "memory of a server, 1,000,000 ready jobs";
  return [
    { name: `${title} of other kinds ÷ none`, value: ratio("others"), unit: "×", target: atMost(1.1) },
    { name: `${title} of its own ÷ none`, value: ratio("own"), unit: "×", target: atMost(1.1) },
    { name: "memory of a server, no jobs", value: mega("none"), unit: "MiB", target: null },
    { name: `${title} of other kinds`, value: mega("others"), unit: "MiB", target: null },
    { name: `${title} of its own`, value: mega("own"), unit: "MiB", target: null },
  ];
}

/** Bytes. On a copy of the file, so that servers don't find each other's jobs. */
async function measure({ file, kind }: Case, name: string): Promise<number> {
  const copy = `${file}-${name}`;
  await copyFile(file, copy);
  const child = new Child(join(import.meta.dirname, "memory-child.ts"), [copy, kind], ["--expose-gc"]);
  try {
    const { rss } = await child.next<Memory>();
    return rss;
  } finally {
    await child.stop();
    for (const suffix of ["", "-wal", "-shm"]) await rm(`${copy}${suffix}`, { force: true });
  }
}
