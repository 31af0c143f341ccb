/** Which jobs an operator means: filters and queries as users write them. */
import { IDS, invalid, Problems, readInteger } from "./problems.ts";
import { KIND, PAGE, QUEUE, RECURRING } from "./rules/limits.ts";
import { KIND_RULE, QUEUE_RULE, RECURRING_RULE } from "./rules/values.ts";
import { JOB_STATES, type JobFilter, type JobId, type JobQuery } from "./store.ts";
import { Checker, copyArray } from "./validate.ts";

type Fields = Pick<JobFilter, "queue" | "kind" | "batch" | "recurringId">;
const FIELDS = ["queue", "kind", "batch", "recurringId"] as const satisfies readonly (keyof Fields)[];

/** The fields that filters and queries have in common. */
function readFields<Field extends string>(check: Checker<Field | keyof Fields>): Fields {
  const queue = check.name("queue", QUEUE, QUEUE_RULE);
  const kind = check.name("kind", KIND, KIND_RULE);
  const batch = check.integer("batch", IDS);
  const recurringId = check.name("recurringId", RECURRING, RECURRING_RULE);
  return {
    ...(queue !== undefined && { queue }),
    ...(kind !== undefined && { kind }),
    ...(batch !== undefined && { batch }),
    ...(recurringId !== undefined && { recurringId }),
  };
}

const FILTERS = ["ids", "state", ...FIELDS] as const satisfies readonly (keyof JobFilter)[];

/** @throws InvalidError */
export function readSelection(what: string, selection: unknown): JobFilter {
  const problems = new Problems();
  const list = typeof selection === "number" ? [selection] : copyArray(selection);
  const filter = list === null ? readFilter(what, selection, problems) : { ids: readIds(problems, list) };
  problems.end(what);
  return filter;
}

function readFilter(what: string, selection: unknown, problems: Problems): JobFilter {
  if (typeof selection !== "object" || selection === null) {
    throw invalid(what, "jobs", selection, "must be an id, an array of ids or a filter");
  }
  const check = new Checker(what, selection, FILTERS, { path: "", problems });
  if (problems.count === 0 && !check.has("ids") && !check.has("state")) {
    problems.add("filter", selection, "must have ids or a state");
  }
  const list = check.array("ids");
  const state = check.oneOf("state", JOB_STATES);
  return {
    ...(list && { ids: readIds(problems, list) }),
    ...(state && { state }),
    ...readFields(check),
  };
}

/** Each once. */
function readIds(problems: Problems, list: readonly unknown[]): JobId[] {
  const ids = list.map((id, index) => readInteger(problems, `ids[${index}]`, id, IDS) ?? 0);
  return [...new Set(ids)];
}

const QUERY = ["state", ...FIELDS, "tag", "limit", "cursor"] as const satisfies readonly (keyof JobQuery)[];

/** @throws InvalidError */
export function readQuery(query: unknown): JobQuery {
  const check = new Checker("can't list jobs", query, QUERY);
  check.required("state");
  const state = check.oneOf("state", JOB_STATES) ?? "enqueued";
  const fields = readFields(check);
  const tag = check.text("tag");
  const limit = check.integer("limit", { min: 1, max: Number.MAX_SAFE_INTEGER, default: PAGE.default });
  const cursor = check.text("cursor");
  check.end();
  return {
    state,
    limit,
    ...fields,
    ...(tag !== undefined && { tag }),
    ...(cursor !== undefined && { cursor }),
  };
}
