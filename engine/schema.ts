/** Args against the schema of their kind, at enqueue and again before the handler. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { PermanentError } from "./errors.ts";
import type { AnyJobDefinition } from "./job.ts";
import { decodeJson } from "./json.ts";
import { Problems, pathStep } from "./problems.ts";
import { serializeError } from "./rules/serialize-error.ts";
import type { JsonText } from "./store.ts";

type Result = StandardSchemaV1.Result<unknown>;

/** True for anything that speaks Standard Schema, version 1. */
export function isSchema(value: unknown): value is StandardSchemaV1 {
  if ((typeof value !== "object" || value === null) && typeof value !== "function") return false;
  try {
    const standard = (value as Partial<StandardSchemaV1>)["~standard"];
    return standard?.version === 1 && typeof standard.validate === "function";
  } catch {
    return false;
  }
}

/**
 * Adds a problem for each way in which stored args do not fit; a promise only when the schema is asynchronous. What is
 * checked is the JSON, since that is what the handler's schema will see: a `Date`, for example, is a string by then.
 */
export function checkArgs(
  problems: Problems,
  field: string,
  schema: StandardSchemaV1,
  args: JsonText,
): void | Promise<void> {
  const value = decodeJson(args);
  const fail = (error: unknown): void =>
    problems.add(field, value, `can't be checked by its schema (${serializeError(error).error})`);
  const report = (result: Result): void => addIssues(problems, field, value, result);
  try {
    const result = schema["~standard"].validate(value);
    return "then" in result ? result.then(report).catch(fail) : report(result);
  } catch (error) {
    fail(error);
  }
}

/**
 * The args for a handler: decoded, and through the schema with its transforms and defaults.
 * @throws PermanentError when they are not JSON or do not fit the schema; whatever the schema itself throws
 */
export async function decodeArgs(definition: AnyJobDefinition, args: JsonText): Promise<unknown> {
  const value = decodeStored(definition, args);
  if (definition.schema === null) return value;
  const result = await definition.schema["~standard"].validate(value);
  const problems = new Problems();
  addIssues(problems, "args", value, result);
  const error = problems.error(`the args of ${definition.kind} do not fit its schema`);
  if (error !== null) throw new PermanentError(error.message);
  return (result as StandardSchemaV1.SuccessResult<unknown>).value;
}

function decodeStored({ kind }: AnyJobDefinition, args: JsonText): unknown {
  try {
    return decodeJson(args);
  } catch (cause) {
    throw new PermanentError(`the args of ${kind} are not JSON`, { cause });
  }
}

function addIssues(problems: Problems, field: string, value: unknown, { issues }: Result): void {
  if (!issues) return;
  if (issues.length === 0) problems.add(field, value, "must fit the schema");
  for (const { message, path = [] } of issues) {
    const keys = path.map((segment) => (typeof segment === "object" ? segment.key : segment));
    const text = keys.map((key) => pathStep(typeof key === "number" ? key : String(key))).join("");
    problems.add(`${field}${text}`, at(value, keys), `must fit the schema (${message})`);
  }
}

/** The part of a decoded value that an issue is about. */
function at(value: unknown, keys: readonly PropertyKey[]): unknown {
  return keys.reduce<unknown>(
    (part, key) => (typeof part === "object" && part !== null ? Reflect.get(part, key) : undefined),
    value,
  );
}
