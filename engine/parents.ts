/** Which jobs and batches a new job belongs to and waits for, as users say it. */
import type { OptionsChecker } from "./enqueue.ts";
import { IDS, readInteger } from "./problems.ts";
import { type JobId, type NewJob, PARENT_STATES, type Parent } from "./store.ts";

const SUCCEEDED = ["succeeded"] as const;

/** `call` says where the job stands among several; without it there are no positions that it could need. */
export function readParents(
  check: OptionsChecker,
  call: { readonly index: number; readonly count: number } | undefined,
): Parent[] {
  const after = readIds(check, "after").map((id): Parent => ({ id, on: SUCCEEDED }));
  const finished = readIds(check, "afterFinished").map((id): Parent => ({ id, on: PARENT_STATES }));
  const needs = call === undefined ? [] : readNeeds(check, call).map((index): Parent => ({ index, on: SUCCEEDED }));
  return [...after, ...finished, ...needs];
}

function readIds(check: OptionsChecker, field: "after" | "afterFinished"): JobId[] {
  if (!check.has(field)) return [];
  const value = check.value(field);
  if (typeof value === "number") return [readInteger(check.problems, check.field(field), value, IDS) ?? 0];
  if (!isArray(value)) {
    check.refuse(field, "must be the id of a job or an array of ids");
    return [];
  }
  const ids = check.array(field) ?? [];
  return ids.map((id, place) => readInteger(check.problems, `${check.field(field)}[${place}]`, id, IDS) ?? 0);
}

/** The batch that the job joins and the one that it waits for; those that are `decided` must not be given. */
export function readBatches(
  check: OptionsChecker,
  decided: readonly ("batch" | "afterBatch")[] = [],
): Pick<NewJob, "batch" | "afterBatch"> {
  for (const field of decided) if (check.has(field)) check.refuse(field, "must not be given to a job of a Batch");
  const batch = check.integer("batch", { ...IDS, default: null });
  const afterBatch = check.integer("afterBatch", { ...IDS, default: null });
  if (batch !== null && batch === afterBatch) check.refuse("afterBatch", "must not be the batch that the job joins");
  return { batch, afterBatch };
}

/** False for what can't be told. */
function isArray(value: unknown): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

function readNeeds(check: OptionsChecker, { index, count }: { index: number; count: number }): number[] {
  const given = check.array("needs") ?? [];
  return given.map((position, place) => {
    const known = typeof position === "number" && Number.isInteger(position) && position >= 0 && position < count;
    if (known && position !== index) return position;
    check.problems.add(
      `${check.field("needs")}[${place}]`,
      position,
      "must be the position of another job of the call",
    );
    return 0;
  });
}
