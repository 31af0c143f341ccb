/** Looks at kiln's jobs. */
import type { Client, JobQuery, JobView } from "kiln";

/** All jobs that a query finds, page by page. */
export async function* listAll(client: Client, query: JobQuery): AsyncGenerator<JobView> {
  let cursor: string | undefined;
  do {
    const page = await client.list({ ...query, limit: 500, ...(cursor !== undefined && { cursor }) });
    yield* page.jobs;
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
}

/** The message of the error that ended the job, safe to be shown: it may have text of others in it. */
export function reasonOf({ history }: JobView): string {
  const error = history.at(-1)?.error ?? "unknown";
  return error.replace(/^PermanentError: /, "").replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, " ");
}
