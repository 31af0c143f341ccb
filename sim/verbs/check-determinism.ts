/** `check-determinism`: one scenario in two processes, which must do exactly the same. */
import type { ChildProcess } from "node:child_process";
import { parseArgs } from "node:util";
import { EXIT } from "../search/exit.ts";
import { startWorker } from "../search/pool.ts";
import type { BlockRequest, Report, Task } from "../search/worker.ts";
import { BLOCK, firstDifference } from "../tell/trace.ts";
import { sayDifference } from "./diff.ts";
import { caseFrom, only, profileOf, storeOf, type Verb } from "./verb.ts";

const OPTIONS = {
  store: { type: "string", default: "memory" },
  profile: { type: "string", default: "swarm" },
} as const;

export const checkDeterminism: Verb = async (args, io) => {
  const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  const { scenario } = await caseFrom(only(positionals, "FILE or SEED"), profileOf(values.profile));
  const task: Task = { type: "trace", scenario, store: storeOf(values.store) };
  const [one, other] = [new Tracer(task), new Tracer(task)];
  try {
    const [left, right] = await Promise.all([one.traced(), other.traced()]);
    const block = firstBlock(left.hashes, right.hashes);
    if (block === null) {
      io.say(`ok  two processes did the same: ${left.lines} lines`);
      return EXIT.ok;
    }
    const [lines, others] = await Promise.all([one.block(block), other.block(block)]);
    const difference = firstDifference(lines, others);
    if (difference === null) throw new Error("hashes differ, and the lines don't");
    sayDifference(io, { ...difference, index: block * BLOCK + difference.index }, ["first", "second"]);
    return EXIT.nondeterminism;
  } finally {
    one.end();
    other.end();
  }
};

/** The first that differs; null = none. Each hash is of all lines up to there, so halving finds it. */
export function firstBlock(left: readonly number[], right: readonly number[]): number | null {
  let low = 0;
  let high = Math.max(left.length, right.length);
  const most = high;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (left[middle] === right[middle]) low = middle + 1;
    else high = middle;
  }
  return low === most ? null : low;
}

type Traced = Extract<Report, { type: "traced" }>;
type Block = Extract<Report, { type: "block" }>;

/** A process that runs the scenario and then tells of it. */
class Tracer {
  readonly #child: ChildProcess;
  #onReport: (report: Report) => void = () => {};
  #onEnd: (error: Error) => void = () => {};

  constructor(task: Task) {
    this.#child = startWorker(task, (report) => this.#onReport(report));
    this.#child.on("exit", (code, signal) => this.#onEnd(new Error(`a run ended with ${signal ?? code}`)));
    this.#child.on("error", (error) => this.#onEnd(error));
  }

  traced(): Promise<Traced> {
    return this.#next() as Promise<Traced>;
  }

  async block(block: number): Promise<readonly string[]> {
    const answer = this.#next() as Promise<Block>;
    this.#child.send({ block } satisfies BlockRequest);
    return (await answer).lines;
  }

  end(): void {
    this.#child.kill("SIGKILL");
  }

  #next(): Promise<Report> {
    return new Promise((resolve, reject) => {
      this.#onReport = resolve;
      this.#onEnd = reject;
    });
  }
}
