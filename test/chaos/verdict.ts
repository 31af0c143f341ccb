/** What must hold after the chaos, whatever happened in it. Pure, so that it can be shown to find what is wrong. */
import type { JobId, JobRecord, JobState } from "../../engine/store.ts";

/** One run of a handler, as its process wrote it down. Instants are milliseconds of one clock for all processes. */
export interface Run {
  readonly id: JobId;
  readonly attempt: number;
  readonly process: string;
  readonly start: number;
  /** For a killed run: when its process was known to be gone. */
  readonly end: number;
  readonly how: RunEnd;
}

export type RunEnd =
  | "returned"
  | "threw"
  /** Aborted by its stopping server: handed back, the attempt does not count. */
  | "shutdown"
  /** Aborted by its server because it could not prove that it held the job. */
  | "fenced"
  /** Its process was killed while it ran. */
  | "killed";

/** What was enqueued, and how it has to end. */
export interface Expected {
  readonly id: JobId;
  readonly kind: string;
  readonly state: JobState;
}

export interface Evidence {
  readonly expected: readonly Expected[];
  readonly records: ReadonlyMap<JobId, JobRecord>;
  readonly runs: readonly Run[];
  /** Processes that were killed or declared dead: what their handlers returned may never have been stored. */
  readonly cutOff: ReadonlySet<string>;
  /** Rows of the table of live jobs and of the archive. */
  readonly rows: { readonly live: number; readonly archived: number };
}

/** Everything that is wrong, in words; empty = all is well. */
export function verdict(evidence: Evidence): string[] {
  const runsOf = Map.groupBy(evidence.runs, ({ id }) => id);
  const known = new Set(evidence.expected.map(({ id }) => id));
  const problems = evidence.expected.flatMap((expected) => {
    const runs = (runsOf.get(expected.id) ?? []).toSorted((a, b) => a.start - b.start);
    return ofJob(expected, evidence.records.get(expected.id), runs, evidence.cutOff);
  });
  for (const id of runsOf.keys()) if (!known.has(id)) problems.push(`job ${id} ran though it was never enqueued`);
  const { live, archived } = evidence.rows;
  if (live + archived !== known.size) {
    problems.push(`${known.size} jobs were enqueued, ${live} are live and ${archived} archived`);
  }
  return problems;
}

function ofJob(
  { id, kind, state }: Expected,
  record: JobRecord | undefined,
  runs: readonly Run[],
  cutOff: ReadonlySet<string>,
): string[] {
  const name = `job ${id} (${kind})`;
  if (record === undefined) return [`${name} is lost`];
  const problems: string[] = [];
  if (record.state !== state) problems.push(`${name} ended as ${record.state}, not ${state}`);
  if (state === "succeeded" && !runs.some(({ how }) => how === "returned")) problems.push(`${name} never succeeded`);
  for (const { attempt } of runs) {
    if (attempt > record.maxAttempts) problems.push(`${name} had attempt ${attempt} of ${record.maxAttempts}`);
  }
  for (const { attempt, how, process } of runs) {
    if (how === "killed" && !cutOff.has(process)) problems.push(`${name}: attempt ${attempt} never came to an end`);
  }
  problems.push(...overlaps(name, runs), ...repeats(name, runs, cutOff), ...numbering(name, record, runs));
  return problems;
}

function overlaps(name: string, runs: readonly Run[]): string[] {
  let until = Number.NEGATIVE_INFINITY;
  return runs.flatMap(({ attempt, start, end }) => {
    const early = until - start;
    until = Math.max(until, end);
    return early > 0 ? [`${name}: attempt ${attempt} began ${early.toFixed(1)} ms before the end of a run`] : [];
  });
}

/** A success of a process that was not cut off was stored, so nothing may have run after it. */
function repeats(name: string, runs: readonly Run[], cutOff: ReadonlySet<string>): string[] {
  return runs
    .slice(0, -1)
    .filter(({ how, process }) => how === "returned" && !cutOff.has(process))
    .map(({ attempt }) => `${name} ran again after attempt ${attempt} had succeeded`);
}

/** Attempts count from 1 without a gap; only a run that was handed back gives its number to the next one. */
function numbering(name: string, record: JobRecord, runs: readonly Run[]): string[] {
  // Claims of killed processes that never got as far as the handler.
  const orphaned = new Set(record.history.filter(({ reason }) => reason === "orphaned").map(({ attempt }) => attempt));
  const problems: string[] = [];
  let next = 1;
  /** Of a fenced run: it was handed back or rescued, as it happened. */
  let mayComeAgain: number | null = null;
  const skipTo = (attempt: number, what: string): void => {
    for (; next < attempt; next += 1) {
      if (!orphaned.has(next)) problems.push(`${name}: nothing is known of attempt ${next} before ${what}`);
    }
  };
  for (const { attempt, how } of runs) {
    if (attempt < next && attempt !== mayComeAgain) problems.push(`${name}: attempt ${attempt} was repeated`);
    skipTo(attempt, `attempt ${attempt}`);
    if (how !== "shutdown") next = Math.max(next, attempt + 1);
    mayComeAgain = how === "fenced" ? attempt : null;
  }
  skipTo(record.attempt + 1, "the end");
  if (next !== record.attempt + 1) problems.push(`${name} had ${next - 1} attempts, its record says ${record.attempt}`);
  return problems;
}
