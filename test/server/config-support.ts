/** What the tests of a server's config share. */
import assert from "node:assert/strict";
import { InvalidError, type Problem } from "../../engine/errors.ts";
import { defineJob, type Handler } from "../../engine/job.ts";
import { resolveConfig, type ServerConfig } from "../../engine/server/config.ts";

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export const handler = (kind = "task"): Handler => defineJob(kind).handler(() => {});
export const BASE: ServerConfig = { handlers: [handler()], queues: { default: 1 } };

/** What is wrong with a config, which is taken as it is. */
export function problemsOf(config: unknown): readonly Problem[] {
  try {
    resolveConfig(config as ServerConfig);
  } catch (error) {
    assert.ok(error instanceof InvalidError, String(error));
    assert.ok(error.problems.length > 0);
    return error.problems;
  }
  return [];
}

/** Refused for this field alone, by a rule that matches. `fields` stand beside a handler and a queue. */
export function refused(fields: object, field: string, rule: RegExp): void {
  const problems = problemsOf({ ...BASE, ...fields });
  assert.deepEqual(
    problems.map((problem) => problem.field),
    [field],
    JSON.stringify(problems),
  );
  assert.match(problems[0]?.rule ?? "", rule);
}
