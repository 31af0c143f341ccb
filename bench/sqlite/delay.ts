/** How late delayed jobs start on an idle server, and how late a timer of Node's alone is beside it. */
import { join } from "node:path";
import { Child, progress, quantile, withDirectory } from "../measure.ts";
import { atMost, type Row } from "../report.ts";
import type { Late } from "./delay-child.ts";

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
    { name: "delayed job's start − due time, p99", value: quantile(jobs, 0.99), unit: "ms", target: atMost(10) },
    { name: "delayed job's start − due time, p50", value: quantile(jobs, 0.5), unit: "ms", target: null },
    { name: "setTimeout's start − due time beside it, p99", value: quantile(timers, 0.99), unit: "ms", target: null },
  ];
}
