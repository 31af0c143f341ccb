/** A scenario in a file, with what it is about: a failure that was found, or one that must never come back. */
import { InvalidError } from "../../engine/errors.ts";
import { invalid } from "../../engine/problems.ts";
import { STORE_KINDS, type StoreKind } from "../cluster/database.ts";
import { checkScenario } from "./check-scenario.ts";
import type { Scenario } from "./scenario.ts";

export interface Case {
  /** What is, or was, wrong. */
  readonly what: string;
  /** The stores that it was seen on. */
  readonly stores: readonly StoreKind[];
  /** Of the failure; null when there is none. */
  readonly signature: string | null;
  /** Of the program that it was seen with. */
  readonly commit: string | null;
  readonly scenario: Scenario;
}

const WHAT = "not a case";
const FIELDS: readonly string[] = ["what", "stores", "signature", "commit", "scenario"] satisfies (keyof Case)[];

/** Reads a case, or a bare scenario as one. @throws InvalidError naming the fields that are wrong */
export function parseCase(text: string): Case {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const shown = text.length > 60 ? `…${text.slice(-60)}` : text;
    throw invalid(WHAT, "file", shown, `must be JSON and not be cut off (${(error as Error).message})`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid(WHAT, "file", value, "must be an object");
  }
  if (!("scenario" in value)) {
    return { what: "", stores: STORE_KINDS, signature: null, commit: null, scenario: checkScenario(value) };
  }
  return checkCase(value as Readonly<Record<string, unknown>>);
}

function checkCase(value: Readonly<Record<string, unknown>>): Case {
  for (const name of Object.keys(value)) {
    if (!FIELDS.includes(name)) throw invalid(WHAT, name, value[name], "is unknown");
  }
  const { what = "", stores = STORE_KINDS, signature = null, commit = null } = value;
  if (typeof what !== "string") throw invalid(WHAT, "what", what, "must be text");
  if (!Array.isArray(stores) || stores.length === 0 || !stores.every((store) => STORE_KINDS.includes(store))) {
    throw invalid(WHAT, "stores", stores, `must be some of ${STORE_KINDS.join(", ")}`);
  }
  for (const [name, of] of Object.entries({ signature, commit })) {
    if (of !== null && typeof of !== "string") throw invalid(WHAT, name, of, "must be text or null");
  }
  return {
    what,
    stores: stores as StoreKind[],
    signature: signature as string | null,
    commit: commit as string | null,
    scenario: scenarioIn(value["scenario"]),
  };
}

function scenarioIn(value: unknown): Scenario {
  try {
    return checkScenario(value);
  } catch (error) {
    if (!(error instanceof InvalidError)) throw error;
    throw new InvalidError(
      WHAT,
      error.problems.map((problem) => ({ ...problem, field: `scenario.${problem.field}` })),
    );
  }
}

export function caseToText(of: Case): string {
  return `${JSON.stringify(of, null, 1)}\n`;
}
