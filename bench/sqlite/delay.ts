/** How late delayed jobs start on an idle server, and how late a timer of Node's alone is beside it. */
import { join } from "node:path";
import { Child, median, progress, quantile, withDirectory } from "../measure.ts";
import { atMost, type Row } from "../report.ts";
import type { Late } from "./delay-child.ts";

const ROUNDS = 3;

export async function delay(): Promise<Row[]> {
  progress("delay: jobs that become due while the server is idle");
  const { jobs, timers } = await withDirectory(async (directory) => {
    const child = new Child(join(import.meta.dirname, "delay-child.ts"), [join(directory, "kiln.db")]);
    try {
      return await child.next<Late>();
    } finally {
      await child.stop();
    }
  });
  return [
    { name: "delayed job's start − due time, p99", value: p99(jobs), unit: "ms", target: atMost(10) },
    { name: "delayed job's start − due time, p50", value: median(jobs), unit: "ms", target: null },
    { name: "setTimeout's start − due time beside it, p99", value: p99(timers), unit: "ms", target: null },
  ];
}

/** The median of that of each round. The values are in the order of time. */
function p99(values: readonly number[]): number {
  const length = Math.ceil(values.length / ROUNDS);
  const rounds = Array.from({ length: ROUNDS }, (_, n) => values.slice(n * length, (n + 1) * length));
  return median(rounds.map((round) => quantile(round, 0.99)));
}
