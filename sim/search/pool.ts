/** Searches in processes of their own, and ends those that do not get on. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { systemRuntime } from "../../engine/runtime.ts";
import type { PlainFailure } from "../run/run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { emptyStatistics, type Found, type SearchResult, type Statistics } from "./search.ts";
import type { Report, Task } from "./worker.ts";

export interface PoolOptions {
  /** Each gets a process. */
  readonly tasks: readonly (Task & { readonly type: "search" })[];
  /** Milliseconds that one run may take before its process is ended. */
  readonly patience: number;
  readonly onProgress?: (statistics: Statistics) => void;
  readonly onFound?: (found: Found) => void;
  /** Default: `worker.ts`. */
  readonly worker?: URL;
}

const WORKER = new URL("./worker.ts", import.meta.url);

/** A process for a task; what it reports goes to `onReport`. */
export function startWorker(task: Task, onReport: (report: Report) => void, worker = WORKER): ChildProcess {
  const child = fork(fileURLToPath(worker), [JSON.stringify(task)]);
  child.on("message", (report) => onReport(report as Report));
  return child;
}

/** @throws Error when a process ends without an answer that was not ended for being stuck */
export async function searchInProcesses(options: PoolOptions): Promise<SearchResult> {
  const progress = options.tasks.map(() => emptyStatistics());
  const results = await Promise.all(
    options.tasks.map((task, index) =>
      searchInProcess(task, options, (statistics) => {
        progress[index] = statistics;
        options.onProgress?.(sumOf(progress));
      }),
    ),
  );
  return {
    statistics: sumOf(results.map(({ statistics }) => statistics)),
    found: results.flatMap(({ found }) => found),
  };
}

function searchInProcess(
  task: Task & { readonly type: "search" },
  { patience, onFound, worker }: PoolOptions,
  onStatistics: (statistics: Statistics) => void,
): Promise<SearchResult> {
  return new Promise((resolve, reject) => {
    const found: Found[] = [];
    let statistics = emptyStatistics();
    let current: Scenario | null = null;
    let result: SearchResult | null = null;
    let stuck = false;
    const add = (one: Found): void => {
      found.push(one);
      onFound?.(one);
    };
    const giveUp = (): void => {
      stuck = true;
      child.kill("SIGKILL");
    };
    let cancel = systemRuntime.timer(patience, giveUp);
    const child = startWorker(
      task,
      (report) => {
        cancel();
        cancel = systemRuntime.timer(patience, giveUp);
        if (report.type === "at") {
          ({ scenario: current, statistics } = report);
          onStatistics(statistics);
        } else if (report.type === "found") add(report.found);
        else if (report.type === "searched") result = report.result;
      },
      worker,
    );
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      cancel();
      if (result !== null) return resolve(result);
      if (!stuck || current === null) return reject(new Error(`a search ended with ${signal ?? code}`));
      add({ store: task.store, drawn: current, scenario: current, failure: stuckFailure(patience), runs: 0 });
      resolve({ statistics: { ...statistics, failed: statistics.failed + 1 }, found });
    });
  });
}

function stuckFailure(patience: number): PlainFailure {
  const message = `a run did not end within ${patience / 1_000} s of real time`;
  return { invariant: "error", message, signature: `error ${message}`, job: null, at: 0 };
}

function sumOf(all: readonly Statistics[]): Statistics {
  const sum = emptyStatistics();
  for (const { marks, took, ...numbers } of all) {
    for (const [name, value] of Object.entries(numbers)) sum[name as keyof typeof numbers] += value;
    // They run at the same time.
    sum.took = Math.max(sum.took, took);
    for (const [mark, count] of Object.entries(marks)) sum.marks[mark] = (sum.marks[mark] ?? 0) + count;
  }
  return sum;
}
