/** What waits to run, for tests of code that enqueues. */

import { AssertionError } from "node:assert";
import { isDeepStrictEqual } from "node:util";
import type { Client } from "../client.ts";
import { JobDefinition } from "../job.ts";
import { type Decoded, decodeJson, encodeJson } from "../json.ts";
import { invalid } from "../problems.ts";
import { shown } from "../rules/text.ts";
import type { JobState } from "../store.ts";
import { hasMethods } from "../validate.ts";
import type { JobView } from "../view.ts";

/** A job that waits, with its args typed: as they were enqueued, so before the schema's transforms and defaults. */
export type EnqueuedJob<Input> = JobView & { readonly args: Decoded<Input> };

/** Some of the args, each compared deeply as JSON, or a function that says whether a job is meant. */
export type JobMatch<Input> = Partial<Input> | ((job: EnqueuedJob<Input>) => boolean);

/** Where a job that was enqueued stays until it runs, in the order in which it is looked for. */
const WAITING = ["enqueued", "throttled", "scheduled", "awaiting"] as const satisfies readonly JobState[];
/** Jobs that a message shows. */
const SHOWN = 5;

/**
 * The first job of this kind that is enqueued or scheduled and matches; without `match`, any of the kind. A job that waits
 * for its next attempt is among them.
 *
 *     const job = await assertEnqueued(client, sendMail, { to: "ada@example.com" });
 *     assert.equal(job.queue, "mail");
 *
 * @throws AssertionError that says what waits instead
 */
export async function assertEnqueued<Input, Args, Output>(
  client: Client,
  definition: JobDefinition<Input, Args, Output>,
  match?: JobMatch<NoInfer<Input>>,
): Promise<EnqueuedJob<Input>> {
  check("assertEnqueued", client, definition);
  const matches = matcher("assertEnqueued", match);
  const others: JobView[] = [];
  for await (const job of waiting(client, definition.kind)) {
    if (matches(job)) return job as EnqueuedJob<Input>;
    others.push(job);
  }
  const what = `no ${definition.kind} job${described(match)} is enqueued or scheduled`;
  const instead = others.length > 0 ? `, but ${list(others)}` : await whatElse(client);
  throw failure(`${what}${instead}`, assertEnqueued);
}

/**
 * Fails when `assertEnqueued` would find a job.
 *
 *     await assertNotEnqueued(client, sendMail, (job) => job.args.to.endsWith("@example.com"));
 *
 * @throws AssertionError that shows the jobs
 */
export async function assertNotEnqueued<Input, Args, Output>(
  client: Client,
  definition: JobDefinition<Input, Args, Output>,
  match?: JobMatch<NoInfer<Input>>,
): Promise<void> {
  check("assertNotEnqueued", client, definition);
  const matches = matcher("assertNotEnqueued", match);
  const found: JobView[] = [];
  for await (const job of waiting(client, definition.kind)) if (matches(job)) found.push(job);
  if (found.length === 0) return;
  throw failure(`${definition.kind} should have no job${described(match)}, but ${list(found)}`, assertNotEnqueued);
}

function check(name: string, client: unknown, definition: unknown): void {
  const refuse = (field: string, value: unknown, rule: string): never => {
    throw invalid(`bad ${name}`, field, value, rule);
  };
  if (!hasMethods(client, ["list", "counts"])) refuse("client", client, "must be a client");
  if (!JobDefinition.is(definition)) refuse("definition", definition, "must be what defineJob returned");
}

/** Of one kind, or of any. */
async function* waiting(client: Client, kind?: string): AsyncGenerator<JobView> {
  for (const state of WAITING) {
    let cursor: string | null = null;
    do {
      const query = { state, limit: 500, ...(kind !== undefined && { kind }), ...(cursor !== null && { cursor }) };
      const page: Awaited<ReturnType<Client["list"]>> = await client.list(query);
      yield* page.jobs;
      cursor = page.next;
    } while (cursor !== null);
  }
}

function matcher(name: string, match: unknown): (job: JobView) => boolean {
  if (match === undefined) return () => true;
  if (typeof match === "function") return (job) => Boolean(match(job));
  const wanted = decodeJson(encodeJson(match, `bad ${name}`, "match"));
  return ({ args }) => includes(args, wanted);
}

/** Every property of `wanted` is among the args; what has no properties must be the args. */
function includes(args: unknown, wanted: unknown): boolean {
  if (!isRecord(args) || !isRecord(wanted)) return isDeepStrictEqual(args, wanted);
  return Object.keys(wanted).every((key) => Object.hasOwn(args, key) && isDeepStrictEqual(args[key], wanted[key]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function described(match: unknown): string {
  if (match === undefined) return "";
  return typeof match === "function" ? " that the function accepts" : ` with args ${shown(match)}`;
}

function list(jobs: readonly JobView[]): string {
  const lines = jobs.slice(0, SHOWN).map(({ id, state, args }) => `\n  job ${id}, ${state}: ${shown(args)}`);
  const more = jobs.length > SHOWN ? `\n  and ${jobs.length - SHOWN} more` : "";
  return `there ${jobs.length === 1 ? "is" : "are"}:${lines.join("")}${more}`;
}

/** How many jobs of each other kind wait. */
async function whatElse(client: Client): Promise<string> {
  const counts = new Map<string, number>();
  for await (const { kind } of waiting(client)) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  if (counts.size === 0) return ", nor is any other job";
  return `; of other kinds: ${[...counts].map(([kind, count]) => `${count} ${kind}`).join(", ")}`;
}

function failure(message: string, stackStartFn: (...args: never[]) => unknown): AssertionError {
  return new AssertionError({ message, stackStartFn: stackStartFn as (...args: unknown[]) => unknown });
}
